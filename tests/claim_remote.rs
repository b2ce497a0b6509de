//! What servers say beside labels: who is on a ticket, what it waits for, whether
//! our token still works. And what nobody may ever read: secrets.

#[path = "support/claims.rs"]
mod claims;
#[path = "support/remote.rs"]
mod remote;
mod support;
#[path = "support/tracker_server.rs"]
mod tracker_server;

use remote::{Dialect, Remote};

#[test]
fn what_waits_for_another_ticket_or_is_somebody_elses_is_not_offered() {
    for dialect in Dialect::ALL {
        let remote = Remote::with(dialect, 4);
        let keys: Vec<String> = (1..=4).map(|number| remote.key(number)).collect();
        {
            let mut world = remote.server.world();
            world.change(&keys[0], |ticket| ticket.blockers = vec![keys[3].clone()]);
            world.change(&keys[1], |ticket| ticket.assignees = vec!["ann".to_owned()]);
            world.change(&keys[2], |ticket| ticket.assignees = vec!["Shared-Bot".to_owned()]);
        }
        let next = || remote.claim(&["next"]).expect(0).stdout.trim().to_owned();
        assert_eq!(next(), keys[2], "{dialect:?}");
        let said = remote.claim(&["next", "-v"]).expect(0).stderr;
        assert!(said.contains(&format!("{} is not offered: blocked by ", keys[0])), "{dialect:?}: {said}");
        let ann = format!("{} is not offered: assigned to ann, and we are shared-bot", keys[1]);
        assert!(said.contains(&ann), "{dialect:?}: {said}");
        let object = remote.claim(&["next", "--json"]).json();
        assert_eq!(
            (&object["queued"], &object["not_offered"][1]["key"]),
            (&2.into(), &keys[1].as_str().into())
        );
        let first = remote.claim(&["next", "--ignore-assignee"]).expect(0).stdout;
        assert_eq!(first.trim(), keys[1], "{dialect:?}");
        // Its blocker is done.
        remote.server.world().close(&keys[3], true);
        assert_eq!(next(), keys[0], "{dialect:?}");
    }
}
