use super::*;
use crate::model::ticket::{EventId, Expect, Swap, Swapped, TicketChange};
use crate::tracker::TokenSource;
use crate::tracker::secret::Secret;
use crate::tracker::test_server::{Fault, Kind, Server};
use std::sync::{Arc, Barrier};
use std::time::Duration;

pub(super) const TOKEN: &str = "ghp_s3cretTOKEN";

pub(super) fn options() -> Options {
    Options {
        token: TokenSource::Given(Secret::new(TOKEN).expect("token")),
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        ..Options::default()
    }
}

pub(super) fn open(server: &Server, options: &Options) -> GitHub {
    GitHub::open(&server.url, "acme", "tools", options).expect("opens")
}

pub(super) fn fixture() -> (Server, GitHub) {
    let server = Server::start();
    server.world().queued("12");
    let tracker = open(&server, &options());
    (server, tracker)
}

pub(super) fn key(text: &str) -> Key {
    Key::new(text).expect(text)
}

pub(super) fn own(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

/// Puts the working label on, after the gate.
pub(super) fn working() -> Swap {
    let expect =
        Expect { lacks: own(&["orion-queue", "orion-working"]), open: Some(true), ..Expect::default() };
    Swap { add: own(&["orion-working"]), remove: Vec::new(), expect, signature: None }
}

pub(super) fn hand_over(mark: &str) -> Swap {
    let expect = Expect { mark: Some(("orion-working".into(), EventId(mark.into()))), ..Expect::default() };
    Swap { add: own(&["orion-ready"]), remove: own(&["orion-working"]), expect, signature: None }
}

pub(super) fn mark(tracker: &GitHub) -> String {
    let events = tracker.events(&key("12")).expect("events");
    crate::model::ticket::newest_labeled(&events, "orion-working").expect("working").id.0.clone()
}

#[test]
fn a_claim_goes_through_the_gate_and_is_handed_over_by_its_mark() {
    let (server, tracker) = fixture();
    assert_eq!(tracker.queue().expect("queue").tickets.len(), 1);
    assert_eq!(tracker.take(&key("12"), "orion-queue").expect("take"), GateTaken::Ours);
    assert_eq!(tracker.take(&key("12"), "orion-queue").expect("take"), GateTaken::Gone);
    let events = tracker.events(&key("12")).expect("events");
    assert_eq!(events.last().expect("event").what, TicketChange::Unlabeled("orion-queue".into()));
    assert_eq!(tracker.swap(&key("12"), &working()).expect("swap"), Swapped::Done(None));
    let mark = mark(&tracker);
    assert!(tracker.queue().expect("queue").tickets.is_empty());
    assert_eq!(tracker.in_flight().expect("flight").tickets[0].key, key("12"));
    assert!(matches!(tracker.swap(&key("12"), &hand_over("1")).expect("swap"), Swapped::Changed(_)));
    server.world().label("12", "person", &["hands-off"], &[]);
    assert_eq!(tracker.swap(&key("12"), &hand_over(&mark)).expect("swap"), Swapped::Done(None));
    assert_eq!(server.world().labels("12"), ["hands-off", "orion-ready"], "a person's label stays");
    assert_eq!(server.count("PUT "), 0, "no full list is ever written");
    assert_eq!(server.count("PATCH "), 0);
}

#[test]
fn of_many_at_the_gate_exactly_one_is_told_that_it_took_the_label() {
    const RACERS: usize = 8;
    let server = Server::start();
    server.world().leaky_adds = true;
    let tickets: Vec<String> = (1..=25).map(|number| number.to_string()).collect();
    for ticket in &tickets {
        server.world().queued(ticket);
    }
    let tracker = Arc::new(open(&server, &options()));
    let barrier = Arc::new(Barrier::new(RACERS));
    let racers: Vec<_> = (0..RACERS)
        .map(|_| {
            let (tracker, barrier, tickets) = (Arc::clone(&tracker), Arc::clone(&barrier), tickets.clone());
            std::thread::spawn(move || {
                let mut won = Vec::new();
                for ticket in tickets {
                    barrier.wait();
                    if tracker.take(&key(&ticket), "orion-queue").expect("take") == GateTaken::Ours {
                        won.push(ticket);
                    }
                }
                won
            })
        })
        .collect();
    let mut won: Vec<String> = racers.into_iter().flat_map(|racer| racer.join().expect("racer")).collect();
    won.sort_by_key(|ticket| ticket.parse::<u32>().expect("number"));
    assert_eq!(won, tickets);
}

#[test]
fn lists_take_every_page_and_leave_pull_requests_out() {
    for no_links in [false, true] {
        let server = Server::start();
        server.world().no_links = no_links;
        for number in 1..=230 {
            server.world().queued(&number.to_string());
        }
        server.world().tickets.get_mut("7").expect("ticket").pull_request = true;
        server.world().label("8", "person", &["orion-failed"], &[]);
        server.world().label("230", "person", &["orion-working"], &["orion-queue"]);
        server.world().close("230", true);
        let tracker = open(&server, &options());
        let queue = tracker.queue().expect("queue");
        assert_eq!(queue.tickets.len(), 228, "one that failed was queued again");
        assert_eq!(queue.tickets[0].key, key("1"));
        assert_eq!(tracker.requests(), 3, "a hundred a page");
        assert_eq!(tracker.in_flight().expect("flight").tickets[0].key, key("230"), "closed ones too");
        assert!(tracker.ticket(&key("7")).is_err(), "a pull request is not a ticket");
    }
}

#[test]
fn a_wrong_name_is_an_error_of_the_settings_and_never_an_empty_queue() {
    let (server, tracker) = fixture();
    let wrong = GitHub::open(&server.url, "acme", "toolz", &options()).expect("opens");
    let failure = wrong.queue().expect_err("no such repository");
    assert_eq!(failure.why(), Why::NoTracker, "{failure}");
    assert!(!failure.is_passing());
    assert_eq!(tracker.ticket(&key("99")).expect_err("no such issue").why(), Why::NoTicket);
    for bad in ["", "0", "012", "a", "1/2", "../1", "-1", "1 ", "\u{661}", &"9".repeat(30)] {
        assert!(tracker.key(bad).is_err(), "{bad:?}");
    }
    assert_eq!(tracker.key("#12").expect("key"), tracker.key("12").expect("key"));
    let mut options = options();
    options.labels.ready = "a,b".into();
    assert!(GitHub::open(&server.url, "acme", "tools", &options).is_err());
}

#[test]
fn labels_are_one_label_whatever_their_case() {
    let (server, tracker) = fixture();
    server.world().label("12", "person", &["Orion-Working"], &["orion-queue"]);
    assert!(tracker.ticket(&key("12")).expect("ticket").has("orion-working"));
    let newest = tracker.events(&key("12")).expect("events");
    assert_eq!(newest.last().expect("event").what, TicketChange::Labeled("orion-working".into()));
}

#[test]
fn missing_labels_are_made() {
    let (server, tracker) = fixture();
    server.world().strict_labels = true;
    let findings = tracker.check(false).expect("check");
    assert_eq!(findings.iter().filter(|finding| !finding.ok).count(), 5, "{findings:?}");
    tracker.write(&key("12"), &own(&["orion-host-pi"]), &[]).expect("made on the way");
    let findings = tracker.check(true).expect("check");
    assert!(findings.iter().all(|finding| finding.ok), "{findings:?}");
    assert!(tracker.check(false).expect("check").iter().all(|finding| finding.ok));
}

#[test]
fn a_marker_is_written_once_and_can_be_made_void() {
    let (server, tracker) = fixture();
    server.fault(Fault::new("POST ", 1, || Kind::AppliedThenClose));
    tracker.comment(&key("12"), "orion-claim n1 round 7 host pi").expect("found again");
    server.fault(Fault::status("POST ", 1, 502, &[]));
    tracker.comment(&key("12"), "orion-claim n2 round 7 host pi").expect("written again");
    let comments = tracker.comments(&key("12")).expect("comments");
    assert_eq!(comments.len(), 2);
    tracker.void(&key("12"), comments[0].id, "n1").expect("deleted");
    server.fault(Fault::status("DELETE ", 1, 403, &[]));
    tracker.void(&key("12"), comments[1].id, "n2").expect("said");
    let bodies: Vec<String> =
        tracker.comments(&key("12")).expect("comments").into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, ["orion-claim n2 round 7 host pi", "void n2"]);
}
