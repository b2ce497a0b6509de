use super::*;
use crate::model::ticket::{EventId, Expect, Swap, Swapped, TicketChange};
use crate::tracker::TokenSource;
use crate::tracker::secret::Secret;
use crate::tracker::test_server::{Answer as Reply, Fault, Kind, Server};
use std::time::Duration;

const TOKEN: &str = "jira-s3cret";

fn options(version: u8) -> Options {
    Options {
        token: TokenSource::Given(Secret::new(TOKEN).expect("token")),
        user: Some("bot@example.com".into()),
        jira_version: Some(version),
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        ..Options::default()
    }
}

fn fixture(version: u8) -> (Server, Jira) {
    let server = Server::start();
    server.world().queued("AB-12");
    let tracker = Jira::open(&server.url, "AB", &options(version)).expect("opens");
    (server, tracker)
}

fn key(text: &str) -> Key {
    Key::new(text).expect(text)
}

fn own(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

fn claim() -> Swap {
    let expect =
        Expect { has: own(&["orion-queue"]), lacks: own(&["orion-working"]), open: Some(true), mark: None };
    Swap { add: own(&["orion-working"]), remove: own(&["orion-queue"]), expect, signature: None }
}

#[test]
fn a_claim_is_one_write_in_both_versions() {
    for version in [2, 3] {
        let (server, tracker) = fixture(version);
        server.world().label("AB-12", "person", &["mine"], &[]);
        assert_eq!(tracker.swap(&key("AB-12"), &claim()).expect("swap"), Swapped::Done(None));
        assert_eq!(server.world().labels("AB-12"), ["mine", "orion-working"]);
        assert_eq!(server.count("PUT "), 1);
        let events = tracker.events(&key("AB-12")).expect("events");
        let newest = crate::model::ticket::newest_labeled(&events, "orion-working").expect("event");
        let expect = Expect { mark: Some(("orion-working".into(), newest.id.clone())), ..Expect::default() };
        let hand_over =
            Swap { add: own(&["orion-ready"]), remove: own(&["orion-working"]), expect, signature: None };
        assert_eq!(tracker.swap(&key("AB-12"), &hand_over).expect("swap"), Swapped::Done(None));
        assert!(matches!(tracker.swap(&key("AB-12"), &claim()).expect("swap"), Swapped::Changed(_)));
        let seen = server.world().seen.clone();
        assert!(seen.iter().all(|one| one.authorization == "Basic Ym90QGV4YW1wbGUuY29tOmppcmEtczNjcmV0"));
    }
}

#[test]
fn lists_take_every_page_and_are_never_empty_by_mistake() {
    for version in [2, 3] {
        let (server, tracker) = fixture(version);
        for number in 100..330 {
            server.world().queued(&format!("AB-{number}"));
        }
        server.world().label("AB-329", "bot", &["orion-working"], &["orion-queue"]);
        server.world().close("AB-328", true);
        assert_eq!(tracker.queue().expect("queue").tickets.len(), 229);
        assert_eq!(tracker.requests(), 3);
        let flight = tracker.in_flight().expect("flight");
        assert_eq!(flight.tickets.len(), 1);
        server.world().tickets.clear();
        assert!(tracker.queue().expect("empty").tickets.is_empty());
        assert_eq!(server.count("/project/AB"), 1, "an empty list is asked about");
        let wrong = Jira::open(&server.url, "XY", &options(version)).expect("opens");
        assert_eq!(wrong.queue().expect_err("no such project").why(), Why::NoTracker);
        assert_eq!(wrong.ticket(&key("XY-1")).expect_err("no such project").why(), Why::NoTracker);
        assert_eq!(tracker.ticket(&key("AB-9")).expect_err("no such ticket").why(), Why::NoTicket);
    }
}

#[test]
fn a_stale_search_is_only_a_hint() {
    let (server, tracker) = fixture(3);
    let old = server.world().tickets.clone();
    server.world().stale = Some(old);
    server.world().label("AB-12", "other", &["orion-working"], &["orion-queue"]);
    assert_eq!(tracker.queue().expect("queue").tickets.len(), 1, "the index still shows it");
    assert!(!tracker.ticket(&key("AB-12")).expect("itself").has("orion-queue"));
    assert!(matches!(tracker.swap(&key("AB-12"), &claim()).expect("swap"), Swapped::Changed(_)));
}

#[test]
fn one_ticket_has_one_key() {
    let (_server, tracker) = fixture(2);
    assert_eq!(tracker.key("ab-12").expect("key"), key("AB-12"));
    for bad in ["AB-", "AB-0", "AB-012", "XY-1", "12", "AB-1/2", "AB-1 ", "AB--1", "A\u{df}-1", ""] {
        assert!(tracker.key(bad).is_err(), "{bad:?}");
    }
    // A ticket that was moved to another project answers under its new key.
    let (server, tracker) = fixture(2);
    let moved = "{\"key\": \"CD-3\", \"fields\": {\"labels\": []}}";
    server.fault(Fault::new("GET ", 1, || {
        Kind::Answer(Reply { status: 200, headers: Vec::new(), body: moved.into() })
    }));
    assert_eq!(tracker.ticket(&key("AB-12")).expect_err("moved").why(), Why::NoTicket);
}

#[test]
fn an_answer_of_204_that_changed_nothing_is_not_believed() {
    for version in [2, 3] {
        let (server, tracker) = fixture(version);
        server.fault(Fault::new("PUT ", 9, || Kind::Unchanged));
        assert!(matches!(tracker.swap(&key("AB-12"), &claim()).expect("swap"), Swapped::Unconfirmed(_)));
        assert_eq!(server.count("PUT "), 1, "not insisted on");
    }
}

#[test]
fn a_lost_answer_is_looked_for_and_an_error_in_a_200_is_an_error() {
    let (server, tracker) = fixture(3);
    server.fault(Fault::new("PUT ", 1, || Kind::AppliedThenClose));
    assert_eq!(tracker.swap(&key("AB-12"), &claim()).expect("swap"), Swapped::Done(None));
    assert_eq!(server.world().times_on("AB-12", "orion-working"), 1);
    let inside = || {
        let body = "{\"errorMessages\": [\"not now\"], \"errors\": {}}".to_owned();
        Kind::Answer(Reply { status: 200, headers: Vec::new(), body })
    };
    server.fault(Fault::new("GET ", 1, inside));
    let failure = tracker.ticket(&key("AB-12")).expect_err("an error inside");
    assert_eq!(failure.why(), Why::Protocol);
    assert!(failure.to_string().contains("not now"), "{failure}");
    server.fault(Fault::status("GET ", 1, 401, &[]));
    assert_eq!(tracker.ticket(&key("AB-12")).expect_err("who?").why(), Why::Unauthorised);
}

#[test]
fn events_come_in_order_whatever_order_they_are_sent_in() {
    let (server, tracker) = fixture(2);
    server.world().label("AB-12", "a", &["orion-working"], &["orion-queue"]);
    server.world().label("AB-12", "b", &["orion-queue"], &["orion-working"]);
    server.world().tickets.get_mut("AB-12").expect("ticket").changes.reverse();
    let events = tracker.events(&key("AB-12")).expect("events");
    let ids: Vec<u64> = events.iter().map(|event| event.id.0.parse().expect("number")).collect();
    assert!(ids.is_sorted(), "{ids:?}");
    assert_eq!(events.last().expect("event").what, TicketChange::Labeled("orion-queue".into()));
    assert_ne!(events[0].id, EventId(String::new()));
}

#[test]
fn comments_read_back_in_both_versions() {
    for version in [2, 3] {
        let (server, tracker) = fixture(version);
        for number in 0..150 {
            tracker
                .comment(&key("AB-12"), &format!("orion-claim n{number} round first host pi"))
                .expect("comment");
        }
        let comments = tracker.comments(&key("AB-12")).expect("comments");
        assert_eq!(comments.len(), 150);
        assert_eq!(comments[149].body, "orion-claim n149 round first host pi");
        assert!(comments.windows(2).all(|pair| pair[0].id < pair[1].id));
        tracker.void(&key("AB-12"), comments[0].id, "n0").expect("void");
        assert_eq!(server.world().tickets["AB-12"].comments.len(), 149);
        assert!(tracker.take(&key("AB-12"), "orion-queue").is_err(), "there is no gate");
    }
}

#[test]
fn what_init_sees() {
    let (server, tracker) = fixture(3);
    assert!(tracker.check(false).expect("check").iter().all(|finding| finding.ok));
    server.fault(Fault::status("/myself", 1, 403, &[]));
    assert!(tracker.check(false).expect("check").iter().any(|finding| !finding.ok));
    let mut blank = options(3);
    blank.labels.queue = "to do".into();
    assert!(Jira::open(&server.url, "AB", &blank).is_err());
}

/// A proxy that repeats the header it was sent shows name and token to whoever can decode it.
#[test]
fn an_encoded_token_is_a_token() {
    let (server, tracker) = fixture(2);
    server.world().accepts = Some("nobody's".to_owned());
    let failure = tracker.ticket(&key("AB-12")).expect_err("refused");
    assert_eq!(failure.why(), Why::Unauthorised);
    let said = format!("{failure:?}");
    assert!(said.contains("Basic (token)") && !said.contains("Ym90QGV4YW1w"), "{said}");
}
