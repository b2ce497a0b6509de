use super::*;
use crate::model::ticket::{EventId, Expect, Swap, Swapped, TicketChange};
use crate::tracker::TokenSource;
use crate::tracker::secret::Secret;
use crate::tracker::test_server::{Answer as Reply, Fault, Kind, Server};
use std::time::Duration;

const TOKEN: &str = "gl-s3cret";

fn options() -> Options {
    Options {
        token: TokenSource::Given(Secret::new(TOKEN).expect("token")),
        timeout: Duration::from_secs(10),
        patience: Duration::from_secs(10),
        ..Options::default()
    }
}

fn fixture() -> (Server, GitLab) {
    let server = Server::start();
    server.world().queued("12");
    let tracker = GitLab::open(&server.url, "acme/tools", &options()).expect("opens");
    (server, tracker)
}

fn key(text: &str) -> Key {
    Key::new(text).expect(text)
}

fn own(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}

#[test]
fn a_claim_is_one_write_and_is_told_from_others_by_its_event() {
    let (server, tracker) = fixture();
    server.world().label("12", "person", &["mine"], &[]);
    let expect =
        Expect { has: own(&["orion-queue"]), lacks: own(&["orion-working"]), open: Some(true), mark: None };
    let claim = Swap { add: own(&["orion-working"]), remove: own(&["orion-queue"]), expect, signature: None };
    assert_eq!(tracker.swap(&key("12"), &claim).expect("swap"), Swapped::Done(None));
    assert_eq!(server.world().labels("12"), ["mine", "orion-working"]);
    assert_eq!(server.count("PUT "), 1);
    assert!(server.world().seen.iter().all(|one| one.authorization == format!("Bearer {TOKEN}")));
    let events = tracker.events(&key("12")).expect("events");
    let whats: Vec<TicketChange> = events.iter().map(|event| event.what.clone()).collect();
    assert_eq!(whats[2], TicketChange::Labeled("orion-working".into()));
    assert_eq!(whats[3], TicketChange::Unlabeled("orion-queue".into()));
    let expect = Expect { mark: Some(("orion-working".into(), events[2].id.clone())), ..Expect::default() };
    let hand_over =
        Swap { add: own(&["orion-ready"]), remove: own(&["orion-working"]), expect, signature: None };
    // Somebody else's claim of the same ticket.
    server.world().label("12", "person", &[], &["orion-working"]);
    server.world().label("12", "person", &["orion-working"], &[]);
    assert!(matches!(tracker.swap(&key("12"), &hand_over).expect("swap"), Swapped::Changed(_)));
}

#[test]
fn changes_of_state_stand_between_label_events_and_have_other_ids() {
    let (server, tracker) = fixture();
    server.world().close("12", true);
    server.world().close("12", false);
    let events = tracker.events(&key("12")).expect("events");
    let whats: Vec<TicketChange> = events.iter().map(|event| event.what.clone()).collect();
    let queued = TicketChange::Labeled("orion-queue".into());
    assert_eq!(whats, [queued, TicketChange::Closed, TicketChange::Reopened]);
    assert!(events.iter().all(|event| event.what == whats[0] || event.id.0.starts_with("state-")));
    assert_ne!(events[0].id, EventId("state-100".into()));
}

#[test]
fn every_page_is_read_and_a_wrong_project_is_never_an_empty_queue() {
    for headers in [true, false] {
        let (server, tracker) = fixture();
        server.world().no_links = !headers;
        for number in 100..350 {
            server.world().queued(&number.to_string());
        }
        assert_eq!(tracker.queue().expect("queue").tickets.len(), 251);
        for number in 0..230 {
            server.world().person_comments("12", &format!("comment {number}"));
        }
        assert_eq!(tracker.comments(&key("12")).expect("comments").len(), 230, "no system notes");
        let wrong = GitLab::open(&server.url, "acme/other", &options()).expect("opens");
        assert_eq!(wrong.queue().expect_err("no such project").why(), Why::NoTracker);
        assert_eq!(tracker.ticket(&key("999")).expect_err("no such issue").why(), Why::NoTicket);
    }
}

#[test]
fn a_comma_joins_labels_and_so_none_may_have_one() {
    let mut odd = options();
    odd.labels.ready = "ready, steady".into();
    assert_eq!(GitLab::open("https://x.example", "a/b", &odd).err().expect("refused").why(), Why::Setting);
    let (_server, tracker) = fixture();
    assert!(tracker.take(&key("12"), "orion-queue").is_err(), "not a gate");
    assert!(!tracker.can().gate && !tracker.can().conditional);
}

#[test]
fn what_the_token_may_is_told_by_itself_or_not_at_all() {
    let (server, tracker) = fixture();
    server.world().scopes = Some("read_api".to_owned());
    assert!(tracker.check(false).expect("check").iter().any(|finding| !finding.ok));
    server.world().scopes = Some("api".to_owned());
    assert!(tracker.check(false).expect("check").iter().all(|finding| finding.ok && finding.proved));
    // The token of a job has no such page.
    server.fault(Fault::status("/personal_access_tokens/self", 1, 401, &[]));
    assert!(tracker.check(false).expect("check").iter().any(|finding| finding.ok && !finding.proved));
}

#[test]
fn an_account_without_the_right_and_a_project_that_cannot_change_are_seen() {
    let (server, tracker) = fixture();
    let project = |body: &str| {
        let body = body.to_owned();
        server.fault(Fault::new("GET /api/v4/projects/acme%2Ftools", 1, move || {
            Kind::Answer(Reply { status: 200, headers: Vec::new(), body: body.clone() })
        }));
        tracker.check(false).expect("check").iter().all(|finding| finding.ok)
    };
    let access = |project: u8, group: u8| {
        format!(
            "{{\"permissions\": {{\"project_access\": {{\"access_level\": {project}}}, \"group_access\": {{\"access_level\": {group}}}}}}}"
        )
    };
    assert!(project(&access(15, 0)) && project(&access(0, 20)), "the better of both counts");
    assert!(!project(&access(10, 10)), "a guest");
    assert!(!project("{\"archived\": true}") && !project("{\"issues_access_level\": \"disabled\"}"));
}
