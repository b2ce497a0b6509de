use super::*;
use serde_json::json;

/// One value of every JSON type.
fn every_type() -> Vec<Value> {
    vec![json!(true), json!(1), json!(0), json!(-1), json!("x"), json!("true"), json!([]), json!({})]
}

fn with(base: &Value, key: &str, value: &Value) -> Value {
    let mut changed = base.clone();
    changed[key] = value.clone();
    changed
}

#[test]
fn an_unknown_word_or_type_about_an_agent_keeps() {
    let done = json!({"paneKey": "t:l", "state": "done"});
    assert_eq!(veto(std::slice::from_ref(&done), "t:l"), None);
    assert_eq!(veto(&[], "t:l"), None);
    let cases = [
        ("working", "busy"),
        ("blocked", "question"),
        ("waiting", "question"),
        ("thinking", "unreadable"),
        ("", "unreadable"),
        ("Done", "unreadable"),
    ];
    let word = |idle: Option<Idle>| match idle {
        None => "nothing",
        Some(Idle::Busy(_)) => "busy",
        Some(Idle::Question(_)) => "question",
        Some(Idle::No(_)) => "no",
        Some(Idle::Unreadable(_)) => "unreadable",
        Some(_) => "idle",
    };
    for (state, expected) in cases {
        assert_eq!(word(veto(&[with(&done, "state", &json!(state))], "t:l")), expected, "{state}");
        let child = json!({"paneKey": "o:o", "parentPaneKey": "t:l", "state": state});
        let expected = if expected == "unreadable" { "unreadable" } else { "busy" };
        assert_eq!(word(veto(&[child], "t:l")), expected, "child {state}");
    }
    assert_eq!(word(veto(&[with(&done, "restoredUnconfirmed", &json!(true))], "t:l")), "no");
    for key in ["paneKey", "parentPaneKey", "state", "restoredUnconfirmed"] {
        for value in every_type() {
            let fits = if key == "restoredUnconfirmed" { value.is_boolean() } else { value.is_string() };
            let said = word(veto(&[with(&done, key, &value)], "t:l"));
            assert!(fits || said == "unreadable", "{key}: {value}: {said}");
        }
    }
    assert_eq!(word(veto(&[json!(7)], "t:l")), "unreadable");
    let bad_list = [json!({}), json!({"worktrees": {}}), json!({"worktrees": [{"agents": {}}]})];
    assert!(bad_list.iter().all(|answer| agents(answer).is_err()));
    assert_eq!(agents(&json!({"worktrees": [{}, {"agents": null}, {"agents": [1]}]})), Ok(vec![json!(1)]));
}

#[test]
fn only_true_satisfies_a_wait() {
    let wait = json!({"satisfied": true, "blockedReason": null});
    assert_eq!(waited(&json!({"wait": wait})), Idle::Yes("tui-idle".into()));
    for key in ["satisfied", "blockedReason"] {
        for value in every_type().into_iter().filter(|value| key != "satisfied" || *value != json!(true)) {
            let said = waited(&json!({"wait": with(&wait, key, &value)}));
            assert!(!matches!(said, Idle::Yes(_)), "{key}: {value}");
        }
    }
    for answer in [json!({}), json!({"wait": null}), json!({"wait": true}), json!({"wait": {}}), json!([])] {
        assert!(!matches!(waited(&answer), Idle::Yes(_)), "{answer}");
    }
}

#[test]
fn a_second_look_of_another_type_is_not_the_same() {
    let item = json!({"handle": "h", "tabId": "t", "leafId": "l", "ptyId": "p", "connected": true,
        "lastOutputAt": 5000, "title": "x", "worktreeId": "w"});
    let again = |item: &Value| looked(item, Some("p"), Some(5000.0));
    assert_eq!(again(&item), Ok((Again::Same, None)));
    for key in ["ptyId", "lastOutputAt", "connected", "agentWait"] {
        for value in every_type() {
            let same = again(&with(&item, key, &value)) == Ok((Again::Same, None));
            assert!(!same || (key == "connected" && value == json!(true)), "{key}: {value}");
        }
    }
    for key in ["handle", "tabId", "leafId", "ptyId", "worktreeId", "title", "connected", "lastOutputAt"] {
        for value in every_type() {
            let fits = match key {
                "connected" => value.is_boolean(),
                "lastOutputAt" => value.as_f64().is_some_and(|time| time >= 1.0),
                _ => value.is_string(),
            };
            assert_eq!(well_typed(&with(&item, key, &value)).is_ok(), fits, "{key}: {value}");
        }
    }
}
