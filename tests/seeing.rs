//! What people and monitoring see of a night: local times, `log --at`, `timeline`, `check`, `metrics`.

#[path = "support/claims.rs"]
mod claims;
mod support;

use serde_json::json;
use support::{Running, Tool};

/// Writes the log of `name`, one run after the other: begin, minutes of refusals, and how it ended.
fn write_log(tool: &Tool, name: &str, lines: &[serde_json::Value]) {
    tool.lock(&["run", "elsewhere", "true"]).expect(0);
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(tool.dir().join("log").join(format!("{name}.jsonl")), text).expect("log");
}

fn line(at: &str, event: &str, token: u64) -> serde_json::Value {
    json!({"at": at, "event": event, "name": "sync", "token": token, "pid": 1000 + token, "comm": "agent"})
}

/// Forty runs, one every quarter of an hour from 20:00 on; every fifth takes 40 minutes, so that the two
/// after it are skipped by it and are not runs. Odd runs are supervised and leave an exact end.
fn night(tool: &Tool) -> Vec<(u64, u64, u64)> {
    let at = |minute: u64| {
        let (day, minute) = (28 + (20 * 60 + minute) / 1440, (20 * 60 + minute) % 1440);
        format!("2026-11-{day}T{:02}:{:02}:00.000Z", minute / 60, minute % 60)
    };
    let (mut lines, mut runs, mut minute) = (Vec::new(), Vec::new(), 0);
    for token in 1..=40 {
        let length = if token % 5 == 0 { 40 } else { 5 };
        lines.push(line(&at(minute), "acquired", token));
        for skipped in (minute + 15..minute + length).step_by(15) {
            lines.push(line(&at(skipped), "skipped", token));
        }
        let next = minute + length.div_ceil(15) * 15;
        let mut ended = line(&at(if token % 2 == 1 { minute + length } else { next }), "ended", token);
        if token % 2 == 1 {
            ended["status"] = json!(if token == 7 { 3 } else { 0 });
        }
        lines.push(ended);
        runs.push((token, minute, minute + length));
        minute = next;
    }
    write_log(tool, "sync", &lines);
    runs
}

