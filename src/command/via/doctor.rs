//! `doctor --via`: tries what the locks need, for real, and says what it found.

use super::ViaCall;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::os::{clock, random};
use crate::via::engine::{ViaBeat, ViaRequest, ViaTake};
use crate::via::fault::ViaFault;
use crate::via::session::{CONNECT, ViaSession};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How far a server's clock may be away before it is worth a word.
const CLOCK: f64 = 5.0;

struct Check {
    what: &'static str,
    /// `Err`: what is wrong. `Ok`: what was found.
    found: Result<String, String>,
    /// A failure here makes the locks unusable.
    must: bool,
}

pub(super) fn doctor(call: &ViaCall) -> Result<Status, Error> {
    let mut checks = Vec::new();
    let mut add = |what, must, found: Result<String, String>| {
        let fine = found.is_ok();
        checks.push(Check { what, found, must });
        fine
    };
    match ViaSession::open(&call.place, CONNECT) {
        Ok(mut session) => {
            let facts = session.facts.clone();
            let tls = if session.has_tls() { "with TLS, name and chain proved" } else { "without TLS" };
            add("connect", true, Ok(format!("PostgreSQL {} at {}, {tls}", facts.version, call.place.shown)));
            add("no pooler, settings read back, fsync, primary", true, Ok("as they must be".to_owned()));
            let away = facts.now - clock::wall().seconds() as f64;
            let clocks = format!("the server's is {away:.1}s from this machine's; nothing depends on it");
            add("clock", false, if away.abs() <= CLOCK { Ok(clocks) } else { Err(clocks) });
            let alone = "no synchronous standby: a failover may lose the last acquire, and then only the token protects";
            let standbys = facts.standbys.as_str();
            add(
                "standbys",
                false,
                if standbys.is_empty() { Err(alone.to_owned()) } else { Ok(standbys.to_owned()) },
            );
            let superuser =
                "this role is a superuser: it can change and end everything there; use one with EXECUTE only";
            let plain = facts.superuser == "off";
            add(
                "rights",
                false,
                if plain { Ok("not a superuser".to_owned()) } else { Err(superuser.to_owned()) },
            );
            let slots =
                "select (select count(*) from pg_stat_activity where backend_type = 'client backend')::text";
            let used = session.ask(slots, CONNECT).map(|reply| reply.value.unwrap_or_default());
            add(
                "connections",
                false,
                used.map(|used| format!("{used} of {}", facts.max)).map_err(|it| it.words()),
            );
            session.close();
            for (what, found) in play(call) {
                if !add(what, true, found) {
                    break;
                }
            }
        }
        Err(fault) => {
            let error = fault.at(&call.place.shown);
            add("connect", true, Err(error.to_string()));
        }
    }
    tell(call, &checks)
}

