use super::*;
use crate::model::ticket::Key;

/// `+q` and `-w` as events with ids 1, 2, 3, …
fn events(text: &str) -> Vec<TicketEvent> {
    let event = |(position, word): (usize, &str)| {
        let (sign, label) = word.split_at(1);
        let label = label.to_owned();
        let what = if sign == "+" { TicketChange::Labeled(label) } else { TicketChange::Unlabeled(label) };
        let at = Some(WallTime(1_000_000_000 * (position as u64 + 1)));
        TicketEvent { id: id(position + 1), what, at, actor: format!("a{}", position + 1) }
    };
    text.split_whitespace().enumerate().map(event).collect()
}

fn id(number: usize) -> EventId {
    EventId(number.to_string())
}

fn ticket(labels: &[&str]) -> Ticket {
    Ticket {
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        ..Ticket::bare(Key::new("1").expect("key"))
    }
}

#[test]
fn a_gate_is_ours_when_exactly_one_took_the_label_off_in_this_round() {
    for (text, began, expected) in [
        ("+q", Some(1), Takeoff::NotYet),
        ("+q -q", Some(1), Takeoff::Ours(id(2))),
        ("+q -q +q -q", Some(3), Takeoff::Ours(id(4))),
        ("+q +x -q -x", Some(1), Takeoff::Ours(id(3))),
        // "Add" is a read-modify-write on some servers and can bring the label back.
        ("+q -q -q", Some(1), Takeoff::Several(2)),
        ("+q -q +q", Some(1), Takeoff::Requeued),
        ("+q -q +q -q", Some(1), Takeoff::Requeued),
        ("", Some(1), Takeoff::NotYet),
        ("+q -q", Some(9), Takeoff::NotYet),
        ("+q -q", None, Takeoff::NotYet),
        ("-q +q -q", None, Takeoff::NotYet),
        ("", None, Takeoff::NotYet),
        ("-q", None, Takeoff::Ours(id(1))),
    ] {
        assert_eq!(takeoff(&events(text), "q", began.map(id).as_ref()), expected, "{text:?}");
    }
}

#[test]
fn a_mark_is_the_only_working_event_since_what_we_won_by() {
    for (text, since, expected) in [
        ("+q -q", Some(2), WorkingEvent::NotYet),
        ("+q -q +w", Some(2), WorkingEvent::Ours(id(3))),
        ("+w -w +q -q +w", Some(4), WorkingEvent::Ours(id(5))),
        ("+q -q +w -w +w", Some(2), WorkingEvent::Several(2)),
        ("+w", None, WorkingEvent::Ours(id(1))),
        ("+q -q +w +q", Some(2), WorkingEvent::Requeued),
        // The event we won by is not in this answer: a lagging list proves nothing.
        ("+w", Some(9), WorkingEvent::NotYet),
    ] {
        let ours = working_event(&events(text), "q", "w", since.map(id).as_ref(), Arbiter::LabelGate);
        assert_eq!(ours, expected, "{text:?}");
    }
    // A leader that gave up in the same round is over; two at a gate are two.
    let text = events("+q -q +w -w +w");
    for (arbiter, expected) in [
        (Arbiter::LabelGate, WorkingEvent::Several(2)),
        (Arbiter::CommentOrder, WorkingEvent::Ours(id(5))),
        (Arbiter::GitRef, WorkingEvent::Ours(id(5))),
    ] {
        assert_eq!(working_event(&text, "q", "w", Some(&id(2)), arbiter), expected, "{arbiter}");
    }
    let both = working_event(&events("+q +w +w"), "q", "w", Some(&id(1)), Arbiter::CommentOrder);
    assert_eq!(both, WorkingEvent::Several(2));
    assert_eq!(signed(&events("+w -w +w"), "w", "a3"), Some(id(3)));
    assert_eq!(signed(&events("+w -w +w"), "w", "a1"), None, "an older one is not ours");
}

#[test]
fn a_gate_is_undone_only_while_nothing_happened_since() {
    for (text, ours, expected) in [
        ("+q -q", 2, true),
        ("+q -q +x", 2, true),
        ("+q -q +w", 2, false),
        ("+q -q +q -q", 2, false),
        ("+q -q +q", 2, false),
        ("+q", 2, false),
        ("+q -q +q", 3, false),
        ("+q +w -q", 3, true),
    ] {
        assert_eq!(may_undo(&events(text), &["q", "w", "c", "r", "f"], &id(ours)), expected, "{text:?}");
    }
}

#[test]
fn a_left_over_intent_is_dropped_only_on_proof() {
    let at = WallTime(2_500_000_000);
    let unused = |text: &str, labels: &[&str], began: Option<usize>| {
        intent_unused(&ticket(labels), &events(text), "q", began.map(id).as_ref(), at)
    };
    assert!(unused("+q", &["q"], Some(1)), "still queued");
    assert!(!unused("+q -q", &[], Some(1)), "taken in our round: by us or by another");
    assert!(unused("+q -q +q", &[], Some(3)), "the list lags, but no one took it since");
    assert!(!unused("", &[], Some(1)), "no event is not proof");
    assert!(unused("+q -q", &[], None), "taken off long before, by the clock");
    assert!(!unused("+q +x -q", &[], None), "taken off after");
    let by_clock =
        |at: u64| intent_unused(&ticket(&[]), &events("+q -q"), "q", None, WallTime(2_000_000_000 + at));
    assert!(!by_clock(600_000) && by_clock(600_001), "two clocks may differ by ten minutes");
    let mut one_write = events("+q -q");
    one_write[1].id = id(1);
    assert!(
        !intent_unused(&ticket(&[]), &one_write, "q", Some(&id(1)), at),
        "one write, one id, and it was taken"
    );
}

