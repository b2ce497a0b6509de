use super::*;
use crate::command::mark::hooks::our_mark;
use crate::model::agent_profile::HookEvent;
use proptest::prelude::*;

const FORMS: [HookForm; 2] = [HookForm::Json, HookForm::Toml];

fn wanted() -> Vec<WantedHook> {
    let hook = |on: &str, matcher: Option<&str>, mark: &str| WantedHook {
        event: HookEvent {
            on: on.to_owned(),
            matcher: matcher.map(str::to_owned),
            mark: mark.to_owned(),
            since: None,
        },
        command: format!("orion-mark {mark}"),
        timeout: 10,
    };
    vec![
        hook("Stop", None, "idle"),
        hook("Notification", Some("idle_prompt"), "idle"),
        hook("Notification", Some("permission_prompt"), "question"),
        hook("PreToolUse", Some("*"), "busy"),
    ]
}

const SHAPES: [&str; 22] = [
    "",
    "\n",
    "{}",
    "{ }\n",
    "{\n}\n",
    "// only a comment\n{}",
    "{\"model\":\"opus\"}",
    "{\n  \"model\": \"opus\"\n}\n",
    "{\n\t\"model\": \"opus\", // mine\n}\n",
    "\u{feff}{\"a\": 1}\n",
    "{\r\n  \"a\": 1\r\n}\r\n",
    "{\"hooks\":{}}",
    "{\"hooks\": {\"Stop\": []}}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [\n    ]\n  }\n}",
    "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"say done\"}]}]},\"z\":[1,2,]}",
    "{\n  /* before */ \"hooks\": { // here\n    \"Stop\": [ // a list\n      { \"hooks\": [ { \"type\": \"command\", \"command\": \"x\" } ] } // last\n    ] /* after */\n  } // end\n} // out\n",
    "{\"hooks\":{\"Other\":\"not a list\"}}",
    "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[]}]}}",
    "{\"a\":{\"hooks\":[]},\"b\":\"orion-mark idle\"}   ",
    "{\"é\":\"\\u0041 \\\" \"}",
    "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"command\":\"/opt/orion-mark idle --later\"}]}]}}",
    "[1]",
];

#[test]
fn every_shape_of_json_comes_back_byte_for_byte() {
    for shape in SHAPES {
        let Ok(after) = with(HookForm::Json, shape, &wanted()) else {
            assert_eq!(shape, "[1]", "only what is not an object is refused");
            continue;
        };
        let ours = found(HookForm::Json, &after).expect("readable");
        assert_eq!(ours.len(), wanted().len(), "{after}");
        let back = removed(HookForm::Json, &after, Some(shape), &wanted()).expect("removed");
        assert_eq!(back.as_deref(), Some(shape));
        // Without the copy, what is left says the same.
        let left = without(HookForm::Json, &after).expect("removed");
        assert!(found(HookForm::Json, &left).expect("readable").is_empty(), "{left}");
        for comment in ["// mine", "/* before */", "// here", "// a list", "// last", "/* after */", "// out"]
        {
            assert_eq!(shape.contains(comment), left.contains(comment), "{comment} of {shape} in {left}");
        }
        assert_eq!(plain(&left), plain(shape), "{left}");
    }
}

/// The meaning of a file, without containers that hold nothing.
fn plain(text: &str) -> serde_json::Value {
    fn prune(value: serde_json::Value) -> Option<serde_json::Value> {
        use serde_json::Value::{Array, Null, Object};
        match value {
            Object(fields) => {
                let fields: serde_json::Map<_, _> =
                    fields.into_iter().filter_map(|(key, value)| Some((key, prune(value)?))).collect();
                (!fields.is_empty()).then_some(Object(fields))
            }
            Array(items) => {
                let items: Vec<_> = items.into_iter().filter_map(prune).collect();
                (!items.is_empty()).then_some(Array(items))
            }
            Null => None,
            other => Some(other),
        }
    }
    // Comments and commas off: our shapes have no string with such characters in it.
    let mut text = text.trim_start_matches('\u{feff}').to_owned();
    while let Some(at) = text.find("/*") {
        let end = text[at..].find("*/").expect("an end") + at + 2;
        text.replace_range(at..end, "");
    }
    let text: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let text: String = text.split_inclusive(',').fold(String::new(), |mut all, part| {
        let closes = part.trim_start().starts_with([']', '}']);
        if closes && all.ends_with(',') {
            all.pop();
        }
        all + part
    });
    prune(serde_json::from_str(if text.trim().is_empty() { "{}" } else { &text }).expect("JSON"))
        .unwrap_or(serde_json::Value::Null)
}

#[test]
fn what_is_not_understood_is_refused() {
    for text in [
        "{",
        "[]",
        "\"x\"",
        "{\"hooks\":[]}",
        "{\"hooks\":null}",
        "{\"hooks\":{\"Stop\":{}}}",
        "{\"hooks\":{\"Stop\":\"x\"}}",
        "{\"hooks\":{},\"hooks\":{}}",
        "{\"hooks\":{\"Stop\":[],\"Stop\":[]}}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{}{}",
        "{\"a\":0x1}",
    ] {
        assert!(with(HookForm::Json, text, &wanted()).is_err(), "{text}");
    }
    for text in ["x", "hooks = 1", "hooks = {}", "[hooks]\nStop = 1", "[hooks.Stop]", "a = 1\na = 2"] {
        assert!(with(HookForm::Toml, text, &wanted()).is_err(), "{text}");
    }
}

