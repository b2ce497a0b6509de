//! Is something of the run at work? /proc can prove busy, never idle, so every rule here is a veto.

use super::{Ask, Keep, KeepReason, Miss, ReapPolicy, keep};
use crate::model::duration;
use crate::model::mark::{AgentMark, MarkWord};
use crate::model::terminal::{Activity, Idle, Member, Processes, Storage, Terminal};
use crate::model::time::WallTime;
use std::time::Duration;

/// An idle terminal uses less than one part in so many of a core.
const IDLE_SHARE: u32 = 20;
/// What begins this soon after its parent, or after the leader, may be part of the agent.
const WITH_ITS_PARENT: Duration = Duration::from_secs(30);
/// The same where nobody tells when turns begin: a job of the first turn may be as young.
const UNTOLD: Duration = Duration::from_secs(5);

pub(super) fn processes(terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    match &terminal.processes {
        Processes::NotAsked => Err(Miss::Ask(Ask::Processes)),
        Processes::Unmapped => Ok(()),
        Processes::Unreadable(why) => keep(KeepReason::Unreadable, why),
        Processes::Seen(activity) => {
            stopped(activity)?;
            processor(activity).map_err(Miss::Keep)?;
            storage(activity, policy)?;
            foreground(activity, terminal, policy)?;
            jobs(activity, terminal, policy)
        }
    }
}

fn living(activity: &Activity) -> impl Iterator<Item = &Member> {
    activity.members.iter().filter(|member| !matches!(member.state, 'Z' | 'X' | 'x'))
}

fn stopped(activity: &Activity) -> Result<(), Miss> {
    match living(activity).find(|member| matches!(member.state, 'T' | 't')) {
        Some(member) => keep(KeepReason::Stopped, format!("{} is stopped", name(member))),
        None => Ok(()),
    }
}

/// Processor time, and a process in the middle of input or output: proof of work.
pub(super) fn processor(activity: &Activity) -> Result<(), Keep> {
    if let Some(member) = living(activity).find(|member| member.state == 'D') {
        let text = format!("{} is in the middle of input or output", name(member));
        return Err(Keep::new(KeepReason::Busy, text));
    }
    let spent: Duration = living(activity).map(|member| member.cpu).sum();
    if spent.saturating_mul(IDLE_SHARE) > activity.sample {
        let most = living(activity).max_by_key(|member| member.cpu).map(name).unwrap_or_default();
        let text = format!(
            "used {} ms of processor time within {} ms, most of it {most}",
            spent.as_millis(),
            activity.sample.as_millis()
        );
        return Err(Keep::new(KeepReason::Busy, text));
    }
    Ok(())
}

fn storage(activity: &Activity, policy: &ReapPolicy) -> Result<(), Miss> {
    for member in living(activity) {
        match member.storage {
            Storage::Moved(0) | Storage::NotCounted => {}
            Storage::Moved(_) => {
                return keep(KeepReason::Busy, format!("{} reads or writes files", name(member)));
            }
            Storage::Unreadable if is_named(member, activity, policy) => {}
            Storage::Unreadable => {
                let text = format!(
                    "what {} reads and writes cannot be seen (a helper that always runs: --resident {})",
                    name(member),
                    member.comm
                );
                return keep(KeepReason::Unreadable, text);
            }
        }
    }
    Ok(())
}

/// Somebody who is not part of the agent has the terminal in the foreground: a tool, or a person's program.
fn foreground(activity: &Activity, terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    // No terminal, one that nobody has in the foreground, or a group of another pid namespace: its processes are
    // going or gone elsewhere. Not proof of work, so it keeps without being called busy.
    if activity.foreground <= 0 {
        return keep(KeepReason::Unreadable, "no process group that can be seen has the terminal");
    }
    let resident =
        |member: &Member| member.group == activity.foreground && resident(member, activity, terminal, policy);
    if !living(activity).any(resident) {
        return keep(
            KeepReason::Busy,
            format!("process group {} has the terminal, not the agent's own", activity.foreground),
        );
    }
    Ok(())
}

