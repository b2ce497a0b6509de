//! Every way a server can fail us: the right outcome, and no secret in any of it.

use super::tests::{TOKEN, fixture, hand_over, key, mark, open, options, working};
use super::*;
use crate::model::ticket::Swapped;
use crate::tracker::test_server::{Answer as Reply, Fault, Kind, Server};
use std::time::Duration;

type MakeFault = fn() -> Kind;

#[test]
fn a_write_that_changed_nothing_is_not_believed() {
    let (server, tracker) = fixture();
    server.world().label("12", "bot", &[], &["orion-queue"]);
    server.fault(Fault::new("POST ", 9, || Kind::Unchanged));
    assert!(matches!(tracker.swap(&key("12"), &working()).expect("swap"), Swapped::Unconfirmed(_)));
}

/// A write whose answer was lost in any way is looked for, and not written twice.
#[test]
fn a_write_that_happened_without_an_answer_is_recognised() {
    let faults: [MakeFault; 5] = [
        || Kind::AppliedThen(Reply::empty(500)),
        || Kind::AppliedThen(Reply::empty(502)),
        || Kind::AppliedThenClose,
        || Kind::HalfBody,
        || Kind::AppliedThenStall(Duration::from_secs(6)),
    ];
    for (number, make) in faults.into_iter().enumerate() {
        let (server, _) = fixture();
        let tracker = open(&server, &Options { timeout: Duration::from_secs(3), ..options() });
        server.world().label("12", "bot", &[], &["orion-queue"]);
        server.fault(Fault::new("POST ", 1, make));
        assert_eq!(tracker.swap(&key("12"), &working()).expect("swap"), Swapped::Done(None), "{number}");
        assert_eq!(server.world().times_on("12", "orion-working"), 1, "{number}");
        assert_eq!(server.count("POST "), 1, "{number}");
        let mark = mark(&tracker);
        server.fault(Fault::new("DELETE ", 1, make));
        assert_eq!(
            tracker.swap(&key("12"), &hand_over(&mark)).expect("swap"),
            Swapped::Done(None),
            "{number}"
        );
        assert_eq!(server.world().labels("12"), ["orion-ready"], "{number}");
    }
}

#[test]
fn a_write_that_did_not_happen_is_sent_again_only_while_the_ticket_is_as_expected() {
    let (server, tracker) = fixture();
    server.world().label("12", "bot", &[], &["orion-queue"]);
    server.fault(Fault::status("POST ", 1, 502, &[]));
    assert_eq!(tracker.swap(&key("12"), &working()).expect("swap"), Swapped::Done(None));
    let mark = mark(&tracker);
    // A person takes the ticket away at the moment our write is lost.
    server.fault(Fault::new("POST ", 1, || {
        Kind::First(Box::new(|world| world.label("12", "person", &[], &["orion-working"])))
    }));
    server.fault(Fault::status("DELETE ", 1, 502, &[]));
    let swapped = tracker.swap(&key("12"), &hand_over(&mark)).expect("swap");
    assert_eq!(server.world().times_on("12", "orion-working"), 1, "{swapped:?}");
}

#[test]
fn a_hand_over_that_was_refused_half_way_is_said_to_be_unconfirmed() {
    let (server, tracker) = fixture();
    server.world().label("12", "bot", &["orion-working"], &["orion-queue"]);
    let mark = mark(&tracker);
    server.fault(Fault::status("DELETE ", 9, 403, &[]));
    let swapped = tracker.swap(&key("12"), &hand_over(&mark)).expect("an outcome");
    assert!(matches!(swapped, Swapped::Unconfirmed(_)), "{swapped:?}");
    assert_eq!(server.world().labels("12"), ["orion-working", "orion-ready"]);
    server.world().faults.clear();
    assert_eq!(tracker.swap(&key("12"), &hand_over(&mark)).expect("swap"), Swapped::Done(None));
}

#[test]
fn a_gate_whose_answer_was_lost_is_unclear_and_never_tried_again() {
    let faults: [MakeFault; 6] = [
        || Kind::AppliedThen(Reply::empty(500)),
        || Kind::Answer(Reply::empty(503)),
        || Kind::AppliedThenClose,
        || Kind::HalfBody,
        || Kind::AppliedThen(Reply { status: 200, headers: Vec::new(), body: "<html>hello</html>".into() }),
        || Kind::Unchanged,
    ];
    for (number, make) in faults.into_iter().enumerate() {
        let (server, tracker) = fixture();
        server.fault(Fault::new("DELETE ", 1, make));
        let taken = tracker.take(&key("12"), "orion-queue").expect("take");
        // "Unchanged" answers what a server says that did it: the events tell, later.
        let expected =
            if number == 5 { taken == GateTaken::Ours } else { matches!(taken, GateTaken::Unclear(_)) };
        assert!(expected, "{number}: {taken:?}");
        assert_eq!(server.count("DELETE "), 1, "{number}");
    }
    // A 404 for want of a right is not "somebody else took it".
    let (server, tracker) = fixture();
    server.fault(Fault::status("DELETE ", 1, 404, &[]));
    let failure = tracker.take(&key("12"), "orion-queue").expect_err("may not");
    assert_eq!(failure.why(), Why::Refused);
}

