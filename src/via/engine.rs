//! The functions of the schema as calls: take, settle, attach, beat, release, look, and what people ask for.

use super::fault::ViaFault;
use super::schema::{literal, nullable};
use super::session::ViaSession;
use super::wire::ServerReply;
use crate::model::via::{ViaLook, ViaRow};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// How long a call may take; the server's own limit for a statement is 10 s.
const ANSWER: Duration = Duration::from_secs(12);

/// What is to stand in the row.
#[derive(Clone, Debug)]
pub(crate) struct ViaRequest {
    pub(crate) name: String,
    /// Random, one for each run.
    pub(crate) nonce: String,
    pub(crate) grace_ms: Option<u64>,
    /// The holder as JSON.
    pub(crate) holder: Value,
    /// `--once KEY`
    pub(crate) once: Option<String>,
    /// `--once-ok`: only a run that ended with 0 counts.
    pub(crate) once_ok: bool,
    /// `--cooldown`
    pub(crate) cooldown_ms: Option<u64>,
    /// The token is to be this, unless the row has that one or a later one already; else the server's clock decides.
    pub(crate) floor: Option<u64>,
}

/// Who is to be taken over: token and generation of the row that was settled.
pub(crate) type ViaOver = (u64, i64);

/// What an attempt to take came to.
#[derive(Clone, Debug)]
pub(crate) enum ViaTake {
    Taken {
        id: i64,
        token: u64,
        /// The token that was taken over.
        over: Option<u64>,
    },
    /// Somebody's session has the lock: the holder's or a claimant's.
    Held,
    /// We have the lock of a row whose holder lost its session. To be settled.
    Cut(Box<ViaUnsettled>),
    /// As [`ViaTake::Cut`] for a free row of a server that was promoted or restored: it may have lost a holder's.
    Young(Box<ViaUnsettled>),
    /// `--once`: that run.
    RanAlready(Box<ViaRow>),
    /// `--cooldown`: that run.
    TooSoon(Box<ViaRow>),
    /// The database allows no longer grace than this, milliseconds.
    Grace(u64),
}

/// A row that cannot be taken yet.
#[derive(Clone, Debug)]
pub(crate) struct ViaUnsettled {
    pub(crate) row: ViaRow,
    pub(crate) young: bool,
    pub(crate) max_grace: Duration,
}

/// What a claimant reads while it waits.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct ViaSettling {
    pub(crate) token: u64,
    #[serde(rename = "gen")]
    pub(crate) generation: i64,
    pub(crate) released: bool,
    /// Do we still have its lock?
    pub(crate) ours: bool,
}

/// What a beat says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaBeat {
    Ok,
    /// Somebody asked for the end.
    Stop,
    Kill,
    /// The row is somebody else's, or was released or broken.
    Lost,
    /// The row is ours, and this session does not have its lock.
    Adrift,
}

/// What an attach says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaAttach {
    Attached {
        id: i64,
        /// The server was promoted or restored since the last take that it knows.
        young: bool,
    },
    /// Another session has the lock; `old` is our own half-open one.
    Contended {
        id: i64,
        old: Option<i64>,
    },
    Lost,
    /// This server can only be read.
    Recovery,
}

#[derive(Deserialize)]
struct Answer {
    answer: String,
    #[serde(default)]
    id: i64,
    #[serde(default)]
    token: u64,
    over: Option<u64>,
    old: Option<i64>,
    row: Option<ViaRow>,
    #[serde(default)]
    young: bool,
    #[serde(default)]
    max_grace_ms: u64,
}

fn text(reply: ServerReply) -> Result<String, ViaFault> {
    reply.value.ok_or_else(|| ViaFault::Down("its answer is empty".into()))
}

fn read<T: DeserializeOwned>(reply: ServerReply) -> Result<T, ViaFault> {
    serde_json::from_str(&text(reply)?).map_err(|_| ViaFault::Down("its answer is not ours".into()))
}