#[test]
fn a_night_of_forty_runs_answers_why_a_run_was_skipped() {
    let tool = Tool::new();
    night(&tool);
    let story = |at: &str| {
        let done = tool.lock(&["--json", "log", "--at", at, "sync"]).expect(0);
        let story = done.json()["stories"][0].clone();
        let token = |value: &serde_json::Value| value["token"].as_u64().unwrap_or(0);
        let who =
            if story["state"] == "free" { token(&story["before"]) } else { token(&story["holders"][0]) };
        (story["state"].as_str().expect("a word").to_owned(), who, token(&story["next"]))
    };
    let is = |state: &str, who, next| (state.to_owned(), who, next);
    // Run 5 took 40 minutes from 21:00 on; runs with even numbers leave no end of their own.
    assert_eq!(story("2026-11-28T20:03Z"), is("held", 1, 2));
    assert_eq!(story("2026-11-28T20:10Z"), is("free", 1, 2));
    assert_eq!(story("2026-11-28T20:15Z"), is("held", 2, 3), "the begin belongs to the run");
    assert_eq!(story("2026-11-28T20:17Z"), is("not_known", 2, 3), "nobody saw its end");
    assert_eq!(story("2026-11-28T21:00Z"), is("held", 5, 6));
    assert_eq!(story("2026-11-28T21:15Z"), is("held", 5, 6), "the run that was skipped then");
    assert_eq!(story("2026-11-28T21:39Z"), is("held", 5, 6));
    assert_eq!(story("2026-11-28T21:42Z"), is("free", 5, 6));
    assert_eq!(story("2026-11-28T19:00Z"), is("not_logged", 0, 1));
    // A minute is all of it: cron starts a second after.
    assert_eq!(story("2026-11-28T20:14Z"), is("free", 1, 2));
    assert_eq!(story("2026-11-28T20:14:30Z"), is("free", 1, 2));
    assert_eq!(story("2026-11-29T23:00Z"), is("free", 40, 0));
    // The run that began some seconds into the minute belongs to it.
    write_log(
        &tool,
        "late",
        &[line("2026-11-28T09:45:01.036Z", "acquired", 1), line("2026-11-28T09:45:30Z", "skipped", 1)],
    );
    let done = tool.lock(&["log", "--at", "2026-11-28T09:45Z", "late"]).expect(0);
    assert!(
        done.stdout.contains("held by pid 1001") && done.stdout.contains("skipped meanwhile: once"),
        "{}",
        done.stdout
    );
    assert!(!done.stdout.contains("nothing is logged of that time"));
    tool.lock(&["log", "--at", "2026-11-28T09:45Z", "nosuch"])
        .expect(0)
        .prints("nothing is logged of that time");
    // In the words of a person, in the time zone of a person.
    let mut command = tool.tool("orion-lock", &["log", "--at", "2026-11-28 22:15", "sync"]);
    let done = support::run(command.env("TZ", "CET-1")).expect(0);
    for text in [
        "sync at 2026-11-28 22:15:00 CET: held by pid 1005 (agent), token 5",
        "since 2026-11-28 22:00:00 CET; ended with status 0 at 2026-11-28 22:40:00 CET, after 40m",
        "refused or skipped meanwhile: 2 times, from 2026-11-28 22:15:00 CET to 2026-11-28 22:30:00 CET",
        "next: pid 1006 (agent), token 6, from 2026-11-28 22:45:00 CET",
    ] {
        assert!(done.stdout.contains(text), "{text}\nis not in\n{}", done.stdout);
    }
    let done = tool.lock(&["log", "--at", "2026-11-28T20:17Z", "sync"]).expect(0);
    assert!(
        done.stdout.contains("not known whether pid 1002 (agent), token 2 still held it"),
        "{}",
        done.stdout
    );
    let object = tool.lock(&["--json", "log", "--at", "2026-11-28T20:17Z", "sync"]).expect(0).json();
    let holder = &object["stories"][0]["holders"][0];
    assert_eq!((holder["held_at_least_s"].as_u64(), holder["held_at_most_s"].as_u64()), (Some(0), Some(900)));
}

/// A log that the real programs wrote, and what the commands under them wrote down by themselves; both by
/// `tests/golden/night/record`.
#[test]
fn ten_questions_about_a_recorded_night_have_the_right_runs() {
    let tool = Tool::new();
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/night");
    tool.lock(&["run", "elsewhere", "true"]).expect(0);
    std::fs::copy(golden.join("sync.jsonl"), tool.dir().join("log/sync.jsonl")).expect("the log");
    let truth = std::fs::read_to_string(golden.join("truth.txt")).expect("the truth");
    let begun: Vec<(u64, u64)> = truth
        .lines()
        .filter_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            ["begin", number, "pid", _, "token", token, _] => {
                Some((number.parse().ok()?, token.parse().ok()?))
            }
            _ => None,
        })
        .collect();
    assert_eq!(begun.len(), 40, "runs of that night");
    // Which cron line of that night was it? 0: none.
    let number = |value: &serde_json::Value| {
        let token = value["token"].as_u64();
        begun.iter().find(|(_, begun)| Some(*begun) == token).map_or(0, |(number, _)| *number)
    };
    let ask = |at: &str| {
        let done = tool.lock(&["--json", "log", "--at", &format!("2026-12-01T10:{at}Z"), "sync"]).expect(0);
        let story = done.json()["stories"][0].clone();
        let holder = &story["holders"][0];
        let who = if holder.is_null() { &story["before"] } else { holder };
        (
            story["state"].as_str().expect("a word").to_owned(),
            number(who),
            number(&story["next"]),
            who["status"].as_u64(),
        )
    };
    let is = |state: &str, who: u64, next: u64, status: Option<u64>| (state.to_owned(), who, next, status);
    assert_eq!(ask("38:14"), is("not_logged", 0, 1, None), "before the first");
    assert_eq!(ask("38:25"), is("held", 5, 8, None), "line 6 was skipped because of the run of line 5");
    assert_eq!(ask("38:27"), is("held", 5, 8, None), "and line 7");
    assert_eq!(ask("38:29"), is("held", 8, 9, Some(3)), "the one that failed");
    assert_eq!(ask("38:37"), is("held", 10, 13, Some(0)), "line 12 was skipped");
    assert_eq!(ask("38:59"), is("held", 23, 24, None), "the one that was killed");
    assert_eq!(ask("39:00.3"), is("not_known", 23, 24, None), "nobody saw its end");
    assert_eq!(ask("39:43"), is("held", 45, 48, None), "a run of which nobody stood by");
    assert_eq!(ask("40:22"), is("held", 64, 0, Some(0)), "the last one");
    assert_eq!(ask("40:23"), is("free", 64, 0, Some(0)), "after the last one");
    // What was skipped is counted for the run that was the reason.
    let skipped = truth.lines().filter(|line| line.starts_with("skipped")).count();
    let args = ["--json", "timeline", "--since", "2026-12-01T10:38Z", "--until", "2026-12-01T10:41Z", "sync"];
    let lane = tool.lock(&args).expect(0).json()["locks"][0].clone();
    assert_eq!((lane["turned_away"].as_u64(), lane["failed"].as_u64()), (Some(skipped as u64), Some(1)));
    assert_eq!(lane["runs"].as_array().map(Vec::len), Some(40));
}

