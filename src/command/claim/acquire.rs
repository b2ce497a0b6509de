//! `acquire`: claim a ticket for a process that lives on.

use super::hand_over::hand_over;
use super::win::{ClaimRequest, Won, claim};
use super::{ClaimCall, Claims};
use crate::cli::claim::ClaimAcquire;
use crate::command::owner;
use crate::command::records::PulsePolicy;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::claim::Goal;
use crate::model::record::VIA_ACQUIRE;
use crate::model::ticket::Key;
use crate::os::pulse::is_pulse_of;
use crate::report::escape;
use crate::verdict::ownership::Credential;
use serde_json::json;
use std::os::fd::AsFd;

pub(super) fn acquire(call: &ClaimCall, args: &ClaimAcquire) -> Result<Status, Error> {
    let owner = owner::chosen(args.owner.as_deref(), args.for_pid, args.short_lived)?;
    let claims = call.claims()?;
    let (key, name) = claims.key(&args.key)?;
    let stdin = std::io::stdin();
    let pulse = if args.pulse_stdin {
        if !is_pulse_of(claims.store.folder(), name.file(), &stdin) {
            return Err(Error::usage("--pulse-stdin: standard input is not the pulse of this ticket")
                .hint(format!("open it first: exec {{P}}<\"$(orion-claim where --pulse {key})\"")));
        }
        PulsePolicy::Descriptor(stdin.as_fd())
    } else {
        // No process stays behind that could carry one.
        PulsePolicy::Nobody
    };
    let wanted = ClaimRequest {
        key: &key,
        name: &name,
        owners: vec![owner],
        via: VIA_ACQUIRE,
        work: &args.work,
        pulse,
        stage: None,
    };
    let won = claim(&claims, &wanted)?;
    say_what_was_interrupted(&claims, &key, &won);
    let told = if call.report.json {
        call.report.object(&json!({
            "key": key.as_str(),
            "token": won.token,
            "mark": won.attrs.working_event,
            "resume": won.attrs.resume,
        }))
    } else if args.print_token {
        call.report.data(&won.token.to_string())
    } else {
        Ok(())
    };
    if let Err(error) = told {
        // A token that was asked for and never arrived: nobody could hand the ticket over.
        hand_over(&claims, &key, &name, &Credential::Token(won.token), Goal::Queue)?;
        return Err(Error::new(
            Kind::Io,
            format!("the token cannot be printed: {}", crate::error::reason(&error)),
        )
        .hint("the ticket was put back into the queue"));
    }
    Ok(Exit::Ok.into())
}

/// Where an earlier run that died, or gave the ticket back, left its work.
pub(super) fn say_what_was_interrupted(claims: &Claims, key: &Key, won: &Won) {
    let Some(resume) = &won.attrs.resume else { return };
    let shown = |text: &Option<String>| {
        text.as_ref().map_or_else(|| "unknown".to_owned(), |text| escape(text.as_bytes(), 300))
    };
    claims.report.warning(&format!(
        "{key}: an earlier run of it was interrupted; branch {}, worktree {}",
        shown(&resume.branch),
        shown(&resume.worktree)
    ));
}
