//! Getting a lock on a database: at once, after its holder, or after the grace of a holder that lost its session.

use super::claim_end::ClaimEnd;
use super::say;
use crate::command::tell_again;
use crate::error::{Error, Kind};
use crate::model::duration;
use crate::model::via::ViaRow;
use crate::os::{clock, random};
use crate::report::Report;
use crate::verdict::via::{SettleFacts, SettleStep, ViaHere, settle, settle_time};
use crate::via::credentials::ViaPlace;
use crate::via::engine::{ViaOver, ViaRequest, ViaTake, ViaUnsettled};
use crate::via::fault::ViaFault;
use crate::via::session::{CONNECT, ViaSession};
use std::time::{Duration, Instant};

/// How often a claimant reads the row that it settles.
const LOOK: Duration = Duration::from_millis(250);
/// How long a claimant that stepped back leaves the lock to its holder.
const STEPPED_BACK: Duration = Duration::from_secs(1);
/// How often a waiter tries, should news be lost.
const TRY: Duration = Duration::from_secs(1);
/// How often a lock that was given back under our eyes is tried at once.
const AT_ONCE: u32 = 3;

/// A lock that was got.
pub(super) struct Claimed {
    pub(super) session: ViaSession,
    pub(super) id: i64,
    pub(super) token: u64,
    /// Before this moment nobody else can have it (CLOCK_BOOTTIME, microseconds).
    pub(super) sent_us: u64,
    pub(super) over: Option<u64>,
}

/// What it came to.
pub(super) enum ClaimResult {
    Got(Box<Claimed>),
    /// 75 or 69, with the reason for people and programs.
    Refused(Error, Option<u64>),
}

/// Somebody who wants a lock.
pub(super) struct Claimant<'a> {
    pub(super) report: &'a Report,
    pub(super) place: &'a ViaPlace,
    pub(super) wish: &'a ViaRequest,
    pub(super) end: ClaimEnd,
    /// Does this machine know that the run of this nonce has ended?
    pub(super) ended_here: &'a dyn Fn(&str) -> bool,
}