/// A commit that only this server has is not proof: an isolated old primary makes such commits.
fn proof(reply: ServerReply) -> Result<ServerReply, ViaFault> {
    match reply.warning {
        Some(warning) => Err(ViaFault::Down(format!("it warned: {warning}"))),
        None => Ok(reply),
    }
}

fn number(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}

impl ViaSession {
    /// Takes the lock, or says why not. `over`: the row that was settled in this very session.
    ///
    /// # Errors
    /// [`ViaFault`]; whether it was taken is then not known, and closing the session gives it back.
    pub(crate) fn take(&mut self, wish: &ViaRequest, over: Option<ViaOver>) -> Result<ViaTake, ViaFault> {
        let query = format!(
            "select orion.take_1('{}', {}, {}, {}, {}::jsonb, {}, {}, {}, {}, {}, {})::text",
            self.kind,
            literal(&wish.name),
            literal(&wish.nonce),
            number(wish.grace_ms),
            literal(&wish.holder.to_string()),
            nullable(wish.once.as_deref()),
            wish.once_ok,
            number(wish.cooldown_ms),
            number(over.map(|over| over.0)),
            number(over.map(|over| over.1)),
            number(wish.floor),
        );
        let answer: Answer = read(proof(self.ask(&query, ANSWER)?)?)?;
        let strange = || ViaFault::Down(format!("its answer is not ours: {}", answer.answer));
        let row = || answer.row.clone().map(Box::new).ok_or_else(strange);
        let unsettled = || -> Result<Box<ViaUnsettled>, ViaFault> {
            let max_grace = Duration::from_millis(answer.max_grace_ms);
            Ok(Box::new(ViaUnsettled { row: *row()?, young: answer.young, max_grace }))
        };
        Ok(match answer.answer.as_str() {
            "taken" => ViaTake::Taken { id: answer.id, token: answer.token, over: answer.over },
            "held" => ViaTake::Held,
            "cut" => ViaTake::Cut(unsettled()?),
            "young" => ViaTake::Young(unsettled()?),
            "ran_already" => ViaTake::RanAlready(row()?),
            "too_soon" => ViaTake::TooSoon(row()?),
            "grace" => ViaTake::Grace(answer.max_grace_ms),
            _ => return Err(strange()),
        })
    }

