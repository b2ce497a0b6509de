//! One call of Orca's command line. Both successes and failures are JSON on stdout,
//! and the exit code says too little: read the first, then the second.

use crate::runner::{Budget, Fault, field, first_line};
use serde_json::Value;
use std::ffi::OsStr;
use std::process::Command;

/// An answer in Orca's envelope.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// `ok: true`, with its result.
    Done(Value),
    Refused(Refusal),
}

/// `ok: false`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

impl Refusal {
    /// Old builds put the token in the message of a general error.
    pub(super) fn is(&self, token: &str) -> bool {
        self.code == token
            || self.message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == token)
    }

    pub(super) fn is_any(&self, tokens: &[&str]) -> bool {
        tokens.iter().any(|token| self.is(token))
    }

    pub(super) fn text(&self) -> String {
        if self.message.is_empty() || self.message == self.code {
            return self.code.clone();
        }
        let message: String = self.message.chars().take(200).collect();
        format!("{} ({message})", self.code)
    }
}

/// Calls `program` with `--json`.
///
/// # Errors
/// What did not come in the envelope: no answer, or text. An old `orca-ide` is the
/// application itself and says "already running", exit 0, whatever is asked.
pub(super) fn ask(program: &OsStr, arguments: &[&str], budget: Budget) -> Result<Reply, Fault> {
    let answer = budget.call(Command::new(program).args(arguments).arg("--json"))?;
    let what = format!("{} {}", program.to_string_lossy(), arguments[..arguments.len().min(2)].join(" "));
    reply(&answer.stdout).ok_or_else(|| {
        let said = if answer.stdout.trim_ascii().is_empty() { &answer.stderr } else { &answer.stdout };
        Fault::Unavailable(format!("{what} did not answer in JSON: {}", first_line(said)))
    })
}

/// The same where only success will do.
pub(super) fn need(program: &OsStr, arguments: &[&str], budget: Budget) -> Result<Value, Fault> {
    match ask(program, arguments, budget)? {
        Reply::Done(result) => Ok(result),
        Reply::Refused(refusal) if refusal.is("runtime_unavailable") => Err(Fault::NoServer(refusal.text())),
        Reply::Refused(refusal) => Err(Fault::Unavailable(format!(
            "{}: {}",
            arguments[..arguments.len().min(2)].join(" "),
            refusal.text()
        ))),
    }
}

fn reply(stdout: &[u8]) -> Option<Reply> {
    let value = field::parse(stdout).ok()?;
    if value.get("ok")?.as_bool()? {
        return Some(Reply::Done(value.get("result")?.clone()));
    }
    let error = value.get("error")?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Reply::Refused(Refusal { code: text("code"), message: text("message") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_envelope_is_an_answer() {
        for text in [
            "",
            "null",
            "[]",
            "{\"ok\":false,\"ok\":true,\"result\":{}}",
            "{}",
            "{\"ok\":1}",
            "{\"ok\":true}",
            "already running",
            "{\"ok\":true,",
        ] {
            assert_eq!(reply(text.as_bytes()), None, "{text}");
        }
        assert!(matches!(reply(b"{\"ok\":true,\"result\":{}}"), Some(Reply::Done(_))));
        let text = b"{\"ok\":false,\"error\":{\"code\":\"runtime_error\",\"message\":\"close: tab_not_found here\"}}";
        let Some(Reply::Refused(refusal)) = reply(text) else { panic!("a refusal") };
        assert!(refusal.is("tab_not_found") && refusal.is("runtime_error"));
        assert!(!refusal.is("terminal_tab_not_found") && !refusal.is("not_found"));
    }
}