impl Claimant<'_> {
    /// Tries until it has the lock or there is nothing more to wait for.
    ///
    /// # Errors
    /// What cannot pass: settings, rights, a database without a schema, a newer one.
    pub(super) fn claim(&self) -> Result<ClaimResult, Error> {
        let mut session: Option<ViaSession> = None;
        let mut over: Option<ViaOver> = None;
        let (mut listens, mut tries) = (false, 0);
        loop {
            let mut now = match session.take() {
                Some(session) => session,
                None => {
                    (over, listens) = (None, false);
                    match ViaSession::open(self.place, CONNECT) {
                        Ok(session) => session,
                        Err(fault) => {
                            self.bear(&fault)?;
                            continue;
                        }
                    }
                }
            };
            let sent_us = clock::boottime_us();
            let said = match now.take(self.wish, over.take()) {
                Ok(said) => said,
                Err(fault) if fault.is_lock_timeout() && !self.end.is_over() => {
                    session = Some(now);
                    continue;
                }
                Err(fault) => {
                    self.bear(&fault)?;
                    continue;
                }
            };
            match said {
                ViaTake::Taken { id, token, over } => {
                    return Ok(ClaimResult::Got(Box::new(Claimed {
                        session: now,
                        id,
                        token,
                        sent_us,
                        over,
                    })));
                }
                ViaTake::RanAlready(row) => {
                    let line = tell_again::ran_already(&row.name, &say::ran(&row));
                    return Ok(refused(Kind::RanAlready, line, &row));
                }
                ViaTake::TooSoon(row) => {
                    let line = tell_again::too_soon(&row.name, &say::ran(&row));
                    return Ok(refused(Kind::TooSoon, line, &row));
                }
                ViaTake::Grace(most) => {
                    let most = duration::show(Duration::from_millis(most));
                    return Err(Error::config(format!(
                        "{}: no longer grace than {most} is allowed",
                        self.place.shown
                    ))
                    .hint(format!("--grace {most}, or there: orion-lock --via WHERE init --max-grace DUR")));
                }
                ViaTake::Held => {
                    if self.end.is_over() {
                        match self.why_held(&mut now) {
                            Ok(Some(refused)) => return Ok(refused),
                            // Given back meanwhile.
                            Ok(None) if tries < AT_ONCE => tries += 1,
                            Ok(None) => return Err(self.changing()),
                            Err(fault) => return Err(fault.at(&self.place.shown)),
                        }
                    } else if !listens {
                        listens = now.listen().is_ok();
                    } else if now
                        .wait_for_news(self.end.at_most(TRY.mul_f64(0.9 + random::fraction() / 5.0)))
                        .is_err()
                    {
                        continue;
                    }
                    session = Some(now);
                }
                ViaTake::Cut(unsettled) | ViaTake::Young(unsettled) => {
                    match self.settle(&mut now, &unsettled)? {
                        Settled::Over(who) => {
                            over = Some(who);
                            session = Some(now);
                        }
                        Settled::Free => session = Some(now),
                        Settled::SteppedBack => {
                            drop(now.step_back(&self.wish.name));
                            session = Some(now);
                            std::thread::sleep(STEPPED_BACK);
                        }
                        Settled::Gone(fault) => self.bear(&fault)?,
                        Settled::Refused(error) => {
                            drop(now.step_back(&self.wish.name));
                            now.close();
                            return Ok(ClaimResult::Refused(error, Some(unsettled.row.token)));
                        }
                    }
                }
            }
        }
    }

    /// Waits a while where a database may come back; else it is an error.
    fn bear(&self, fault: &ViaFault) -> Result<(), Error> {
        let passes = matches!(fault, ViaFault::Down(_))
            || matches!(fault, ViaFault::Sql(state, _) if state.starts_with("57P") || state == "53300");
        if !passes || self.end.is_over() {
            return Err(fault.at(&self.place.shown));
        }
        // Holders come first: they need a connection before their fence is over.
        std::thread::sleep(self.end.at_most(Duration::from_secs_f64(2.0 + 3.0 * random::fraction())));
        Ok(())
    }

    fn changing(&self) -> Error {
        Error::new(Kind::CannotTell, format!("{}: its row keeps changing under us", self.wish.name))
    }

    /// Who has the lock, now that we do not wait any more. `None`: nobody.
    fn why_held(&self, session: &mut ViaSession) -> Result<Option<ClaimResult>, ViaFault> {
        let look = session.look(Some(&self.wish.name))?;
        let Some(row) = look.rows.first().filter(|row| row.locker.is_some()) else { return Ok(None) };
        Ok(Some(if row.is_taken() && row.locker == row.backend {
            refused(Kind::Held, say::held(row), row)
        } else {
            refused(Kind::BeingTaken, say::being_taken(row), row)
        }))
    }

    fn settle(&self, session: &mut ViaSession, unsettled: &ViaUnsettled) -> Result<Settled, Error> {
        let begin = Instant::now();
        let row = &unsettled.row;
        let ended = row.nonce.as_deref().is_some_and(self.ended_here);
        let here = if ended { ViaHere::Ended } else { ViaHere::NotOurs };
        let Some(need) = settle_time(row, unsettled.young, unsettled.max_grace, here) else {
            return Ok(Settled::Refused(self.for_ever(row)));
        };
        if !need.is_zero() {
            if self.end.was_given() && self.end.is_over() {
                return Ok(Settled::Refused(self.cut(row, need)));
            }
            self.report.warning(&say::settling(row, unsettled.young, need));
        }
        loop {
            let now = match session.settling(&self.wish.name) {
                Ok(now) => now,
                Err(fault) if fault.is_lock_timeout() => continue,
                Err(fault) => return Ok(Settled::Gone(fault)),
            };
            let facts = SettleFacts {
                first: (row.token, row.generation),
                now: (now.token, now.generation),
                released: now.released,
                was_released: !row.is_taken(),
                ours: now.ours,
                waited: begin.elapsed(),
                need,
            };
            match settle(&facts) {
                SettleStep::TakeOver => return Ok(Settled::Over(facts.first)),
                SettleStep::TakeFree => return Ok(Settled::Free),
                SettleStep::StepBack => return Ok(Settled::SteppedBack),
                SettleStep::Wait(_) if self.end.is_over() && self.end.was_given() => {
                    return Ok(Settled::Refused(self.cut(row, need.saturating_sub(begin.elapsed()))));
                }
                SettleStep::Wait(left) => std::thread::sleep(left.min(LOOK)),
            }
        }
    }

    fn cut(&self, row: &ViaRow, need: Duration) -> Error {
        Error::new(Kind::UnknownOwner, say::cut(row)).hint(format!(
            "a run without -n takes it after {}; {}",
            duration::show(need),
            self.way_out(row)
        ))
    }

    fn for_ever(&self, row: &ViaRow) -> Error {
        Error::new(Kind::UnknownOwner, format!("{}, and it promised nothing (--grace never)", say::cut(row)))
            .hint(self.way_out(row))
    }

    /// What a person types who knows that the holder has ended.
    fn way_out(&self, row: &ViaRow) -> String {
        let place = &self.place.shown;
        match self.place.local_name(&row.name).filter(|_| self.place.tickets.is_some()) {
            Some(key) => format!("if nobody works on it: orion-claim --arbiter {place} free --yes {key}"),
            None => format!("if it ended: orion-lock --via {place} break --token {} {}", row.token, row.name),
        }
    }
}

fn refused(kind: Kind, line: String, row: &ViaRow) -> ClaimResult {
    ClaimResult::Refused(Error::new(kind, line), Some(row.token))
}

enum Settled {
    Over(ViaOver),
    Free,
    SteppedBack,
    Gone(ViaFault),
    Refused(Error),
}