#[test]
fn later_means_later_and_a_long_wait_is_handed_to_the_caller() {
    let (server, tracker) = fixture();
    for (status, headers) in [(429, &[][..]), (429, &[("retry-after", "0")]), (403, &[("retry-after", "0")])]
    {
        server.fault(Fault::status("DELETE ", 1, status, headers));
        server.fault(Fault::status("GET ", 1, status, headers));
    }
    tracker.ticket(&key("12")).expect("asked again");
    assert_eq!(
        tracker.take(&key("12"), "orion-queue").expect("take"),
        GateTaken::Ours,
        "nothing was done by a 429"
    );
    let limited = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "99999999999")];
    for (status, headers) in [(429, &[("retry-after", "3600")][..]), (403, &limited[..])] {
        server.fault(Fault::status("GET ", 1, status, headers));
        let failure = tracker.ticket(&key("12")).expect_err("not now");
        assert_eq!(failure.why(), Why::Unreachable);
        assert!(failure.wait().expect("a time") >= Duration::from_secs(3600));
        assert!(failure.is_passing());
    }
    server.fault(Fault::new("GET ", 1, || {
        let body = "{\"message\": \"You have exceeded a secondary rate limit\"}".to_owned();
        Kind::Answer(Reply { status: 403, headers: Vec::new(), body })
    }));
    let failure = tracker.ticket(&key("12")).expect_err("not now");
    assert_eq!((failure.why(), failure.wait()), (Why::Unreachable, Some(Duration::from_secs(60))));
}

#[test]
fn what_is_left_of_the_budget_is_what_the_last_answer_said() {
    let (server, tracker) = fixture();
    assert_eq!(tracker.requests_left(), None);
    tracker.ticket(&key("12")).expect("a ticket");
    assert_eq!(tracker.requests_left(), None, "the server did not say");
    for (name, left) in [("x-ratelimit-remaining", "4321"), ("ratelimit-remaining", "7")] {
        server.fault(Fault::status("GET ", 1, 404, &[(name, left)]));
        tracker.ticket(&key("12")).expect_err("not there");
        assert_eq!(tracker.requests_left().map(|left| left.to_string()).as_deref(), Some(left));
    }
    server.fault(Fault::status("GET ", 1, 404, &[("x-ratelimit-remaining", "many")]));
    tracker.ticket(&key("12")).expect_err("not there");
    assert_eq!(tracker.requests_left(), Some(7), "what is not a number says nothing");
}

/// What the server says counts, and not our own idea of a pause.
#[test]
fn a_wish_of_the_server_is_kept_to_the_second() {
    let (server, tracker) = fixture();
    server.fault(Fault::status("GET ", 1, 429, &[("retry-after", "1")]));
    let begin = std::time::Instant::now();
    tracker.ticket(&key("12")).expect("asked again");
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_eq!(server.count("GET "), 2);
    // Longer than anybody waits: once, and no more.
    for headers in [[("retry-after", "30")], [("retry-after", "Sun, 29 Nov 2099 22:25:35 GMT")]] {
        let before = server.count("GET ");
        server.fault(Fault::status("GET ", 9, 503, &headers));
        let failure = tracker.ticket(&key("12")).expect_err("later");
        assert!(failure.wait() >= Some(Duration::from_secs(30)), "{failure:?}");
        assert_eq!(server.count("GET ") - before, 1);
        server.world().faults.clear();
    }
}

#[test]
fn every_bad_answer_has_its_kind_and_none_shows_the_token() {
    let echo = || {
        let body = format!("{{\"message\": \"bad credentials {TOKEN}\\u001b[2J\"}}");
        Kind::Answer(Reply { status: 401, headers: Vec::new(), body })
    };
    let page = |status, body: &str| {
        let body = body.to_owned();
        move || Kind::Answer(Reply { status, headers: Vec::new(), body: body.clone() })
    };
    let (server, tracker) = fixture();
    let tries: Vec<(Fault, Why)> = vec![
        (Fault::new("GET ", 1, echo), Why::Unauthorised),
        (Fault::status("GET ", 1, 403, &[]), Why::Refused),
        (Fault::status("GET ", 1, 409, &[]), Why::Refused),
        (Fault::status("GET ", 1, 422, &[]), Why::Refused),
        (Fault::status("GET ", 9, 500, &[]), Why::Unreachable),
        (Fault::new("GET ", 1, page(200, "<html>login</html>")), Why::Protocol),
        (Fault::new("GET ", 1, page(200, "{\"message\": \"error\"}")), Why::Protocol),
        (Fault::new("GET ", 1, page(200, "")), Why::Protocol),
        (Fault::new("GET ", 9, || Kind::HalfBody), Why::Protocol),
        (Fault::new("GET ", 9, || Kind::Huge(50 << 20)), Why::Protocol),
        (Fault::new("GET ", 9, || Kind::Close), Why::Unreachable),
        (Fault::status("GET ", 9, 301, &[("location", "/repositories/7")]), Why::Setting),
        (Fault::status("GET ", 1, 301, &[("location", "/repositories/8/issues/3")]), Why::NoTicket),
    ];
    for (number, (fault, expected)) in tries.into_iter().enumerate() {
        server.world().faults.clear();
        server.fault(fault);
        let failure = tracker.ticket(&key("12")).expect_err("a fault");
        assert_eq!(failure.why(), expected, "{number}: {failure}");
        let error = crate::error::Error::from(failure.clone());
        for text in [failure.to_string(), format!("{failure:?}"), error.to_string()] {
            assert!(!text.contains(TOKEN) && !text.contains('\u{1b}'), "{number}: {text}");
            assert!(!text.is_empty());
        }
    }
    assert!(!format!("{:?}", options()).contains(TOKEN));
    assert!(server.world().seen.iter().all(|one| one.authorization == format!("Bearer {TOKEN}")));
    server.world().faults.clear();
    tracker.ticket(&key("12")).expect("well again");
}

