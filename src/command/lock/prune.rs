//! `prune`: remove the files of names that nobody has and nobody used for long.

use super::LockCall;
use crate::cli::lock_seeing::LockPrune;
use crate::command::typed::name;
use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::model::duration;
use crate::model::name::LockName;
use crate::verdict::sweep::Sweep;
use serde_json::{Value, json};

pub(super) fn prune(call: &LockCall, args: &LockPrune) -> Result<Status, Error> {
    let typed = args.names.iter().map(|typed| name(typed)).collect::<Result<Vec<LockName>, Error>>()?;
    let looked_in = call.looked_in()?;
    let (mut removed, mut kept) = (Vec::new(), Vec::new());
    let mut trouble = None;
    if let Some(store) = call.existing()? {
        let terms = store.sweep_terms(args.older, args.logs)?;
        let names = if typed.is_empty() { store.names_with_files(args.logs)? } else { typed.clone() };
        for name in names {
            let decided =
                if args.dry_run { Ok(store.would_sweep(&name, &terms)) } else { store.sweep(&name, &terms) };
            match decided {
                Ok(Sweep::Remove(unused)) => removed.push((name, duration::show(unused))),
                Ok(Sweep::Keep(why)) => kept.push((name, why)),
                Err(error) if error.kind() == Kind::GuardStuck => {
                    kept.push((name, error.message().to_owned()));
                }
                // The others are swept all the same.
                Err(error) => {
                    kept.push((name, error.message().to_owned()));
                    trouble.get_or_insert(error);
                }
            }
        }
    }
    let would = if args.dry_run { "would be " } else { "" };
    if call.report.json {
        let kept: Vec<Value> =
            kept.iter().map(|(name, why)| json!({"name": name.as_str(), "why": why})).collect();
        let removed: Vec<&str> = removed.iter().map(|(name, _)| name.as_str()).collect();
        let object =
            json!({"looked_in": looked_in, "dry_run": args.dry_run, "removed": removed, "kept": kept});
        call.report.or_broken_pipe(call.report.object(&object))?;
    } else {
        let lines =
            removed.iter().map(|(name, unused)| format!("{name} {would}removed: unused for {unused}"));
        let lines: Vec<String> = lines.collect();
        if args.dry_run && !lines.is_empty() {
            call.report.or_broken_pipe(call.report.data(&lines.join("\n")))?;
        } else {
            lines.iter().for_each(|line| call.report.detail(line));
        }
        for (name, why) in &kept {
            let line = format!("{name} {would}kept: {why}");
            // Whoever names it wants to know.
            if typed.is_empty() { call.report.detail(&line) } else { call.report.notice(&line) }
        }
        if removed.is_empty() && kept.is_empty() {
            call.report.notice(&format!("no locks in {}", looked_in.display()));
        }
    }
    trouble.map_or(Ok(Exit::Ok.into()), Err)
}
