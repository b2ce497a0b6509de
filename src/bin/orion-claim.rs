//! `orion-claim`: see the crate and `man orion-claim`.
fn main() -> std::process::ExitCode {
    orion_toolkit::claim_main()
}
