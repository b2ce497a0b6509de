//! What a person sees of claims afterwards: the log, what was kept of the output, comments.

#[path = "support/claims.rs"]
mod claims;
mod support;

use claims::Board;
use support::run;

#[test]
fn the_log_is_in_local_time_and_gives_the_lines_that_were_asked_for() {
    let board = Board::with(&["1", "2"]);
    board.claim(&["run", "1", "sh", "-c", "exit 3"]).expect(3);
    board.claim(&["run", "2", "true"]).expect(0);
    let log = |args: &[&str], zone: &str| run(board.command(&[&["log"], args].concat()).env("TZ", zone));
    let local = log(&["1"], "XYZ-3").expect(0);
    assert!(local.stdout.lines().all(|line| line.contains(" XYZ  ")), "{local:?}");
    let ended = local.stdout.lines().last().expect("a line");
    assert!(ended.contains("released") && ended.contains("status 3") && ended.ends_with("failed"), "{ended}");
    let utc = log(&["1", "--utc"], "XYZ-3").expect(0);
    assert!(utc.stdout.lines().all(|line| line.contains(" UTC  ")), "{utc:?}");
    let acquired = log(&["--event", "acquired"], "UTC").expect(0);
    let rows: Vec<&str> = acquired.stdout.lines().collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.contains("  acquired  ")), "{rows:?}");
    assert!(log(&["--since", "1h", "-n", "1"], "UTC").expect(0).stdout.contains("  2  "));
    log(&["--until", "1h"], "UTC").expect(0).prints("nothing logged in ");
    log(&["--event", "fired"], "UTC").expect(64).says("there is no event 'fired'");
    // The story of a moment: on file, whose it was, and what came of it.
    let story = log(&["--at", "0s", "1"], "UTC").expect(0);
    assert!(story.stdout.contains("1 at ") && story.stdout.contains("ended with status 3"), "{story:?}");
    let story = log(&["--at", "0s", "--json"], "UTC").expect(0).json();
    assert_eq!(story["stories"].as_array().map(Vec::len), Some(2), "{story}");
    let rows = log(&["--json", "1"], "UTC").expect(0).json();
    assert!(rows["events"][0]["event"]["at_s"].is_u64(), "{rows}");
    log(&["--at", "0s", "-n", "3"], "UTC").expect(64);
}
