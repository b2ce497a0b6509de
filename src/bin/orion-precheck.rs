//! `orion-precheck`
fn main() -> std::process::ExitCode {
    orion_toolkit::precheck_main()
}