#[test]
fn the_log_is_cut_by_moments_and_by_kinds_of_events() {
    let tool = Tool::new();
    night(&tool);
    let count =
        |args: &[&str]| tool.lock(&[&["log"], args, &["sync"]].concat()).expect(0).stdout.lines().count();
    assert_eq!(count(&["--event", "skipped"]), 16);
    assert_eq!(count(&["--event", "skipped", "--event", "acquired"]), 56);
    assert_eq!(
        count(&["--event", "acquired", "--since", "2026-11-28T20:15Z", "--until", "2026-11-28T20:45Z"]),
        3
    );
    tool.lock(&["log", "--event", "skip"]).expect(64).one_line().says("the events are acquired, released");
    tool.lock(&["log", "--since", "yesterday"]).expect(64).one_line().says("a time of day (09:45)");
    tool.lock(&["log", "--at", "2026-02-30"]).expect(64).one_line().says("--at");
}

#[test]
fn times_are_local_for_people_and_utc_for_programs() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    let says = |args: &[&str]| {
        let done = support::run(tool.tool("orion-lock", args).env("TZ", "XYZ-5:30"));
        format!("{}{}", done.stdout, done.stderr)
    };
    assert!(says(&["run", "sync", "true"]).contains(" XYZ, "), "{}", says(&["run", "sync", "true"]));
    assert!(says(&["--utc", "run", "sync", "true"]).contains(" UTC, "));
    assert!(says(&["status", "sync"]).contains(" XYZ, "));
    assert!(says(&["log", "sync"]).contains(" XYZ  acquired"));
    let object = says(&["--json", "status", "sync"]);
    assert!(!object.contains("XYZ") && object.contains("Z\""), "{object}");
    holder.end().expect(0);
}

/// A time in the form of records: `2026-11-29T09:45`.
fn has_utc(text: &str) -> bool {
    let form = |window: &[u8]| {
        window
            .iter()
            .zip(b"0000-00-00T00:00")
            .all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
    };
    text.as_bytes().windows(16).any(form)
}