/// Work left running by a turn.
fn jobs(activity: &Activity, terminal: &Terminal, policy: &ReapPolicy) -> Result<(), Miss> {
    if says_none(&terminal.idle) {
        return Ok(());
    }
    let interrupted = matches!(&terminal.idle, Idle::Marked(mark) if mark.word == MarkWord::Busy);
    let job = living(activity)
        .find(|member| is_job(member, activity, terminal, policy) && (interrupted || !quiet(member, policy)));
    match job {
        Some(member) => keep(
            KeepReason::Job,
            format!(
                "{}, begun {} ago (a helper that always runs: --resident {})",
                name(member),
                duration::show(member.started.age(policy.now).unwrap_or_default()),
                member.comm
            ),
        ),
        None => Ok(()),
    }
}

/// Jobs that no longer keep their terminal because nothing of them moved for `--job-quiet`, for people.
pub(crate) fn quiet_jobs(terminal: &Terminal, policy: &ReapPolicy) -> Vec<String> {
    let Processes::Seen(activity) = &terminal.processes else { return Vec::new() };
    if says_none(&terminal.idle) {
        return Vec::new();
    }
    living(activity)
        .filter(|member| is_job(member, activity, terminal, policy) && quiet(member, policy))
        .map(|member| {
            let quiet = duration::show(member.quiet.unwrap_or_default());
            format!("{} did nothing for {quiet} (--job-quiet)", name(member))
        })
        .collect()
}

fn is_job(member: &Member, activity: &Activity, terminal: &Terminal, policy: &ReapPolicy) -> bool {
    !resident(member, activity, terminal, policy)
}

fn quiet(member: &Member, policy: &ReapPolicy) -> bool {
    member.quiet.is_some_and(|quiet| quiet >= policy.job_quiet)
}

/// The agent itself said that nothing of it runs in the background.
fn says_none(idle: &Idle) -> bool {
    matches!(idle, Idle::Marked(AgentMark { word: MarkWord::Idle | MarkWord::Ended, none: true, .. }))
}

/// Does a process belong to an idle agent? It began with it, or was named.
fn resident(member: &Member, activity: &Activity, terminal: &Terminal, policy: &ReapPolicy) -> bool {
    if member.leader || is_named(member, activity, policy) {
        return true;
    }
    let Some(leader) = activity.members.iter().find(|one| one.leader) else { return false };
    let first_turn = match &terminal.idle {
        Idle::Marked(mark) => mark.first,
        _ => None,
    };
    // Before the first turn nothing can be work; where that is not told, only what begins at once is not.
    let with = |parent: WallTime| match (member.started.0.checked_sub(parent.0), first_turn) {
        (Some(after), Some(first)) => after <= millis(WITH_ITS_PARENT) && member.started < first,
        (Some(after), None) => after <= millis(UNTOLD),
        (None, _) => false,
    };
    if with(leader.started) {
        return true;
    }
    // Wrappers: the only child of the leader, its only child, and so on down.
    let Some(parent) = wrapper_parent(member, activity) else { return false };
    let near =
        member.started.0.checked_sub(parent.started.0).is_some_and(|after| after <= millis(WITH_ITS_PARENT));
    // A program that reads the agent's terminal is the agent; jobs are given another input.
    with(parent.started) || near && member.on_terminal
}

/// The parent of a process if there is one line of only children from the leader down to it, each begun
/// soon after its parent.
fn wrapper_parent<'a>(member: &Member, activity: &'a Activity) -> Option<&'a Member> {
    let mut parent = activity.members.iter().find(|one| one.leader)?;
    loop {
        let mut children = living(activity).filter(|one| one.parent == parent.pid);
        let child = children.next()?;
        if children.next().is_some() {
            return None;
        }
        if child.pid == member.pid {
            return Some(parent);
        }
        let after = child.started.0.checked_sub(parent.started.0)?;
        if after > millis(WITH_ITS_PARENT) {
            return None;
        }
        parent = child;
    }
}

fn is_named(member: &Member, activity: &Activity, policy: &ReapPolicy) -> bool {
    let of_agent = |name: &String| activity.members.iter().any(|one| one.comm == *name);
    policy.residents.contains(&member.comm)
        || policy
            .agents
            .iter()
            .any(|agent| agent.residents.contains(&member.comm) && agent.names.iter().any(of_agent))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name(member: &Member) -> String {
    format!("pid {} ({})", member.pid, member.comm)
}
