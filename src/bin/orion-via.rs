//! `orion-via`
fn main() -> std::process::ExitCode {
    orion_toolkit::via_main()
}