#[test]
fn no_line_for_people_has_a_time_in_utc() {
    let tool = Tool::new();
    let board = claims::Board::with(&["1", "2"]);
    let zone = |command: &mut std::process::Command| support::run(command.env("TZ", "XYZ-5:30"));
    let said = |done: support::Done| format!("{}{}", done.stdout, done.stderr);
    let lock = |args: &[&str]| said(zone(&mut tool.tool("orion-lock", args)));
    let claim = |args: &[&str]| said(zone(&mut board.command(args)));
    let me = std::process::id().to_string();
    tool.lock(&["run", "--tree", "nightly", "sh", "-c", "exit 3"]).expect(3);
    tool.lock(&["acquire", "--for", &me, "--print-token", "given"]).expect(0);
    let token = tool.record("given")["token"].to_string();
    tool.lock(&["release", "--token", &token, "given"]).expect(0);
    tool.lock(&["acquire", "--for", &me, "broken"]).expect(0);
    let broken = tool.record("broken")["token"].to_string();
    tool.lock(&["break", "--owner-is-alive", "--yes", "--token", &broken, "broken"]).expect(0);
    let _holder = tool.hold("sync");
    for _ in 0..3 {
        tool.lock(&["run", "-q", "sync", "true"]).expect(75);
    }
    board.claim(&["run", "1", "true"]).expect(0);
    let claimed = board.acquire("2").to_string();
    board.claim(&["release", "--to", "queue", "--token", &claimed, "2"]).expect(0);
    // Those that must say a time, and those that may.
    let with = [
        lock(&["run", "sync", "true"]),
        lock(&["status", "-v", "sync"]),
        lock(&["status", "-v", "given"]),
        lock(&["status", "-v", "broken"]),
        lock(&["verify", "--token", &token, "given"]),
        lock(&["log"]),
        lock(&["log", "--at", "0s", "sync"]),
        said(zone(&mut tool.tool("orion-precheck", &["sync"]))),
        claim(&["log"]),
        claim(&["verify", "--token", &claimed, "2"]),
    ];
    for text in with {
        assert!(text.contains(" XYZ") && !has_utc(&text), "{text}");
    }
    for text in [
        lock(&["list"]),
        lock(&["timeline"]),
        lock(&["check", "--held-longer", "0s"]),
        lock(&["where"]),
        lock(&["break", "--yes", "--token", "1", "sync"]),
        lock(&["stop", "--token", "1", "sync"]),
        claim(&["list", "-v"]),
        claim(&["status", "-v", "1"]),
        claim(&["status", "-v", "2"]),
        claim(&["next", "-v"]),
        claim(&["reconcile", "-v"]),
    ] {
        assert!(!has_utc(&text), "{text}");
    }
    // What people read before they type.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages =
        ["man", "docs", "completions"].map(|folder| std::fs::read_dir(root.join(folder)).expect(folder));
    let pages = pages.into_iter().flatten().map(|page| page.expect("a page").path());
    for page in pages.chain([root.join("README.md")]) {
        // The zero time of another program, as it stands in its files.
        let text =
            String::from_utf8_lossy(&std::fs::read(&page).expect("a page")).replace("0001-01-01T00", "");
        assert!(!has_utc(&text), "{}", page.display());
    }
}

/// The picture of that night, from an hour before it to its end.
const WINDOW: [&str; 4] = ["--since", "2026-11-28T19:00Z", "--until", "2026-11-29T10:00Z"];

#[test]
fn the_night_is_a_row_as_wide_as_the_screen() {
    let tool = Tool::new();
    night(&tool);
    let mut command = tool.tool("orion-lock", &["timeline", "sync"]);
    let done = support::run(command.args(WINDOW).env("LC_ALL", "C.UTF-8")).expect(0);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", done.stdout);
    assert!(
        lines[0].starts_with("sync   ") && lines[0].contains('█') && lines[0].contains('▓'),
        "{}",
        lines[0]
    );
    assert!(lines[0].ends_with("40 runs, 16 skipped, 1 failed, longest at least 40m"), "{}", lines[0]);
    assert!(lines[0].contains('!') && lines[0].chars().count() <= 100, "{}", lines[0]);
    assert!(lines[1].contains("00:00") && lines[1].contains("06:00"), "{}", lines[1]);
    // In a locale without UTF-8, and where the screen has no room for the sum.
    let text = tool.lock(&[&["timeline", "sync"], &WINDOW[..]].concat()).expect(0).stdout;
    assert!(text.is_ascii() && text.contains('#') && text.contains('+'), "{text}");
    let object = tool.lock(&[&["--json", "timeline"], &WINDOW[..]].concat()).expect(0).json();
    let sync = &object["locks"][0];
    assert_eq!((sync["name"].as_str(), sync["turned_away"].as_u64()), (Some("sync"), Some(16)));
    assert_eq!(sync["runs"].as_array().map(Vec::len), Some(40));
    tool.lock(&["timeline", "--since", "1h", "--until", "2h"])
        .expect(64)
        .one_line()
        .says("--since is not before --until");
    tool.lock(&["timeline", "--since", "2m"]).expect(0).prints("elsewhere");
}

