use super::*;
use serde_json::json;

fn nightly() -> Automation {
    Automation {
        id: "a1".into(),
        name: "nightly".into(),
        ambiguous: false,
        reuse: false,
        precheck_seconds: None,
    }
}

fn run_with(change: impl FnOnce(&mut Value)) -> OrcaRun {
    let mut value = json!({"automationId": "a1", "status": "dispatched", "terminalPaneKey": "tab:leaf",
        "terminalPtyId": "pty", "workspaceId": "w", "createdAt": 1000, "startedAt": null, "dispatchedAt": 2000});
    change(&mut value);
    run(&value, &nightly()).expect("a run")
}

fn pane_with(change: impl FnOnce(&mut Value)) -> Pane {
    let mut value =
        json!({"handle": "term_1", "tabId": "tab", "leafId": "leaf", "ptyId": "pty", "worktreeId": "w"});
    change(&mut value);
    pane(&value).expect("a pane")
}

fn word(belongs: &Belongs) -> &'static str {
    match belongs {
        Belongs::Named(_) => "named",
        Belongs::NoRun => "no-run",
        Belongs::NotItsOwn(_) => "not-its-own",
        Belongs::Ambiguous(_) => "ambiguous",
        Belongs::Starting(_) => "starting",
        Belongs::Resumed(_) => "resumed",
        Belongs::Part(_) | Belongs::Other(_) | Belongs::Unreadable(_) => "unexpected",
    }
}

#[test]
fn only_pane_and_pty_together_prove_a_run() {
    let none = |_: &mut Value| {};
    let cases: Vec<(&str, OrcaRun, Pane)> = vec![
        ("named", run_with(none), pane_with(none)),
        ("named", run_with(|r| r["status"] = json!("completed")), pane_with(none)),
        ("named", run_with(|r| r["status"] = json!("dispatch_failed")), pane_with(none)),
        ("named", run_with(none), pane_with(|p| p["tabId"] = json!("moved"))),
        ("named", run_with(|r| r["workspaceId"] = Value::Null), pane_with(none)),
        ("no-run", run_with(none), pane_with(|p| p["leafId"] = json!("other"))),
        ("no-run", run_with(|r| r["terminalPaneKey"] = Value::Null), pane_with(none)),
        ("resumed", run_with(|r| r["terminalPtyId"] = Value::Null), pane_with(none)),
        ("resumed", run_with(none), pane_with(|p| p["ptyId"] = json!("pty2"))),
        ("resumed", run_with(none), pane_with(|p| p["ptyId"] = Value::Null)),
        ("not-its-own", run_with(none), pane_with(|p| p["worktreeId"] = json!("w2"))),
        ("starting", run_with(|r| r["status"] = json!("pending")), pane_with(none)),
        ("starting", run_with(|r| r["status"] = json!("skipped_precheck")), pane_with(none)),
        ("starting", run_with(|r| r["status"] = json!("of a newer build")), pane_with(none)),
    ];
    for (position, (expected, run, pane)) in cases.into_iter().enumerate() {
        assert_eq!(word(&join(&pane, &[run]).0), expected, "case {position}");
    }
    let old = pane_with(|p| drop(p.as_object_mut().map(|p| p.remove("ptyId"))));
    assert_eq!(old.pty, Pty::NotListed);
}

#[test]
fn the_newest_run_of_a_shared_terminal_counts() {
    let old = run_with(|r| r["createdAt"] = json!(10));
    let new = run_with(|r| {
        r["createdAt"] = json!(20);
        r["startedAt"] = json!(30);
    });
    let runs = [new.clone(), old];
    let (belongs, run) = join(&pane_with(|_| ()), &runs);
    assert_eq!((word(&belongs), run), ("named", Some(&new)));
    assert_eq!(new.started, Some(WallTime(30)));
    let next = run_with(|r| r["status"] = json!("dispatching"));
    assert_eq!(word(&join(&pane_with(|_| ()), &[new, next]).0), "starting");
}

#[test]
fn names_are_exact_and_a_shared_one_means_nobody() {
    let list = [
        json!({"id": "a1", "name": "nightly", "precheck": {"command": "x", "timeoutSeconds": 120}}),
        json!({"id": "a2", "name": "nightly-2", "reuseSession": true}),
        json!({"id": "a3", "name": "twin"}),
        json!({"id": "a4", "name": "twin"}),
    ];
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let (found, warnings) = automations(&list, &named(&["nightly"]));
    assert_eq!((found.len(), warnings.len()), (1, 0));
    assert_eq!((found[0].id.as_str(), found[0].precheck_seconds), ("a1", Some(120)));
    let (found, _) = automations(&list, &named(&["twin"]));
    assert!(found.len() == 2 && found.iter().all(|one| one.ambiguous));
    let (found, _) = automations(&list, &named(&["a3", "twin"]));
    assert_eq!(found.iter().map(|one| one.ambiguous).collect::<Vec<_>>(), [false, true]);
    let (found, _) = automations(&list, &named(&["a3", "a4", "twin"]));
    assert!(found.len() == 2 && found.iter().all(|one| !one.ambiguous));
    let (found, warnings) = automations(&list, &named(&["nigh"]));
    assert_eq!((found.len(), warnings.len()), (0, 1));
}