fn comments(bodies: &[&str]) -> Vec<Comment> {
    let comment = |(position, body): (usize, &&str)| {
        let (author, body) = body.split_once(": ").expect("author");
        Comment { id: 10 * position as u64, author: author.to_owned(), at: None, body: body.to_owned() }
    };
    bodies.iter().enumerate().map(comment).collect()
}

#[test]
fn the_lowest_standing_marker_of_the_round_wins() {
    let claim = |author: &str, nonce: &str, round: &str| {
        format!("{author}: orion-claim {nonce} round {round} host h")
    };
    let (old, a, b) = (claim("x", "n0", "3"), claim("x", "n1", "7"), claim("x", "n2", "7"));
    let talk = "p: please take orion-claim n9 round 7 host h over";
    let all = [old.as_str(), talk, &a, &b];
    let seven = id(7);
    assert_eq!(order(&comments(&all), Some(&seven), "n1"), Order::Won);
    let lost = Order::Lost { nonce: "n1".into(), host: "h".into(), at: None };
    assert_eq!(order(&comments(&all), Some(&seven), "n2"), lost);
    assert_eq!(order(&comments(&all), Some(&seven), "n3"), Order::Missing);
    assert_eq!(order(&comments(&all), Some(&id(8)), "n1"), Order::Missing, "another round began");
    let voided = [a.as_str(), &b, "x: void n1"];
    assert_eq!(order(&comments(&voided), Some(&seven), "n2"), Order::Won);
    assert_eq!(order(&comments(&voided), Some(&seven), "n1"), Order::Missing);
    let forged = [a.as_str(), &b, "y: void n1"];
    assert_eq!(order(&comments(&forged), Some(&seven), "n2"), lost, "only its author makes it void");
    assert!(is_contested(&comments(&all), Some(&seven)) && !is_contested(&comments(&all), Some(&id(8))));
    assert_eq!(own_markers(&comments(&all), "n2"), [30]);
    let stand = |list: &[Comment]| standing(list, Some(&seven));
    let both = [(20, "n1".to_owned()), (30, "n2".to_owned())];
    assert_eq!(stand(&comments(&all)), both);
    let mut backwards = comments(&all);
    backwards.reverse();
    assert_eq!(stand(&backwards), both, "in whatever order a server lists them");
    assert_eq!(order(&backwards, Some(&seven), "n1"), Order::Won);
}

#[test]
fn the_strongest_arbiter_is_chosen_and_none_is_refused_across_machines() {
    let full = Capabilities { remote: true, event_ids: true, conditional: true, gate: true, comments: true };
    let gate = Capabilities { conditional: false, ..full };
    let comments = Capabilities { gate: false, ..gate };
    let nothing = Capabilities { comments: false, ..comments };
    assert_eq!(choose(None, full, false), Ok(Arbiter::Guard));
    assert_eq!(choose(None, gate, false), Ok(Arbiter::LabelGate));
    assert_eq!(choose(None, comments, false), Ok(Arbiter::CommentOrder));
    assert!(choose(None, nothing, false).is_err());
    assert_eq!(choose(Some(Arbiter::GitRef), nothing, false), Ok(Arbiter::GitRef));
    assert!(choose(Some(Arbiter::None), gate, false).is_err());
    assert_eq!(choose(Some(Arbiter::None), gate, true), Ok(Arbiter::None));
    assert!(choose(Some(Arbiter::LabelGate), comments, false).is_err());
    assert!(choose(Some(Arbiter::CommentOrder), nothing, true).is_err());
    assert!(choose(Some(Arbiter::Guard), gate, true).is_err());
    assert!(choose(None, Capabilities { event_ids: false, ..full }, false).is_err());
    assert_eq!(choose(None, Capabilities { event_ids: false, ..full }, true), Ok(Arbiter::Guard));
    assert_eq!(choose(None, Capabilities { remote: false, ..nothing }, false), Ok(Arbiter::None));
    for arbiter in Arbiter::ALL {
        assert_eq!(Arbiter::parse(arbiter.as_str()), Some(arbiter));
    }
}

#[test]
fn a_round_begins_where_the_queue_label_came_on_last_and_a_wish_is_one_after_the_claim() {
    assert_eq!(round(&events("+q -q +q +w"), "q"), Some(id(3)));
    assert_eq!(round(&events("+w"), "q"), None);
    let since = |text: &str, event: Option<usize>| queued_since(&events(text), "q", event.map(id).as_ref());
    assert!(since("+q -q +w +q", Some(3)));
    assert!(!since("+q -q +w", Some(3)));
    assert!(!since("+q +w +x", Some(2)), "another label is no wish");
    assert!(!since("+q", Some(1)), "that event itself is not after it");
    assert!(since("+q +w", None), "without the event anything counts");
    assert!(since("+q +w", Some(9)));
}