/// What Chromium makes of the page; `size` in pixels.
fn browser(tool: &Tool, size: &str, options: &[&str]) -> support::Done {
    let mut command = tool.command("chromium");
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
    ]);
    command
        .arg(format!("--user-data-dir={}", tool.path("browser").display()))
        .arg(format!("--window-size={size}"));
    command.args(options).arg(format!("file://{}", tool.path("night.html").display()));
    support::run(command.env("HOME", tool.path(""))).expect(0)
}

/// How many pixels of a picture have exactly this colour.
fn pixels(file: &std::path::Path, colour: [u8; 3]) -> usize {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).expect("a picture")));
    let mut reader = decoder.read_info().expect("a PNG");
    let mut bytes = vec![0; reader.output_buffer_size().expect("a size")];
    let info = reader.next_frame(&mut bytes).expect("a picture");
    let each = info.color_type.samples();
    bytes[..info.buffer_size()].chunks(each).filter(|pixel| pixel[..3] == colour).count()
}

#[test]
fn the_page_is_seen_in_a_real_browser() {
    if !support::needs("chromium") {
        return;
    }
    let tool = Tool::new();
    night(&tool);
    let page = tool.path("night.html");
    let file = page.display().to_string();
    tool.lock(&[&["timeline", "--html", &file, "sync"], &WINDOW[..]].concat()).expect(0).silent();
    let text = std::fs::read_to_string(&page).expect("the page");
    for outside in ["<script", "http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!text.contains(outside), "the page has {outside}");
    }
    // Light and dark, narrow and wide: the runs are there in their colour, as is the one that failed.
    let (light, dark) =
        ("--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0");
    for (size, scheme, held, failed) in [
        ("1600,900", light, [0x2f, 0x7d, 0x5b], [0xc0, 0x32, 0x2b]),
        ("1600,900", dark, [0x4f, 0xb2, 0x86], [0xff, 0x6b, 0x61]),
        ("500,900", light, [0x2f, 0x7d, 0x5b], [0xc0, 0x32, 0x2b]),
        ("500,900", dark, [0x4f, 0xb2, 0x86], [0xff, 0x6b, 0x61]),
    ] {
        let picture = tool.path("picture.png");
        browser(&tool, size, &[scheme, &format!("--screenshot={}", picture.display())]);
        let (held, failed) = (pixels(&picture, held), pixels(&picture, failed));
        assert!(held > 400 && failed > 20, "{size} {scheme}: {held} pixels held, {failed} failed");
    }
    // Every bar says what its row of the table says.
    let seen = browser(&tool, "1600,900", &["--dump-dom"]).stdout;
    assert!(
        seen.contains(
            "role=\"img\" aria-label=\"sync: 40 runs, 16 skipped, 1 failed, longest at least 40m\""
        )
    );
    let cells = |row: &str| -> Vec<String> {
        let cells = row.split("<td>").skip(1).filter_map(|cell| cell.split("</td>").next());
        cells.map(str::to_owned).collect()
    };
    let rows: Vec<Vec<String>> = seen.split("<tr>").skip(2).map(cells).collect();
    assert_eq!(rows.len(), 40);
    for row in rows {
        let [name, who, from, until, length, status, away, token] = row.try_into().expect("eight cells");
        let title = format!(
            "<title>{name}: {who}, from {from}, {until}, {length}, {status}, {away}, token {token}</title>"
        );
        assert!(seen.contains(&title), "no bar says {title}");
    }
}