const TOML_SHAPES: [&str; 9] = [
    "",
    "# only a comment",
    "model = \"x\"",
    "model = \"x\" # mine\n\n[a.b]\nc = 1\n",
    "[hooks]\n",
    "[hooks.state]\nx = \"y\" # mine\n",
    "[hooks]\nStop = [{ hooks = [{ type = \"command\", command = \"x\" }] }] # mine\n",
    "a = 1\r\n[[hooks.Stop]]\r\nhooks = [{ command = \"x\" }]\r\n[z]\r\n",
    "[[hooks.Stop]] # mine\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"x\"\n\n[other]\nk = [1,\n 2]\n",
];

#[test]
fn every_shape_of_toml_comes_back_byte_for_byte() {
    for shape in TOML_SHAPES {
        let after = with(HookForm::Toml, shape, &wanted()).unwrap_or_else(|error| panic!("{error}: {shape}"));
        assert_eq!(found(HookForm::Toml, &after).expect("readable").len(), wanted().len(), "{after}");
        let back = removed(HookForm::Toml, &after, Some(shape), &wanted()).expect("removed");
        assert_eq!(back.as_deref(), Some(shape));
        let left = without(HookForm::Toml, &after).expect("removed");
        assert!(found(HookForm::Toml, &left).expect("readable").is_empty(), "{left}");
        for kept in ["# mine", "# only a comment", "command = \"x\"", "k = [1,\n 2]", "x = \"y\"", "c = 1"] {
            assert_eq!(shape.contains(kept), left.contains(kept), "{kept} of {shape} in {left}");
        }
    }
}

#[test]
fn only_commands_of_ours_are_ours() {
    assert_eq!(our_mark("orion-mark idle").as_deref(), Some("idle"));
    assert_eq!(our_mark("'/usr/local/bin/orion-mark' busy").as_deref(), Some("busy"));
    for other in
        ["orion-mark", "orion-mark idle; beep", "orion-mark claim", "my-orion-mark idle", "echo idle", ""]
    {
        assert_eq!(our_mark(other), None, "{other}");
    }
}

#[test]
fn what_a_person_adds_after_the_install_stays() {
    let before = "{\n  \"model\": \"opus\"\n}\n";
    let after = with(HookForm::Json, before, &wanted()).expect("installed");
    // Beside ours in a group of ours, in a group of their own, and elsewhere.
    let edited = after
        .replacen(
            "\"command\": \"orion-mark idle\"",
            "\"command\": \"beep\" }, { \"command\": \"orion-mark idle\"",
            1,
        )
        .replace("\"opus\"", "\"haiku\" /* cheaper */");
    let left = removed(HookForm::Json, &edited, Some(before), &wanted()).expect("removed").expect("a file");
    assert!(left.contains("beep") && left.contains("\"haiku\" /* cheaper */"), "{left}");
    assert!(!left.contains("orion-mark") && !left.contains("PreToolUse"), "{left}");
}

fn any_settings() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "[0-9]{1,3}".prop_filter("no leading zero", |n| n.len() == 1 || !n.starts_with('0')),
        "\"[a-z ]{0,5}\"".prop_map(|text| text),
        Just("\"orion-mark idle\"".to_owned()),
    ];
    let value = leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            (proptest::collection::vec(inner.clone(), 0..4), space())
                .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!(",{space}")))),
            (proptest::collection::vec(("[a-z]{1,4}", inner), 0..3), space()).prop_map(|(fields, space)| {
                let mut seen = std::collections::BTreeSet::new();
                let fields: Vec<String> = fields
                    .into_iter()
                    .filter(|(key, _)| seen.insert(key.clone()))
                    .map(|(key, value)| format!("\"{key}\":{space}{value}"))
                    .collect();
                format!("{{{space}{}{space}}}", fields.join(&format!(",{space}")))
            }),
        ]
    });
    let hooks = prop_oneof![
        Just(String::new()),
        Just("\"hooks\": {},".to_owned()),
        Just("\"hooks\": {\"Stop\": []},".to_owned()),
        Just("\"hooks\":{\"Stop\":[{\"hooks\":[{\"command\":\"x\"}]}, ],\"Mine\":7},".to_owned()),
    ];
    (hooks, "[a-g]{1,3}", value, space(), space(), any::<bool>()).prop_map(
        |(hooks, key, value, space, end, comma)| {
            let comma = if comma { "," } else { "" };
            format!("{space}{{{space}{hooks}{space}\"{key}\":{value}{comma}{end}}}{end}")
        },
    )
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n  ".to_owned()),
        Just("\r\n\t".to_owned()),
        Just(" // a comment, with \"quotes\" {\n".to_owned()),
        Just("/* x */".to_owned()),
    ]
}

proptest! {
    #[test]
    fn install_and_remove_give_the_same_bytes(text in any_settings()) {
        let after = with(HookForm::Json, &text, &wanted()).expect("installed");
        prop_assert_eq!(found(HookForm::Json, &after).expect("readable").len(), wanted().len());
        let back = removed(HookForm::Json, &after, Some(&text), &wanted()).expect("removed");
        prop_assert_eq!(back.as_deref(), Some(text.as_str()));
        // Also without the copy, every line of the person's is still there.
        let left = without(HookForm::Json, &after).expect("removed");
        prop_assert!(found(HookForm::Json, &left).expect("readable").is_empty());
        prop_assert_eq!(left.matches("a comment").count(), text.matches("a comment").count());
        prop_assert_eq!(left.matches("/* x */").count(), text.matches("/* x */").count());
        prop_assert_eq!(left.matches("\"orion-mark idle\"").count(), text.matches("\"orion-mark idle\"").count());
    }

    #[test]
    fn no_text_crashes_the_settings(text in "[\\[\\]{}\",:a-z/*\n =#]{0,60}") {
        for form in FORMS {
            if let Ok(after) = with(form, &text, &wanted()) {
                prop_assert_eq!(removed(form, &after, Some(&text), &wanted()), Ok(Some(text.clone())));
            }
        }
    }
}
