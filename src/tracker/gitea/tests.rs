use super::*;
use crate::model::ticket::{Expect, Swap, Swapped};
use crate::tracker::TokenSource;
use crate::tracker::secret::Secret;
use crate::tracker::test_server::{Fault, Kind, Server};
use std::time::Duration;

const TOKEN: &str = "gitea-s3cret";

fn options() -> Options {
    Options {
        token: TokenSource::Given(Secret::new(TOKEN).expect("token")),
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        ..Options::default()
    }
}

fn fixture() -> (Server, Gitea) {
    let server = Server::start();
    server.world().queued("12");
    let tracker = Gitea::open(&server.url, "acme", "tools", &options()).expect("opens");
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
fn labels_go_by_id_and_missing_ones_are_made() {
    let (server, tracker) = fixture();
    server.world().label("12", "person", &["mine"], &[]);
    assert_eq!(tracker.swap(&key("12"), &claim()).expect("swap"), Swapped::Done(None));
    assert_eq!(server.world().labels("12"), ["mine", "orion-working"]);
    assert!(server.world().seen.iter().all(|one| one.authorization == format!("token {TOKEN}")));
    assert_eq!(server.count("POST /api/v1/repos/acme/tools/labels"), 1);
    let events = tracker.events(&key("12")).expect("events");
    let newest = crate::model::ticket::newest_labeled(&events, "orion-working").expect("event");
    assert!(newest.at.is_some(), "a time with an offset is read");
    assert!(!tracker.can().gate && tracker.take(&key("12"), "orion-queue").is_err());
}

#[test]
fn an_add_that_changed_nothing_takes_nothing_off() {
    let (server, tracker) = fixture();
    server.fault(Fault::new("POST /api/v1/repos/acme/tools/issues/12/labels", 1, || Kind::Unchanged));
    let failure = tracker.swap(&key("12"), &claim()).expect_err("not shown");
    assert!(!failure.may_be_applied(), "{failure}");
    assert_eq!(server.world().labels("12"), ["orion-queue"]);
    assert_eq!(server.count("DELETE "), 0);
}

/// The person's word is the last one, whichever of our two requests it came before.
#[test]
fn a_person_who_queues_it_again_between_our_requests_has_it_queued() {
    for at in ["GET /api/v1/repos/acme/tools/issues/12/labels", "DELETE "] {
        let (server, tracker) = fixture();
        server.fault(Fault::new(at, 1, || {
            Kind::First(Box::new(|world| world.label("12", "person", &["orion-queue"], &["orion-working"])))
        }));
        let swapped = tracker.swap(&key("12"), &claim());
        assert!(!matches!(swapped, Ok(Swapped::Done(_))), "{at}: {swapped:?}");
        assert_eq!(server.world().labels("12"), ["orion-queue"], "{at}");
    }
    // One who takes everything off wants none of it back.
    let (server, tracker) = fixture();
    server.fault(Fault::new("DELETE ", 1, || {
        Kind::First(Box::new(|world| world.label("12", "person", &[], &["orion-working", "orion-queue"])))
    }));
    assert!(!matches!(tracker.swap(&key("12"), &claim()), Ok(Swapped::Done(_))));
    assert_eq!(server.world().labels("12"), Vec::<String>::new());
}

#[test]
fn every_page_is_read_whatever_the_server_tells_about_more() {
    for links in [true, false] {
        let (server, tracker) = fixture();
        server.world().no_links = !links;
        for number in 100..220 {
            server.world().queued(&number.to_string());
        }
        let queue = tracker.queue().expect("queue").tickets;
        assert_eq!((queue.len(), queue[0].key.as_str()), (121, "12"), "the oldest first");
        for number in 0..130 {
            server.world().label("12", "person", &[&format!("label-{number}")], &[]);
            server.world().person_comments("12", "a word");
        }
        assert_eq!(tracker.events(&key("12")).expect("events").len(), 131);
        assert_eq!(tracker.comments(&key("12")).expect("comments").len(), 130);
        // A label that nobody made yet filters nothing on the server: we look ourselves.
        assert!(tracker.in_flight().expect("in flight").tickets.is_empty());
        let wrong = Gitea::open(&server.url, "acme", "other", &options()).expect("opens");
        assert_eq!(wrong.queue().expect_err("no such repository").why(), Why::NoTracker);
        assert_eq!(tracker.ticket(&key("999")).expect_err("no such issue").why(), Why::NoTicket);
    }
}

#[test]
fn a_server_without_dependencies_has_no_blockers() {
    let (server, tracker) = fixture();
    let ticket = tracker.ticket(&key("12")).expect("ticket");
    server.fault(Fault::status("/dependencies", 1, 404, &[]));
    assert!(tracker.blockers(&ticket).expect("none").is_empty());
    server.fault(Fault::status("/dependencies", 9, 500, &[]));
    assert!(tracker.blockers(&ticket).is_err(), "that is not \"none\"");
}

/// What is cut short between our two requests is healed into a new round: in the old
/// one working was put on already.
#[test]
fn a_ticket_that_goes_back_beside_its_queue_label_is_queued_anew() {
    let (server, tracker) = fixture();
    server.world().label("12", "bot", &["orion-working"], &[]);
    tracker.write(&key("12"), &[], &own(&["orion-working"])).expect("write");
    assert_eq!(server.world().labels("12"), ["orion-queue"]);
    assert_eq!(server.world().times_on("12", "orion-queue"), 2);
    // Taken out of the queue on purpose, it stays out.
    server.world().label("12", "bot", &["orion-working"], &[]);
    tracker.write(&key("12"), &[], &own(&["orion-working", "orion-queue"])).expect("write");
    assert_eq!(server.world().labels("12"), Vec::<String>::new());
    assert_eq!(server.world().times_on("12", "orion-queue"), 2);
}