#[test]
fn a_server_of_a_store_has_a_row_from_its_begin_to_now() {
    let tool = Tool::new();
    let store = tool.path("journal.db").display().to_string();
    let lane = || {
        let done = tool.lock(&["--json", "timeline", "--since", "10m", "--lease", &store]).expect(0);
        done.json()["locks"][0].clone()
    };
    let free = lane();
    assert_eq!((free["kind"].as_str(), free["runs"].as_array().map(Vec::len)), (Some("lease"), Some(0)));
    let mut server =
        Running::start(&mut tool.tool("orion-lease", &["run", &store, "sh", "-c", "echo up; read -r end"]));
    let held = lane();
    assert_eq!(
        (held["name"].as_str(), held["runs"].as_array().map(Vec::len)),
        (Some(store.as_str()), Some(1)),
        "{held}"
    );
    assert!(held["runs"][0]["token"].is_null() && held["runs"][0]["gone_by"].is_null(), "{held}");
    let text = tool.lock(&["timeline", "--since", "10m", "--lease", &store]).expect(0).stdout;
    assert!(text.starts_with("lease journal.db   ") && text.contains('#'), "{text}");
    server.tell("");
    server.end().expect(0);
    let text = tool.lock(&["timeline", "--since", "10m", "--lease", &store]).expect(0).stdout;
    let row = text.lines().next().unwrap_or("");
    assert!(row.ends_with("nobody serves it; of before nothing is known") && !row.contains('#'), "{text}");
}

#[test]
fn a_page_that_cannot_be_written_changes_nothing() {
    let tool = Tool::new();
    night(&tool);
    let nowhere = tool.path("nowhere/night.html").display().to_string();
    tool.lock(&[&["timeline", "--html", &nowhere], &WINDOW[..]].concat())
        .expect(73)
        .one_line()
        .says("nowhere/night.html");
    // A name from outside cannot become a part of the page.
    let odd = json!({"at": "2026-11-28T20:00:00Z", "event": "acquired", "name": "sync", "token": 1, "pid": 1, "comm": "<b>\"x"});
    write_log(&tool, "sync", &[odd]);
    let page = tool.path("night.html");
    tool.lock(&[&["timeline", "--html", &page.display().to_string()], &WINDOW[..]].concat()).expect(0);
    let text = std::fs::read_to_string(page).expect("the page");
    assert!(text.contains("&lt;b&gt;") && !text.contains("<b>"));
}

#[test]
fn check_says_nothing_when_all_is_well_and_one_line_for_each_trouble() {
    let tool = Tool::new();
    let mut holder = tool.hold("sync");
    for _ in 0..4 {
        tool.lock(&["run", "-q", "sync", "true"]).expect(75);
    }
    let check = |args: &[&str]| tool.lock(&[&["check"], args].concat());
    check(&[]).expect(0).silent();
    let well =
        check(&["--held-longer", "1h", "--skips", "5", "--last-run-within", "1h", "sync"]).expect(0).silent();
    assert_eq!(well.stdout, "");
    let skips = check(&["--skips", "4"]).expect(76).silent();
    assert_eq!(skips.stdout, "sync: 4 runs in a row were refused or skipped because of the same holder\n");
    let done = check(&["--held-longer", "0s", "--last-run-within", "1h", "sync", "nightly"]);
    assert_eq!(done.code, 76, "{done:?}");
    assert!(
        done.stdout.contains("nightly: no run is known, and one was expected within 1h\n"),
        "{}",
        done.stdout
    );
    let object = tool.lock(&["--json", "check", "--skips", "1"]).expect(76).json();
    assert_eq!(object["troubles"][0]["name"], "sync");
    check(&["--skips", "many"]).expect(64).one_line();
    // A promise that was broken is a trouble without any option.
    let token = tool.record("sync")["token"].to_string();
    tool.lock(&["tick", "--token", &token, "--every", "1s", "sync"]).expect(0);
    support::eventually("a silent holder", || check(&[]).code == 76);
    check(&[]).expect(76).prints("sync: its holder promised to tick and fell silent");
    holder.end().expect(0);
    check(&["--held-longer", "0s"]).expect(0).silent();
}

