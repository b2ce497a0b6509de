//! G09, G14 to G17: sizes, numbers and rights at their ends.

use crate::support::{Tool, run};

#[test]
fn g09_a_note_no_reader_would_accept_is_refused_and_nothing_is_made() {
    let long = "n".repeat(70_000);
    for (command, rest) in [("run", &["x", "true"][..]), ("hold", &["x"]), ("acquire", &["--for", "1", "x"])]
    {
        let tool = Tool::new();
        for note in [long.as_str(), &long[..4097]] {
            let mut arguments = vec![command, "--note", note];
            arguments.extend_from_slice(rest);
            let done = tool.lock(&arguments).expect(64).one_line().says("at most 4096");
            assert!(done.stderr.len() < 300, "{command}: the note is not repeated");
        }
        assert!(!tool.dir().exists(), "{command}: nothing is created");
    }
    // The longest that is taken, at its worst, is read by everybody.
    let tool = Tool::new();
    for note in ["n".repeat(4096), "\u{1}".repeat(4096), "\u{10FFFF}".repeat(1024)] {
        let mut holder = tool.hold_with(&["run", "--note", &note, "x", "sh", "-c", "echo up; read -r end"]);
        tool.precheck(&["x"]).expect(75);
        assert_eq!(tool.lock(&["status", "--json", "x"]).expect(75).json()["note"], note);
        tool.lock(&["run", "x", "true"]).expect(75);
        holder.end();
    }
    assert!(!tool.files().iter().any(|file| file.contains("corrupt")), "{:?}", tool.files());
}

#[test]
fn g16_a_guard_that_nothing_can_follow_is_garbage_said_once() {
    for last in [9_007_199_254_740_990_u64, 9_007_199_254_740_991, 9_007_199_254_740_992, u64::MAX] {
        let tool = Tool::new();
        tool.lock(&["run", "x", "true"]).expect(0);
        std::fs::write(tool.file("x.guard"), format!("{last:020}\n")).expect("write");
        tool.lock(&["run", "x", "true"]).expect(0).one_line().says("tokens may have fallen");
        tool.lock(&["run", "x", "true"]).expect(0).silent();
    }
    // The last token itself can be held, judged and followed.
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    std::fs::write(tool.file("x.guard"), format!("{:020}\n", 9_007_199_254_740_989_u64)).expect("write");
    let mut holder = tool.hold("x");
    assert_eq!(tool.record("x")["token"], 9_007_199_254_740_990_u64);
    tool.lock(&["run", "x", "true"]).expect(75);
    tool.precheck(&["x"]).expect(75);
    holder.end();
    tool.lock(&["run", "x", "true"]).expect(0).one_line().says("tokens may have fallen");
    run(&mut tool.tool("orion-lock", &["run", "x", "true"])).expect(0).silent();
}
