//! Names: any text is one, few are refused, and a refused one creates nothing.

mod support;

use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use support::{Tool, bin};

/// Field cases B52 and B53, and names that read as durations.
fn bad_names() -> Vec<OsString> {
    let long = "n".repeat(255);
    let letters = "é".repeat(128);
    let bytes: [&[u8]; 15] = [
        b"",
        b".",
        b"..",
        b"./x",
        b"../x",
        b"a\nb",
        b"\x1b[2J",
        b"\xc2\x85",
        b"\xff",
        b"a\xffb",
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
fn two_hundred_bytes_are_a_name_and_case_counts() {
    let tool = Tool::new();
    let long = "n".repeat(200);
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
    tool.precheck(&["./b", "sync"]).expect(75).says("not guarding").says("sync is held by pid");
    tool.precheck(&["sync", "./b"]).expect(75);
    tool.precheck(&["./b", "free"]).expect(0).says("not guarding");
}

/// Names, and what their files are called.
fn names() -> Vec<(String, Option<&'static str>)> {
    let plain =
        ["feature/login", "acme/tools#42", "/tmp/sync.lock", "a b", "it's $(x)", ".x", "_x", "-rf", "100%"];
    let files = [
        "feature%2Flogin",
        "acme%2Ftools%2342",
        "%2Ftmp%2Fsync.lock",
        "a%20b",
        "it%27s%20%24%28x%29",
        "%2Ex",
        "%5Fx",
        "%2Drf",
        "100%25",
    ];
    let mut names: Vec<_> =
        plain.iter().zip(files).map(|(name, file)| ((*name).to_owned(), Some(file))).collect();
    // Composed and decomposed are two, and so are two that have their first part in common.
    names.extend(["caf\u{e9}", "cafe\u{301}"].map(|name| (name.to_owned(), None)));
    names.extend(["/".repeat(200), format!("{}x", "/".repeat(199))].map(|name| (name, None)));
    names
}

#[test]
fn any_text_is_a_name_through_every_command() {
    let tool = Tool::new();
    let names = names();
    for (name, file) in &names {
        let run = |args: &[&str]| tool.lock(args);
        let mut holder =
            tool.hold_with(&["run", "--", name, "sh", "-c", "echo $ORION_LOCK_TOKEN; read -r end"]);
        let token = holder.line.clone();
        let json = run(&["status", "--json", "--", name]).expect(75).json();
        assert_eq!((json["name"].as_str(), json["token"].to_string()), (Some(name.as_str()), token.clone()));
        if let Some(file) = file {
            assert!(tool.file(&format!("{file}.json")).is_file(), "{name}");
        }
        for args in [&["run", "--", name, "true"][..], &["run", "--slots", "2", "--", name, "true"]] {
            run(args).expect(75).one_line().says(name).says("is held by pid");
        }
        tool.precheck(&["--", name]).expect(75).says(name);
        run(&["verify", "--token", &token, "--", name]).expect(0).silent();
        run(&["tick", "--token", &token, "--", name]).expect(0).silent();
        run(&["stop", "--token", &token, "--", name]).expect(0).silent();
        holder.end();
        run(&["log", "--", name]).expect(0).prints(name).prints("acquired");
        run(&["wait", "--", name]).expect(0).silent();
        // Inside, the token of each of them is found by its name.
        let inside =
            "\"$OL\" verify -- \"$1\" && \"$OL\" verify outer && \"$OL\" run --reentrant -- \"$1\" true";
        let program = bin("orion-lock");
        let program = program.to_str().expect("text");
        run(&["run", "outer", program, "run", "--", name, "sh", "-c", inside, "sh", name]).expect(0).silent();
    }
    let list = tool.lock(&["list", "--json"]).expect(0).silent().json();
    let mut listed: Vec<&str> =
        list["locks"].as_array().expect("locks").iter().filter_map(|lock| lock["name"].as_str()).collect();
    listed.retain(|name| *name != "outer");
    let mut all: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    all.sort_unstable();
    assert_eq!(listed, all);
    let plain = tool.lock(&["list", "--names"]).expect(0);
    assert!(all.iter().all(|name| plain.stdout.lines().any(|line| line == *name)), "{plain:?}");
    let timeline = tool.lock(&["timeline", "--json"]).expect(0).stdout;
    for name in &all {
        let text = Value::from(*name).to_string();
        assert!(timeline.contains(&text), "{name}");
    }
    tool.lock(&["check", "--", "acme/tools#42"]).expect(0);
    tool.lock(&["metrics"]).expect(0).prints("\"feature/login\"");
}

#[test]
fn marks_are_escaped_and_a_hint_is_a_line_for_a_shell() {
    let tool = Tool::new();
    let mark = "a\u{202e}b";
    let _marked = tool.hold(mark);
    let done = tool.lock(&["run", mark, "true"]).expect(75).says("a\\u{202e}b is held by");
    assert!(!done.stderr.contains('\u{202e}'), "{done:?}");
    let _spaced = tool.hold("my job");
    let hint =
        tool.lock(&["break", "--token", &tool.record("my%20job")["token"].to_string(), "my job"]).expect(75);
    assert!(hint.stderr.contains(" 'my job'; to free"), "{hint:?}");
}

/// Files in the directory that another program made: said, never touched, and no crash.
#[test]
fn a_file_whose_name_no_lock_can_have_is_reported() {
    let tool = Tool::new();
    tool.lock(&["run", "x", "true"]).expect(0);
    let odd: [&[u8]; 7] =
        [b"%zz.json", b"%41.json", b"a b.json", b"%.json", b"\xff.json", b"a%-00.json", b".json"];
    for file in odd {
        std::fs::write(tool.file("").join(OsString::from_vec(file.to_vec())), "{").expect("write");
    }
    let list = tool.lock(&["list"]).expect(0).prints("x ");
    assert_eq!(list.stderr.matches("is the file of no lock").count(), odd.len(), "{list:?}");
    list.says("\\xff.json");
    tool.lock(&["check"]).expect(0);
    tool.lock(&["metrics"]).expect(0);
    assert_eq!(tool.lock(&["list", "--names"]).expect(0).stdout, "x\n");
    for file in odd {
        assert!(tool.file("").join(OsString::from_vec(file.to_vec())).exists());
    }
}

#[test]
fn the_bash_library_takes_any_name() {
    let tool = Tool::new();
    let library = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/orion.bash");
    let path = support::bin_dir();
    let script = format!(
        ". '{}'\nPATH={}:$PATH\nfor name in 'a b' 'x$(exit 9)y' \"it's\" 'q]\"' feature/login; do\n\
         orion_guard \"$name\" || exit 1\n\"$OL\" verify -- \"$name\" || exit 2\n\
         \"$OL\" run -q -- \"$name\" true; test $? = 75 || exit 3\ndone\n\
         orion_release 'a b' || exit 4\n\"$OL\" status -- 'a b' >/dev/null || exit 5\n\
         orion_release || exit 6\ntest -z \"$ORION_LOCKS\" || exit 7\n\"$OL\" status feature/login >/dev/null",
        library.display(),
        path.display()
    );
    tool.sh(&script).expect(0).silent();
}