    /// The row that is being settled.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn settling(&mut self, name: &str) -> Result<ViaSettling, ViaFault> {
        let kind = self.kind;
        read(self.ask(&format!("select orion.settle_1('{kind}', {})::text", literal(name)), ANSWER)?)
    }

    /// Gives back the lock of a row that was not taken.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn step_back(&mut self, name: &str) -> Result<(), ViaFault> {
        let kind = self.kind;
        self.ask(&format!("select orion.unlock_1('{kind}', {})", literal(name)), ANSWER).map(drop)
    }

    /// Proves that this session has the lock. `began`: the command was executed.
    ///
    /// # Errors
    /// [`ViaFault`]: no proof.
    pub(crate) fn beat(
        &mut self,
        id: i64,
        token: u64,
        nonce: &str,
        began: bool,
        time: Duration,
    ) -> Result<ViaBeat, ViaFault> {
        let query = format!("select orion.beat_1({id}, {token}, {}, {began})", literal(nonce));
        match text(proof(self.ask(&query, time)?)?)?.as_str() {
            "ok" => Ok(ViaBeat::Ok),
            "stop" => Ok(ViaBeat::Stop),
            "kill" => Ok(ViaBeat::Kill),
            "lost" => Ok(ViaBeat::Lost),
            "adrift" => Ok(ViaBeat::Adrift),
            _ => Err(ViaFault::Down("its answer to a beat is not ours".into())),
        }
    }

    /// Makes a new session the holder's.
    ///
    /// # Errors
    /// [`ViaFault`]: no proof.
    pub(crate) fn attach(
        &mut self,
        wish: &ViaRequest,
        token: u64,
        time: Duration,
    ) -> Result<ViaAttach, ViaFault> {
        let query = format!(
            "select orion.attach_1('{}', {}, {}, {token}, {}, {}, {}::jsonb)::text",
            self.kind,
            literal(&wish.name),
            literal(&wish.nonce),
            number(wish.grace_ms),
            nullable(wish.once.as_deref()),
            literal(&wish.holder.to_string()),
        );
        let answer: Answer = read(proof(self.ask(&query, time)?)?)?;
        Ok(match answer.answer.as_str() {
            "ok" => ViaAttach::Attached { id: answer.id, young: answer.young },
            "contended" => ViaAttach::Contended { id: answer.id, old: answer.old },
            "lost" => ViaAttach::Lost,
            "recovery" => ViaAttach::Recovery,
            _ => return Err(ViaFault::Down("its answer to an attach is not ours".into())),
        })
    }

    /// Ends a session of our own role that still has the lock, as long as it really has it.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn end_old_session(&mut self, id: i64, pid: i64, time: Duration) -> Result<(), ViaFault> {
        let query = format!(
            "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and classid = 1869769071 \
             and objid = {id}::oid and objsubid = 2 and granted and pid = {pid}"
        );
        self.ask(&query, time).map(drop)
    }

    /// Gives the lock back; on any session.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn release(
        &mut self,
        name: &str,
        token: u64,
        nonce: &str,
        executed: bool,
        status: u8,
        by: &Value,
    ) -> Result<String, ViaFault> {
        let query = format!(
            "select orion.release_1('{}', {}, {token}, {}, {executed}, {status}, {}::jsonb)",
            self.kind,
            literal(name),
            literal(nonce),
            literal(&by.to_string()),
        );
        text(self.ask(&query, ANSWER)?)
    }

    /// What stands there; takes no lock. Without a name: everything.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn look(&mut self, name: Option<&str>) -> Result<ViaLook, ViaFault> {
        let kind = self.kind;
        read(self.ask(&format!("select orion.look_1('{kind}', {})::text", nullable(name)), ANSWER)?)
    }

    /// From now on news of releases come to this session.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn listen(&mut self) -> Result<(), ViaFault> {
        self.ask("listen orion", ANSWER).map(drop)
    }

    /// Work passed here.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn tick(&mut self, name: &str, token: u64, every_s: Option<u64>) -> Result<String, ViaFault> {
        let kind = self.kind;
        let query = format!("select orion.tick_1('{kind}', {}, {token}, {})", literal(name), number(every_s));
        text(self.ask(&query, ANSWER)?)
    }

    /// Asks the holder to end.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn stop(
        &mut self,
        name: &str,
        token: u64,
        kill: bool,
        by: &Value,
    ) -> Result<String, ViaFault> {
        let (kind, name, by) = (self.kind, literal(name), literal(&by.to_string()));
        text(
            self.ask(
                &format!("select orion.stop_1('{kind}', {name}, {token}, {kill}, {by}::jsonb)"),
                ANSWER,
            )?,
        )
    }

    /// Frees it by hand.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn break_open(
        &mut self,
        name: &str,
        token: u64,
        alive: bool,
        by: &Value,
    ) -> Result<String, ViaFault> {
        let (kind, name, by) = (self.kind, literal(name), literal(&by.to_string()));
        text(
            self.ask(
                &format!("select orion.break_1('{kind}', {name}, {token}, {alive}, {by}::jsonb)"),
                ANSWER,
            )?,
        )
    }

    /// What happened, oldest first.
    ///
    /// # Errors
    /// [`ViaFault`].
    pub(crate) fn events(
        &mut self,
        name: Option<&str>,
        lines: usize,
        since: Option<Duration>,
    ) -> Result<Vec<Value>, ViaFault> {
        let kind = self.kind;
        let since = number(since.map(|since| since.as_secs_f64()));
        read(self.ask(
            &format!("select orion.log_1('{kind}', {}, {lines}, {since})::text", nullable(name)),
            ANSWER,
        )?)
    }
}
