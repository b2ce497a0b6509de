//! `help`: of a subcommand, and of the exit codes.

use super::LockCall;
use crate::cli::lock::{Lock, LockHelp};
use crate::cli::{self, ParseEnd};
use crate::error::Error;
use crate::exit::{CANNOT_EXECUTE, Exit, NOT_FOUND, Status, table};
use serde_json::{Value, json};
use std::ffi::OsString;

/// The topic that is not a subcommand.
const EXIT_CODES: &str = "exit-codes";

const RULES: &str = "
  126         the command exists and could not be executed
  127         the command was not found
  128+N       the command was ended by signal N

  'run' ends with the command's own status. To tell a refusal from a command that
  said 75 itself: --status-file PATH, or -E N, which moves the 75 to N.
  'run -E 0' makes a skip a success, for a systemd unit that must not turn red.

  In a script:
      orion-lock acquire --owner $$ sync
      case $? in
          0)  ;;                                        # ours until we release it or end
          75) exit 0 ;;                                 # a live run holds it: skip
          *)  echo 'the guard does not work' >&2; exit 1 ;;
      esac

  Only 75 means skip. orion-precheck ends with 0 or 75 alone, and with 0 on every
  doubt of its own; --strict lets the other codes through. With --json an error
  has a kind that is finer than its code: held, held_by_you, held_by_ancestor,
  exclusive_waits, queue_full, ran_already, too_soon, paused, unknown_owner,
  guard_stuck, not_owner, ...";

pub(super) fn help(call: &LockCall, args: &LockHelp) -> Result<Status, Error> {
    let topic = args.topic.as_deref();
    if topic == Some(EXIT_CODES) {
        drop(if call.report.json {
            call.report.object(&exit_codes())
        } else {
            call.report.data(&format!("{}{}", table(&Exit::ALL, &[]).trim_end(), RULES))
        });
        return Ok(Exit::Ok.into());
    }
    let words = [Some("orion-lock"), topic, Some("--help")].into_iter().flatten().map(OsString::from);
    match cli::parse::<Lock>("orion-lock", words) {
        Err(ParseEnd::Show(text)) => {
            drop(call.report.data(&text));
            Ok(Exit::Ok.into())
        }
        Err(ParseEnd::Usage(_)) | Ok(_) => Err(Error::usage(format!(
            "there is no help about '{}'",
            crate::report::escape(topic.unwrap_or_default().as_bytes(), 60)
        ))
        .hint(format!("orion-lock help SUBCOMMAND, or orion-lock help {EXIT_CODES}"))),
    }
}

fn exit_codes() -> Value {
    let ours = Exit::ALL.iter().map(|exit| (exit.code(), exit.name(), exit.meaning()));
    let of_the_command = [
        (CANNOT_EXECUTE.code(), "CANNOT_EXECUTE", "the command exists and could not be executed"),
        (NOT_FOUND.code(), "NOT_FOUND", "the command was not found"),
    ];
    let codes: Vec<Value> = ours
        .chain(of_the_command)
        .map(|(code, name, meaning)| json!({"code": code, "name": name, "meaning": meaning}))
        .collect();
    json!({"exit_codes": codes})
}