/// Two sessions on a lock of its own.
fn play(call: &ViaCall) -> Vec<(&'static str, Result<String, String>)> {
    let mut found: Vec<(&'static str, Result<String, String>)> = Vec::new();
    match try_out(call, &mut found) {
        Ok(()) => {}
        Err((what, fault)) => found.push((what, Err(fault.at(&call.place.shown).to_string()))),
    }
    found
}

type ViaFinding = Vec<(&'static str, Result<String, String>)>;

fn try_out(call: &ViaCall, found: &mut ViaFinding) -> Result<(), (&'static str, ViaFault)> {
    let open = || ViaSession::open(&call.place, CONNECT);
    let wish = |nonce: String| ViaRequest {
        name: format!("_doctor.{}", crate::os::host::hostname()),
        nonce,
        grace_ms: Some(2000),
        holder: json!({"host": crate::os::host::hostname(), "pid": std::process::id(), "comm": "doctor"}),
        once: None,
        once_ok: false,
        cooldown_ms: None,
        floor: None,
    };
    let nonce = || random::id().unwrap_or_default();
    let what = "the schema, and the right to use it";
    let mut first = open().map_err(|fault| (what, fault))?;
    let one = wish(nonce());
    let mut taken = first.take(&one, None).map_err(|fault| (what, fault))?;
    if let ViaTake::Cut(cut) = &taken {
        // Left by a doctor that was killed.
        std::thread::sleep(Duration::from_secs(2));
        taken = first.take(&one, Some((cut.row.token, cut.row.generation))).map_err(|fault| (what, fault))?;
    }
    let (id, token) = match taken {
        ViaTake::Taken { id, token, .. } => (id, token),
        ViaTake::Young(unsettled) => {
            let wait = duration::show(unsettled.max_grace);
            found.push((
                what,
                Err(format!("this server was promoted or restored; the first run here waits {wait}")),
            ));
            return Ok(());
        }
        ViaTake::Held => {
            found.push((what, Err("another doctor of this host is at work".to_owned())));
            return Ok(());
        }
        other => {
            found.push((what, Err(format!("an answer that was not expected: {other:?}"))));
            return Ok(());
        }
    };
    found.push((what, Ok("acquired".to_owned())));
    let what = "a second session is refused";
    let mut second = open().map_err(|fault| (what, fault))?;
    second.listen().map_err(|fault| (what, fault))?;
    let two = wish(nonce());
    let held = matches!(second.take(&two, None).map_err(|fault| (what, fault))?, ViaTake::Held);
    found.push((
        what,
        if held { Ok("held".into()) } else { Err("both got the lock: these locks exclude nobody".into()) },
    ));
    if !held {
        return Ok(());
    }
    let what = "beat";
    let begin = Instant::now();
    let beat = first.beat(id, token, &one.nonce, false, CONNECT).map_err(|fault| (what, fault))?;
    let time = duration::show(begin.elapsed());
    found.push((
        what,
        if beat == ViaBeat::Ok { Ok(format!("answered in {time}")) } else { Err(format!("{beat:?}")) },
    ));
    let what = "news of a release";
    first.release(&one.name, token, &one.nonce, false, 0, &one.holder).map_err(|fault| (what, fault))?;
    let news = second.wait_for_news(Duration::from_secs(3)).map_err(|fault| (what, fault))?;
    found.push((
        what,
        if news { Ok("it came".into()) } else { Err("none came; waiters look once a second".into()) },
    ));
    let what = "the end of a session frees its lock, and the row stays";
    let taken = second.take(&two, None).map_err(|fault| (what, fault))?;
    second.close();
    let begin = Instant::now();
    let outcome = loop {
        match first.take(&one, None).map_err(|fault| (what, fault))? {
            ViaTake::Held if begin.elapsed() < CONNECT => std::thread::sleep(Duration::from_millis(20)),
            ViaTake::Cut(cut) => break Ok((cut, duration::show(begin.elapsed()))),
            other => break Err(format!("an answer that was not expected: {other:?}")),
        }
    };
    let token = match (taken, &outcome) {
        (ViaTake::Taken { token, .. }, Ok(_)) => token,
        _ => 0,
    };
    found.push((what, outcome.map(|(_, time)| format!("cut off after {time}"))));
    // It is ours to clean up.
    drop(first.release(&two.name, token, &two.nonce, false, 0, &two.holder));
    first.close();
    Ok(())
}

fn tell(call: &ViaCall, checks: &[Check]) -> Result<Status, Error> {
    let bad = checks.iter().any(|check| check.must && check.found.is_err());
    if call.report.json {
        let rows: Vec<Value> = checks
            .iter()
            .map(|check| {
                let (fine, text) = match &check.found {
                    Ok(text) => (true, text),
                    Err(text) => (false, text),
                };
                json!({"check": check.what, "ok": fine, "needed": check.must, "found": text})
            })
            .collect();
        let written = call.report.object(&json!({"via": call.place.shown, "ok": !bad, "checks": rows}));
        call.report.or_broken_pipe(written)?;
    } else {
        let line = |check: &Check| match &check.found {
            Ok(text) => format!("ok    {}: {text}", check.what),
            Err(text) if check.must => format!("BAD   {}: {text}", check.what),
            Err(text) => format!("note  {}: {text}", check.what),
        };
        let lines: Vec<String> = checks.iter().map(line).collect();
        let written = call.report.data(&lines.join("\n"));
        call.report.or_broken_pipe(written)?;
    }
    Ok(if bad { Exit::Config.into() } else { Exit::Ok.into() })
}
