//! The precheck: 75 only on proof, and when it goes past a live holder it says so.

use crate::points::failures;
use crate::support::{needs, run};
use crate::world::{Before, World, points, try_all};

#[test]
fn a_precheck_whose_calls_fail_is_never_silent_about_it() {
    if !needs("strace") {
        return;
    }
    for before in [Before::Dead, Before::Live] {
        let faults = failures(&points(before, "orion-precheck", &["sync"]));
        try_all(&format!("precheck over {before:?}, failing"), &faults, |fault| {
            let mut world = World::new(before);
            let done = run(&mut world.traced(&["-e", &fault.inject()], "orion-precheck", &["sync"]));
            let what = format!("precheck over {before:?}: {fault}");
            if let Some(mut holder) = world.holder.take() {
                assert!(done.code == 75 || done.code == 0, "{what}: {done:?}");
                let mute = world
                    .trace()
                    .lines()
                    .any(|line| line.contains("write(2,") && line.contains("(INJECTED)"));
                let said = done.stderr.contains("not guarding");
                assert!(done.code == 75 || mute || said, "{what}: silent: {done:?}");
                holder.kill();
            } else {
                assert_eq!(done.code, 0, "{what}: {done:?}");
            }
        });
    }
}
