//! What broke in the first version of lock and precheck, by its number: each case as it was found, with
//! its right value, in real namespaces, under real mounts, with real programs.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod elsewhere;
mod files;
mod limits;
mod owners;
mod signals;
mod users;

/// As [`support::run`], for a script of which every line of stdout is an answer.
#[track_caller]
fn answers(command: &mut std::process::Command) -> Vec<String> {
    let done = support::run(command).expect(0);
    done.stdout.lines().map(str::to_owned).collect()
}