/// The value of a metric of a name.
fn metric(text: &str, metric: &str, name: &str) -> Option<u64> {
    let line = format!("orion_lock_{metric}{{name=\"{name}\"}} ");
    text.lines().find_map(|found| found.strip_prefix(&line)?.parse().ok())
}

#[test]
fn metrics_are_what_status_says() {
    let tool = Tool::new();
    let _holder = tool.hold("sync");
    tool.lock(&["run", "--tree", "nightly", "sh", "-c", "exit 3"]).expect(3);
    for _ in 0..2 {
        tool.lock(&["run", "-q", "sync", "true"]).expect(75);
    }
    let text = tool.lock(&["metrics"]).expect(0).silent().stdout;
    assert!(text.ends_with("# EOF\n"), "{text}");
    tool.lock(&["--json", "metrics"]).expect(64).says("OpenMetrics");
    let values = |name: &str| {
        ["holders", "unknown", "stuck", "skips_in_a_row", "last_status"].map(|what| metric(&text, what, name))
    };
    assert_eq!(values("sync"), [Some(1), Some(0), Some(0), Some(2), None], "{text}");
    assert_eq!(values("nightly"), [Some(0), Some(0), Some(0), Some(0), Some(3)], "{text}");
    assert!(metric(&text, "held_seconds", "sync").is_some_and(|held| held < 60), "{text}");
    assert!(metric(&text, "held_seconds", "nightly").is_none(), "{text}");
    assert!(metric(&text, "last_begun_ago_seconds", "nightly").is_some_and(|ago| ago < 60), "{text}");
    // The number of series has a bound, and what is beyond it is said.
    let text = tool.lock(&["metrics", "--most", "1"]).expect(0).stdout;
    assert!(text.contains("orion_lock_names_left_out 1") && !text.contains("\"sync\""), "{text}");
}

#[test]
fn slots_and_waiters_are_seen_by_check_and_metrics() {
    let tool = Tool::new();
    let mut members: Vec<_> = (0..2)
        .map(|_| {
            tool.hold_with(&["run", "--slots", "3", "agents", "sh", "-c", "echo up; read -r end; exit 0"])
        })
        .collect();
    let values = |text: &str, names: &[&str]| -> Vec<Option<u64>> {
        names.iter().map(|what| metric(text, what, "agents")).collect()
    };
    let text = tool.lock(&["metrics"]).expect(0).stdout;
    assert_eq!(values(&text, &["holders", "slots", "waiting"]), [Some(2), Some(3), Some(0)], "{text}");
    assert_eq!(values(&text, &["waiting_longest_seconds"]), [None], "{text}");
    // One waits for it alone; a newcomer for a slot is refused because of him, and is not a skip by a holder.
    let mut waiter = Running::start(&mut tool.script("echo up; exec \"$OL\" run -w 1m agents true"));
    let metrics = || tool.lock(&["metrics", "agents"]).expect(0).stdout;
    support::eventually("a waiter", || values(&metrics(), &["waiting"]) == [Some(1)]);
    let waited = values(&metrics(), &["waiting_longest_seconds"]);
    assert!(waited[0].is_some_and(|waited| waited < 60), "{waited:?}");
    tool.lock(&["check", "--waiting-longer", "10m"]).expect(0).silent();
    support::eventually("a wait of a second", || tool.lock(&["check", "--waiting-longer", "1s"]).code == 76);
    let done = tool.lock(&["check", "--waiting-longer", "0s", "agents"]).expect(76);
    assert!(done.stdout.starts_with("agents: one waits, for "), "{}", done.stdout);
    for member in &mut members {
        member.end().expect(0);
    }
    waiter.end().expect(0);
    tool.lock(&["check", "--waiting-longer", "0s"]).expect(0).silent();
    assert_eq!(values(&metrics(), &["holders", "slots"]), [Some(0), None]);
}

