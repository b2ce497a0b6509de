//! `log`: what happened in the database, oldest first.

use super::{ViaCall, not_across, say};
use crate::cli::lock::LockLog;
use crate::command::local_time;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::moment::Moment;
use crate::os::clock;
use crate::report::escape;
use serde_json::{Value, json};

/// Without `-n`.
const LINES: usize = 1000;

pub(super) fn log(call: &ViaCall, args: LockLog) -> Result<Status, Error> {
    let LockLog { whose, lines, at, since, until, event, name } = args;
    if at.is_some() {
        return Err(not_across("log --at").hint("--since WHEN --until WHEN"));
    }
    if whose.user.is_some() || whose.all_users {
        return Err(not_across("--user"));
    }
    let name = name.map(|name| crate::command::typed::name(&name)).transpose()?;
    let now = clock::wall();
    let when = |moment: Option<Moment>| {
        moment.map(|moment| local_time::resolve(moment, now)).transpose().map_err(Error::usage)
    };
    let (since, until) = (when(since)?, when(until)?);
    // By this machine's clock, as the one who asks reads it; the server's stands in what is printed.
    let since = since.map(|since| since.age(now).unwrap_or_default());
    let asks = until.is_some() || !event.is_empty();
    let most = lines.filter(|_| !asks).unwrap_or(LINES);
    let mut session = call.session()?;
    let mut events = session
        .events(name.as_ref().map(|name| name.as_str()), most, since)
        .map_err(|fault| fault.at(&call.place.shown))?;
    session.close();
    events.retain(|it| {
        let text = |key: &str| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let before = until.is_none_or(|until| say::time(Some(&text("at"))).is_none_or(|at| at <= until));
        before && (event.is_empty() || event.contains(&text("event")))
    });
    let surplus = events.len().saturating_sub(lines.unwrap_or(LINES));
    events.drain(..surplus);
    if call.report.json {
        let written = call.report.object(&json!({"via": call.place.shown, "events": events}));
        return call.report.or_broken_pipe(written).map(|()| Exit::Ok.into());
    }
    if events.is_empty() {
        call.report.notice(&format!("nothing is logged in {}", call.place.shown));
        return Ok(Exit::Ok.into());
    }
    let lines: Vec<String> = events.iter().map(line).collect();
    let written = call.report.data(&lines.join("\n"));
    call.report.or_broken_pipe(written)?;
    Ok(Exit::Ok.into())
}

fn line(event: &Value) -> String {
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let detail =
        |key: &str| event.get("detail").and_then(|detail| detail.get(key)).cloned().unwrap_or(Value::Null);
    let at = say::time(Some(&text("at"))).map_or_else(|| text("at"), local_time::show_long);
    let token = event.get("token").and_then(Value::as_u64).unwrap_or(0);
    let mut line =
        format!("{at}  {:<10} {}  token {token}", text("event"), escape(text("name").as_bytes(), 60));
    if let (Some(host), Some(pid)) = (detail("host").as_str(), detail("pid").as_u64()) {
        let comm = detail("comm");
        let comm =
            comm.as_str().map_or_else(String::new, |comm| format!(" ({})", escape(comm.as_bytes(), 60)));
        line.push_str(&format!("  pid {pid}{comm} on {}", escape(host.as_bytes(), 60)));
    }
    if let Some(status) = detail("status").as_u64().filter(|_| text("event") == "ended") {
        line.push_str(&format!("  status {status}"));
    }
    if let Some(over) = detail("over").as_u64() {
        line.push_str(&format!("  taken over from token {over}"));
    }
    line
}
