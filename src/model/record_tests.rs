use super::*;
use serde_json::json;

fn sample() -> Value {
    json!({
        "schema": 1, "kind": "lock", "name": "sync", "token": 1_796_029_924_113_u64,
        "owners": [{"pid": 812, "start_ticks": 51016, "pidfs_ino": 99, "comm": "pi", "uid": 1000}],
        "host": {"boot_id": "b", "boottime_us": 5, "hostname": "h", "pid_ns": 4_026_531_836_u64},
        "acquired_at": "2026-11-29T09:12:04.000Z"
    })
}

fn parse(value: &Value) -> Result<Stored, BadRecord> {
    Stored::parse(value.to_string().as_bytes(), LOCK, "sync")
}

#[test]
fn a_record_survives_writing_and_reading() {
    let stored = parse(&sample()).expect("a record");
    let again = Stored::parse(&bytes(&stored.record), LOCK, "sync").expect("our own bytes");
    assert_eq!(again.record.token, 1_796_029_924_113);
    assert_eq!(again.record.owners[0].pidfs_ino, Some(99));
    assert_eq!(again.record.since().map(WallTime::seconds), Some(1_795_943_524));
}

#[test]
fn a_patch_keeps_fields_nobody_here_knows() {
    let mut value = sample();
    value["future"] = json!({"a": [1, 2]});
    value["host"]["rack"] = json!("r7");
    value["owners"][0]["cgroup"] = json!("/x");
    let stored = parse(&value).expect("a record");
    let patched: Value =
        serde_json::from_slice(&stored.patched(&[("released_at", json!("2026-11-29T10:00:00Z"))]))
            .expect("JSON");
    value["released_at"] = json!("2026-11-29T10:00:00Z");
    assert_eq!(patched, value);
}

/// Old reader and new data, new reader and old data (the version matrix).
#[test]
fn schemas_older_equal_and_newer() {
    let mut value = sample();
    for (schema, expected) in [(json!(3), Some(3)), (json!(99), Some(99))] {
        value["schema"] = schema;
        value["owners"] = json!("another shape altogether");
        assert_eq!(parse(&value).err(), Some(BadRecord::Newer(expected.unwrap_or(0))));
    }
    // One of several members: of a lock alone.
    let mut member = sample();
    member["schema"] = json!(2);
    assert!(parse(&member).is_ok_and(|stored| stored.record.is_member()));
    member["kind"] = json!(CLAIM);
    let claim = Stored::parse(member.to_string().as_bytes(), CLAIM, member["name"].as_str().unwrap_or(""));
    assert_eq!(claim.err(), Some(BadRecord::Newer(2)));
    for schema in [json!(0), json!(-1), json!("1"), json!(1.0), Value::Null] {
        let mut value = sample();
        value["schema"] = schema;
        assert!(matches!(parse(&value), Err(BadRecord::Corrupt(_))));
    }
}

#[test]
fn what_our_writer_cannot_have_written_is_corrupt() {
    let mut bad: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\0\0\0\0".to_vec(),
        b"{\"schema\":1".to_vec(),
        b"[1,2]".to_vec(),
        b"\"text\"".to_vec(),
        vec![b'['; 100_000],
        vec![b' '; 10 << 20],
    ];
    for (key, value) in [
        ("owners", json!([])),
        ("owners", json!([{"pid": 0, "start_ticks": 1}])),
        ("owners", json!([{"pid": -1, "start_ticks": 1}])),
        ("owners", json!([{"pid": 4_294_967_297_u64, "start_ticks": 1}])),
        ("owners", json!([{"pid": 1, "start_ticks": 1}])),
        ("owners", json!({"pid": 812})),
        ("token", json!(0)),
        ("token", json!(1_u64 << 53)),
        ("name", json!("other")),
        ("kind", json!("claim")),
        ("host", Value::Null),
    ] {
        let mut record = sample();
        record[key] = value;
        bad.push(record.to_string().into_bytes());
    }
    for bytes in bad {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert!(matches!(Stored::parse(&bytes, LOCK, "sync"), Err(BadRecord::Corrupt(_))), "{shown}");
    }
}

#[test]
fn pid_1_is_an_owner_only_in_a_container() {
    let mut value = sample();
    value["owners"][0]["pid"] = json!(1);
    assert!(parse(&value).is_err());
    value["host"]["pid_ns"] = json!(4_026_532_179_u64);
    assert!(parse(&value).is_ok());
}

#[test]
fn stuck_needs_a_promise_and_more_awake_time_than_promised() {
    let mut record = parse(&sample()).expect("a record").record;
    let at = |monotonic_us, time_ns| move || AwakeTime { monotonic_us, time_ns };
    let here = Some(crate::model::host::INITIAL_TIME_NS);
    assert_eq!(record.overdue(at(u64::MAX, here)), None, "never ticked");
    record.last_tick = Some(LastTick {
        utc: String::new(),
        boottime_us: 0,
        monotonic_us: 1_000_000,
        time_ns: here,
        every_s: None,
    });
    assert_eq!(record.overdue(at(u64::MAX, here)), None, "no promise");
    record.last_tick.as_mut().expect("a tick").every_s = Some(60);
    assert_eq!(record.overdue(at(61_000_000, here)), None, "within the promise");
    assert_eq!(record.overdue(at(500_000, here)), None, "a tick ahead of the clock says nothing");
    assert!(record.overdue(at(61_000_001, here)).is_some());
    assert_eq!(record.overdue(at(u64::MAX, None)), None, "by another clock");
    assert_eq!(record.overdue(at(u64::MAX, Some(4_026_531_999))), None, "by another clock");
    record.last_tick.as_mut().expect("a tick").time_ns = None;
    assert_eq!(record.overdue(at(u64::MAX, here)), None, "by a clock that nobody named");
}

proptest::proptest! {
    #[test]
    fn no_bytes_crash_the_reader(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
        let _ = Stored::parse(&bytes, LOCK, "sync").is_ok();
    }

    #[test]
    fn no_damage_to_a_record_crashes_the_reader(at in 0usize..300, byte in proptest::num::u8::ANY, cut in 0usize..300) {
        let mut bytes = sample().to_string().into_bytes();
        let place = at % bytes.len();
        bytes[place] = byte;
        bytes.truncate(cut.max(1));
        let _ = Stored::parse(&bytes, LOCK, "sync").is_ok();
    }
}
