//! `orion-reap`: see [`orion_toolkit::reap_main`].
fn main() -> std::process::ExitCode {
    orion_toolkit::reap_main()
}
