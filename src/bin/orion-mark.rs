//! `orion-mark`: see [`orion_toolkit::mark_main`].
fn main() -> std::process::ExitCode {
    orion_toolkit::mark_main()
}
