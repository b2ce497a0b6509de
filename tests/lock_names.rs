//! Names: only the pattern is a name, and a bad one creates nothing.

mod support;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use support::Tool;

/// Field cases B52 and B53, and names that read as durations.
fn bad_names() -> Vec<OsString> {
    let long = "n".repeat(255);
    let letters = "é".repeat(128);
    let bytes: [&[u8]; 18] = [
        b"",
        b".",
        b"..",
        b"a/b",
        b"../x",
        b" a",
        b"a\nb",
        b"\x1b[2J",
        b"\xff",
        b"caf\xc3\xa9",
        b"cafe\xcc\x81",
        b"_x",
        b".x",
        b"10m",
        b"90s",
        b"1h30m",
        long.as_bytes(),
        letters.as_bytes(),
    ];
    bytes.iter().map(|name| OsString::from_vec(name.to_vec())).collect()
}

#[test]
fn bad_names_are_usage_errors_and_create_nothing() {
    let tool = Tool::new();
    for name in bad_names() {
        for subcommand in [
            &["run", "--", "NAME", "true"][..],
            &["acquire", "--for", "1", "--", "NAME"],
            &["release", "--token", "1", "--", "NAME"],
            &["verify", "--token", "1", "--", "NAME"],
            &["status", "--", "NAME"],
            &["log", "--", "NAME"],
        ] {
            let args: Vec<OsString> = subcommand
                .iter()
                .map(|word| if *word == "NAME" { name.clone() } else { OsString::from(word) })
                .collect();
            let done = tool.lock(&args).expect(64).one_line();
            assert!(!done.stderr.contains('\u{1b}'), "escaped: {done:?}");
            assert_eq!(done.stdout, "", "{done:?}");
        }
        let done = tool.precheck(&[OsString::from("--"), name.clone()]).expect(0).one_line();
        let done = done.says("orion-precheck: not guarding: ");
        assert!(!done.stderr.contains('\u{1b}'), "escaped: {done:?}");
        tool.precheck(&[OsString::from("--strict"), OsString::from("--"), name]).expect(64);
    }
    assert!(!tool.dir().exists(), "nothing is created for a bad name");
}

#[test]
fn a_name_that_reads_as_a_duration_gets_the_line_to_type() {
    let tool = Tool::new();
    tool.lock(&["run", "10m", "true"]).expect(64).says("-w 10m NAME");
    tool.lock(&["run", "-rf", "true"]).expect(64).one_line();
    // A plain number is a name: it has no unit.
    tool.lock(&["run", "10", "true"]).expect(0).silent();
}

#[test]
fn a_hundred_characters_are_a_name_and_case_counts() {
    let tool = Tool::new();
    let long = "n".repeat(100);
    tool.lock(&["run", &long, "true"]).expect(0).silent();
    tool.lock(&["run", &format!("{long}n"), "true"]).expect(64);
    let _upper = tool.hold("Sync");
    tool.lock(&["run", "sync", "true"]).expect(0).silent();
    tool.lock(&["run", "Sync", "true"]).expect(75);
}

#[test]
fn a_bad_name_beside_a_held_one_never_hides_the_skip() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    tool.precheck(&["a/b", "sync"]).expect(75).says("not guarding").says("sync is held by pid");
    tool.precheck(&["sync", "a/b"]).expect(75);
    tool.precheck(&["a/b", "free"]).expect(0).says("not guarding");
}