#[test]
fn a_redirect_is_never_followed_and_the_token_stays_here() {
    let (server, tracker) = fixture();
    let elsewhere = Server::start();
    let to = format!("{}/repos/acme/tools/issues/12", elsewhere.url);
    for status in [301, 302, 303, 307, 308] {
        server.world().faults.clear();
        server.fault(Fault::status("", 9, status, &[("location", &to)]));
        let failure = tracker.ticket(&key("12")).expect_err("moved");
        assert_eq!(failure.why(), Why::Setting, "{failure}");
        assert!(tracker.take(&key("12"), "orion-queue").is_err());
    }
    // Nor is a next page on another host.
    server.world().faults.clear();
    let link = format!("<{to}>; rel=\"next\"");
    server.fault(Fault::new("GET ", 1, move || {
        let headers = vec![("link".to_owned(), link.clone())];
        Kind::Answer(Reply { status: 200, headers, body: "[]".into() })
    }));
    assert_eq!(tracker.queue().expect_err("elsewhere").why(), Why::Protocol);
    assert!(elsewhere.world().seen.is_empty());
}

#[test]
fn a_server_that_does_not_answer_costs_the_time_out_and_no_more() {
    let (server, _) = fixture();
    let quick =
        Options { timeout: Duration::from_millis(300), patience: Duration::from_millis(1), ..options() };
    let tracker = open(&server, &quick);
    for make in [|| Kind::Stall(Duration::from_secs(2)), || Kind::HalfThenStall(Duration::from_secs(2))] {
        server.world().faults.clear();
        server.fault(Fault::new("GET ", 9, make));
        let failure = tracker.ticket(&key("12")).expect_err("silence");
        assert_eq!(failure.why(), Why::Unreachable);
        assert!(!failure.may_be_applied(), "a read changes nothing");
    }
    drop(server);
    assert_eq!(tracker.ticket(&key("12")).expect_err("gone").why(), Why::Unreachable);
    let clear = GitHub::open("http://192.0.2.1", "acme", "tools", &options()).err().expect("in clear");
    assert_eq!(clear.why(), Why::Setting);
    let allowed = Options { allow_http: true, ..options() };
    assert!(GitHub::open("http://192.0.2.1", "acme", "tools", &allowed).is_ok());
}

/// The certificate is one that `openssl` made a moment ago, so nobody trusts it.
#[test]
fn a_certificate_nobody_trusts_is_refused_and_one_of_ours_is_taken() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().expect("dir");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (certificate, secret) = (path("cert.pem"), path("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &secret, "-out", &certificate])
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "openssl is missing");
        return;
    }
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", &certificate, "-key", &secret])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("s_server");
    let lines = std::io::BufReader::new(server.stdout.take().expect("stdout")).lines();
    let port = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("ACCEPT ")?.rsplit(':').next().map(str::to_owned));
    let base = format!("https://localhost:{}", port.expect("a port"));
    let open = |ca_file| {
        let options = Options { ca_file, patience: Duration::ZERO, ..options() };
        GitHub::open(&base, "acme", "tools", &options).expect("opens")
    };
    let failure = open(None).ticket(&key("12")).expect_err("not trusted");
    assert_eq!(failure.why(), Why::Unreachable, "{failure}");
    assert!(failure.to_string().contains("not trusted"), "{failure}");
    let write = open(None).take(&key("12"), "orion-queue").expect_err("nothing was sent");
    assert!(!write.may_be_applied(), "{write}");
    // Trusted, it is a web page, and so no tracker: the token would have gone to the right host.
    let failure = open(Some(certificate.into())).ticket(&key("12")).expect_err("a page");
    assert_eq!(failure.why(), Why::Protocol, "{failure}");
    server.kill().expect("kill");
    server.wait().expect("wait");
}
