//! `orion-lock`
fn main() -> std::process::ExitCode {
    orion_toolkit::lock_main()
}
