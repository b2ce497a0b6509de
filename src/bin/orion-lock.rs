//! `orion-lock`: see [`orion_toolkit::lock_main`].
fn main() {}
