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

#[test]
fn the_end_of_a_commands_stderr_is_kept_only_where_that_was_asked_for() {
    let board = Board::with(&["1", "2"]);
    let kept = board.tool.path("kept");
    let noisy = "for i in $(seq 1000); do echo line $i of many >&2; done; exec 3>&2; (sleep 0.2; echo late >&3) & exit 4";
    let dir = kept.to_str().expect("path");
    let done = board.claim(&["run", "--keep-output", dir, "1", "sh", "-c", noisy]).expect(4);
    assert!(!done.stderr.contains("of many"), "{done:?}");
    let token = board.record("1")["token"].as_u64().expect("token");
    let file = kept.join(format!("1.{token}.stderr"));
    let text = std::fs::read_to_string(&file).expect("kept");
    assert_eq!(text.len(), 4096);
    assert!(text.ends_with("line 1000 of many\nlate\n"), "what it left writes to the end: {text}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).expect("stat"));
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(support::names_in(&kept).len(), 1, "nothing temporary stays");
    let status = board.claim(&["status", "-v", "1"]).expect(0).stdout;
    assert!(status.contains("status 4") && status.contains("    line 1000 of many"), "{status}");
    assert!(!board.claim(&["status", "1"]).stdout.contains("line 1000"), "only with -v");
    assert!(board.claim(&["log", "1"]).expect(0).stdout.contains(file.to_str().expect("path")));
    assert!(!board.record("1").to_string().contains("line 1000"), "no word of it is in the record");
    // Without: as ever.
    board.claim(&["run", "2", "sh", "-c", "echo seen >&2"]).expect(0).says("seen");
    // Not to be used: nothing is claimed.
    board.put("3", &["orion-queue"]);
    let nowhere = kept.join("a/b");
    board
        .claim(&["run", "--keep-output", nowhere.to_str().expect("path"), "3", "true"])
        .expect(73)
        .says("--keep-output");
    board.claim(&["watch", "--keep-output", file.to_str().expect("path"), "true"]).expect(73);
    assert_eq!(board.labels("3"), ["orion-queue"]);
}

#[test]
fn a_killed_tool_does_not_break_the_stderr_of_its_command() {
    let board = Board::with(&["1"]);
    let kept = board.tool.path("kept");
    let go = board.tool.path("go");
    let script = format!(
        "echo up; until [ -e {} ]; do sleep 0.02; done; echo still here >&2 && echo wrote > {}",
        go.display(),
        board.tool.path("wrote").display()
    );
    let args = ["run", "--keep-output", kept.to_str().expect("path"), "1", "sh", "-c", &script];
    let mut run = support::Running::start(&mut board.command(&args));
    run.kill();
    std::fs::write(&go, "").expect("go");
    support::eventually("it wrote", || board.tool.path("wrote").exists());
    let name = support::names_in(&kept).pop().expect("a file");
    assert_eq!(std::fs::read_to_string(kept.join(name)).expect("kept"), "still here\n");
}

#[test]
fn a_comment_is_written_only_where_that_was_asked_for_and_while_the_ticket_is_ours() {
    let board = Board::with(&["1", "2", "3"]);
    let history = |key: &str| {
        std::fs::read_to_string(board.tool.path("tickets").join(format!("{key}.history.jsonl")))
            .expect("history")
    };
    board.claim(&["run", "--comment", "1", "sh", "-c", "exit 3"]).expect(3).silent();
    assert_eq!(history("1").matches("orion-claim: the command ended with status 3 after ").count(), 1);
    let order = |text: &str| history("1").find(text).expect("in the history");
    assert!(order("ended with status 3") < order("orion-failed"), "before it moves");
    board.claim(&["run", "2", "true"]).expect(0);
    assert!(!history("2").contains("comment"));
    // A person took it away meanwhile.
    let file = board.file("3");
    let script = format!("printf 'labels = []\\n' > {}", file.display());
    board.claim(&["run", "--comment", "3", "sh", "-c", &script]);
    assert!(!history("3").contains("comment"), "{}", history("3"));
}

/// The value of a metric, with every label but the tracker's.
fn metric(text: &str, metric: &str, state: &str) -> Option<u64> {
    let line = text.lines().find(|line| {
        line.strip_prefix("orion_claim_").and_then(|line| line.strip_prefix(metric)).is_some_and(|labels| {
            labels.starts_with("{tracker=\"")
                && (state.is_empty() || labels.contains(&format!("state=\"{state}\"")))
        })
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
}

#[test]
fn a_timeline_of_tickets_says_who_had_which_and_how_it_ended() {
    let board = Board::with(&["1", "2", "3"]);
    board.claim(&["run", "1", "sh", "-c", "exit 3"]).expect(3);
    let token = board.acquire("2");
    let object = board.claim(&["--json", "timeline", "--since", "10m"]).expect(0).json();
    let rows = object["tickets"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "3 was never claimed: {object}");
    assert_eq!((rows[0]["name"].as_str(), rows[0]["failed"].as_u64()), (Some("1"), Some(1)), "{object}");
    assert_eq!(rows[0]["runs"][0]["status"], 3, "{object}");
    assert_eq!(
        (rows[1]["kind"].as_str(), rows[1]["runs"][0]["token"].as_u64()),
        (Some("ticket"), Some(token))
    );
    let text = board.claim(&["timeline", "--since", "10m", "1"]).expect(0).stdout;
    assert!(text.starts_with("1  ") && text.contains("1 run, 1 failed") && text.contains('!'), "{text}");
    // As a page, in the words of this tool.
    let page = board.tool.path("tickets.html");
    board.claim(&["timeline", "--since", "10m", "--html", &page.display().to_string()]).expect(0).silent();
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains("<h1>Tickets from ") && page.contains(" by orion-claim timeline"), "{page}");
    assert!(page.contains(", status 3, 0 skipped, token "), "{page}");
    board.claim(&["timeline", "--since", "1h", "--until", "2h"]).expect(64).one_line();
    // Beside the locks of the same directory.
    board.tool.lock(&["run", "sync", "true"]).expect(0);
    let names = |args: &[&str]| -> Vec<String> {
        let object =
            board.tool.lock(&[&["--json", "timeline", "--since", "10m"], args].concat()).expect(0).json();
        let rows = object["locks"].as_array().expect("rows").iter();
        rows.map(|row| {
            format!("{} {}", row["kind"].as_str().unwrap_or(""), row["name"].as_str().unwrap_or(""))
        })
        .collect()
    };
    assert_eq!(names(&[]), ["lock sync"]);
    assert_eq!(names(&["--claims"]), ["lock sync", "ticket 1", "ticket 2"]);
    let text = board.tool.lock(&["timeline", "--since", "10m", "--claims"]).expect(0).stdout;
    assert!(text.contains("\nticket 1  "), "{text}");
}

#[test]
fn metrics_of_tickets_are_what_list_says() {
    let board = Board::with(&["1", "2", "3"]);
    let owner = claims::Owner::new();
    board.claim(&["acquire", "--for", &owner.id(), "1"]).expect(0);
    let metrics = || board.claim(&["metrics"]).expect(0).silent().stdout;
    let text = metrics();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let all = |text: &str, metric_name: &str, states: &[&str]| -> Vec<Option<u64>> {
        states.iter().map(|state| metric(text, metric_name, state)).collect()
    };
    assert_eq!(all(&text, "tickets", &["queue", "waits", "working"]), [Some(2), Some(0), Some(1)], "{text}");
    assert_eq!(
        all(&text, "claims", &["held", "stuck", "dead", "unknown"]),
        [Some(1), Some(0), Some(0), Some(0)],
        "{text}"
    );
    assert_eq!(all(&text, "tracker_reachable", &[""]), [Some(1)], "{text}");
    assert_eq!(all(&text, "breaker_open", &[""]), [Some(0)], "{text}");
    assert!(!text.contains("requests_left{"), "files have no budget: {text}");
    owner.end();
    assert_eq!(all(&metrics(), "claims", &["held", "dead"]), [Some(0), Some(1)]);
    // Since when a ticket is queued, by its own history.
    board.claim(&["reconcile"]).expect(0);
    let text = metrics();
    assert_eq!(all(&text, "claims", &["held", "dead"]), [Some(0), Some(0)], "{text}");
    assert!(metric(&text, "oldest_queued_seconds", "").is_some_and(|oldest| oldest < 600), "{text}");
    // A tracker that does not answer: said, and the numbers of this machine all the same.
    let mut command = board.command(&["metrics"]);
    let done =
        run(command.env("ORION_TRACKER", "github:acme/tools").env("GITHUB_API_URL", "http://127.0.0.1:1"))
            .expect(0)
            .one_line();
    assert_eq!(metric(&done.stdout, "tracker_reachable", ""), Some(0), "{done:?}");
    assert!(metric(&done.stdout, "tickets", "queue").is_none(), "{done:?}");
    board.claim(&["--json", "metrics"]).expect(64).says("OpenMetrics");
}