#[test]
fn a_pause_is_in_the_picture_and_in_the_numbers() {
    let board = claims::Board::with(&["1"]);
    let tool = &board.tool;
    tool.lock(&["run", "--tree", "sync", "true"]).expect(0);
    board.claim(&["run", "1", "true"]).expect(0);
    tool.lock(&["pause", "sync"]).expect(0);
    let numbers = || tool.lock(&["metrics"]).expect(0).stdout;
    assert_eq!(metric(&numbers(), "paused", "sync"), Some(1), "{}", numbers());
    // Also of a name that never ran.
    tool.lock(&["pause", "nightly"]).expect(0);
    let late = "nightly: no run is known, and one was expected within 1h; a person paused it";
    tool.lock(&["check", "--last-run-within", "1h"]).expect(76).prints(late);
    let row = |done: support::Done| done.expect(0).stdout.lines().next().unwrap_or_default().to_owned();
    let locks = || row(tool.lock(&["timeline", "--since", "2s", "sync"]));
    support::eventually("a stretch of it", || locks().contains('='));
    tool.lock(&["resume", "sync"]).expect(0);
    assert_eq!(metric(&numbers(), "paused", "sync"), Some(0));
    // Everything, and with it the tickets.
    let claimed = || row(board.claim(&["timeline", "--since", "2s", "1"]));
    let paused = || board.claim(&["metrics"]).expect(0).stdout.contains("orion_claim_paused{tracker=");
    assert!(!claimed().contains('=') && paused(), "{}", claimed());
    tool.lock(&["pause", "--all"]).expect(0);
    support::eventually("a stretch of it", || claimed().contains('='));
    let text = board.claim(&["metrics"]).expect(0).stdout;
    assert!(
        text.lines().any(|line| line.starts_with("orion_claim_paused{") && line.ends_with(" 1")),
        "{text}"
    );
    tool.lock(&["resume", "--all"]).expect(0);
}

#[test]
fn what_monitoring_is_given_is_what_its_own_tools_accept() {
    let tool = Tool::new();
    tool.lock(&["run", "sync", "true"]).expect(0);
    let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/examples");
    // The unit's own line, as systemd gives it to the shell.
    let unit = std::fs::read_to_string(examples.join("orion-metrics.service")).expect("the unit");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '")).expect("a line");
    let file = tool.path("orion.prom");
    let path = format!("{}:{}", support::bin_dir().display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = tool.command("sh");
    shell.args(["-c", line.trim_end_matches('\'')]).env("FILE", &file).env("PATH", path);
    support::run(&mut shell).expect(0).silent();
    assert!(
        std::fs::read_to_string(&file).expect("the metrics").contains("orion_lock_holders{name=\"sync\"} 0")
    );
    if support::needs("systemd-analyze") {
        // systemd-analyze(1) wants to find what a unit calls.
        let timer = examples.join("orion-metrics.timer");
        support::run(
            tool.command("systemd-analyze")
                .args(["verify", "--man=no"])
                .arg(examples.join("orion-metrics.service"))
                .arg(timer),
        )
        .expect(0);
    }
    // Prometheus's own tool is not small, so it is used where it is, and not asked for.
    let promtool = |args: &[&std::ffi::OsStr]| {
        let mut command = tool.command("promtool");
        command.args(args).stdin(std::fs::File::open(&file).expect("the metrics"));
        command.output().ok()
    };
    let rules = examples.join("orion-alerts.yml");
    for args in [
        &["check".as_ref(), "metrics".as_ref()][..],
        &["check".as_ref(), "rules".as_ref(), rules.as_os_str()],
    ] {
        match promtool(args) {
            Some(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr)),
            None => support::say("not checked: promtool is not installed"),
        }
    }
}
