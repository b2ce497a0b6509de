//! The beginning of a run: its guardian stands, and this machine's record names everybody, before the command may.

use super::frames::{Charge, Frames, News};
use super::{GUARDIAN, ViaCall, host_records};
use crate::command::lock::status_file::StatusFile;
use crate::command::lock::tree::strangers;
use crate::command::records::{AcquiredLock, Records};
use crate::env;
use crate::error::{Error, Kind};
use crate::model::name::LockName;
use crate::os::mask::{Blocked, FILE_SIZE, SignalMask};
use crate::os::process::{self, PidFd, wait_any};
use crate::os::signals::{self, SignalQueue};
use crate::os::{child, tree};
use crate::verdict::limits::Limits;
use crate::verdict::ownership::Credential;
use crate::verdict::via::ViaTimes;
use crate::via::engine::ViaRequest;
use crate::via::session::ViaSession;
use serde_json::json;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the guardian may take to be there.
const STARTING: Duration = Duration::from_secs(10);

/// What a run has when it begins.
pub(super) struct Start<'a> {
    pub(super) call: &'a ViaCall,
    /// Until the command's own mask is known.
    pub(super) file_size: Option<Blocked>,
    pub(super) records: &'a Records,
    pub(super) name: &'a LockName,
    pub(super) acquired: AcquiredLock,
    pub(super) words: &'a [OsString],
    pub(super) status_file: &'a StatusFile,
    pub(super) limits: Limits,
    pub(super) wish: ViaRequest,
    pub(super) times: ViaTimes,
    pub(super) session: ViaSession,
    pub(super) id: i64,
    pub(super) token: u64,
    pub(super) sent_us: u64,
}

/// A guardian whose shim waits for the word.
pub(super) struct GuardedRun {
    pub(super) guardian: u32,
    pub(super) command: Option<PidFd>,
    pub(super) orders: File,
    pub(super) news: Frames,
    pub(super) queue: SignalQueue,
    pub(super) strangers: Vec<u32>,
}

/// Starts the guardian, whose shim waits until this machine's record names it.
///
/// # Errors
/// The inner one is of the record, the outer one of the system.
pub(super) fn begin(start: &mut Start<'_>) -> io::Result<Result<GuardedRun, Error>> {
    // Its signal is blocked below, so that one mask is to be given back.
    drop(start.file_size.take());
    let mask = SignalMask::block(signals::of_supervisor().chain([FILE_SIZE]))?;
    let queue = SignalQueue::new(signals::of_supervisor())?;
    signals::hear_of_children()?;
    // Should the guardian be killed, its orphans come to us.
    tree::adopt_orphans()?;
    let strangers = strangers()?;
    let (read, mut orders) = child::pipe_for_child()?;
    let (news, write) = child::pipe_from_child()?;
    if let Some(pulse) = &start.acquired.pulse {
        pulse.inherit()?;
    }
    let charge = Charge {
        name: start.name.as_str().to_owned(),
        place: start.call.shared.via.clone(),
        tickets: start.call.place.tickets.clone(),
        dir: start.call.shared.dir.clone(),
        nonce: start.wish.nonce.clone(),
        token: start.token,
        local_token: start.acquired.record.token,
        until: start.times.fence.map(|fence| start.sent_us.saturating_add(micros(fence))),
        frozen_us: micros(start.times.frozen),
        exports: exports(start),
        mask: mask.to_text(),
    };
    let guardian = Command::new("/proc/self/exe")
        .arg0("orion-via")
        .args([GUARDIAN, "--pipe", &child::number(&read).to_string()])
        .args(["--report", &child::number(&write).to_string(), "--"])
        .args(start.words)
        .spawn()?
        .id();
    drop((read, write));
    if let Some(pulse) = start.acquired.pulse.take() {
        // It is the tree's; we are an owner.
        pulse.close();
    }
    // A guardian that is stopped must never stop us.
    rustix::io::ioctl_fionbio(&orders, true)?;
    let mut line = serde_json::to_vec(&charge).unwrap_or_default();
    line.push(b'\n');
    orders.write_all(&line)?;
    let mut news = Frames::new(news, Vec::new());
    let end = Instant::now() + STARTING;
    let command = loop {
        if let Some(News::Ready(pid)) = news.arrived::<News>().into_iter().next() {
            break u32::try_from(pid).unwrap_or(0);
        }
        if news.over || Instant::now() >= end {
            return Err(io::Error::other("its guardian could not be started"));
        }
        wait_any(&[news.pipe().as_fd()], Some(Duration::from_secs(1)))?;
    };
    let mut owner = process::identify(command)?;
    owner.comm = crate::command::exec::comm_of(start.words);
    let guard = process::identify(guardian)?;
    let me = match start.records.me() {
        Ok(me) => me,
        Err(error) => return Ok(Err(error)),
    };
    let owners = vec![owner, guard, me];
    let named = start.records.amend(
        start.name,
        &Credential::Token(start.acquired.record.token),
        &[("owners", json!(owners))],
        &[(host_records::TOKEN, json!(start.token))],
    );
    Ok(match named {
        Ok(Some(_)) => {
            start.acquired.record.owners = owners;
            start.status_file.fact(
                "acquired",
                start.name.as_str(),
                &json!({"token": start.token, "pid": command, "supervisor": std::process::id(), "guardian": guardian}),
            );
            Ok(GuardedRun { guardian, command: PidFd::open(command).ok(), orders, news, queue, strangers })
        }
        Ok(None) => {
            Err(Error::new(Kind::NotOwner, format!("{} was broken meanwhile; nothing was run", start.name)))
        }
        Err(error) => Err(error),
    })
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What the command finds in its environment; never a password.
fn exports(start: &Start<'_>) -> Vec<(String, Option<String>)> {
    if start.call.place.tickets.is_some() {
        // For `orion-claim`, which is the command and hands none of it on.
        let row = format!("{} {} {}", start.token, start.wish.nonce, start.wish.name);
        return vec![(env::name::CLAIM_ROW.to_owned(), Some(row))];
    }
    let held = env::text(env::name::LOCKS).map_or_else(String::new, |held| format!("{held} "));
    let (name, token) = (start.name, start.token);
    let mut exports = vec![
        (env::name::LOCK_NAME.to_owned(), Some(name.as_str().to_owned())),
        (env::name::LOCK_TOKEN.to_owned(), Some(token.to_string())),
        (env::name::LOCKS.to_owned(), Some(format!("{held}{}:{token}", name.file()))),
        (env::name::VIA.to_owned(), Some(start.call.place.shown.clone())),
    ];
    let dir = start.call.shared.dir.as_ref().and_then(|dir| std::path::absolute(dir).ok());
    exports.extend(dir.map(|dir| (env::name::DIR.to_owned(), Some(dir.display().to_string()))));
    exports
}
