//! `orion-lease`
fn main() -> std::process::ExitCode {
    orion_toolkit::lease_main()
}
