//! The thread that keeps a hold on the database: beats, and after a lost session attaches again. Look-ups of names
//! and connects hang here and nowhere else. What it proves goes straight to the guardian.

use super::frames::{FrameOrder, KillReason, send};
use crate::model::via::ViaHolder;
use crate::os::helper_thread::Wakeup;
use crate::os::mask::Blocked;
use crate::os::{clock, random};
use crate::verdict::via::{ViaTimes, may_be_overtaken};
use crate::via::credentials::ViaPlace;
use crate::via::engine::{ViaAttach, ViaBeat, ViaRequest};
use crate::via::fault::ViaFault;
use crate::via::session::{CONNECT, ViaSession};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// Between two attempts to attach, at least. Holders do not wait longer: they must find a free connection before
/// the waiters do.
const PAUSE: Duration = Duration::from_millis(200);
/// While another session has the lock.
const CONTENDED: Duration = Duration::from_millis(100);
/// How long the lock is tried to be given back at the end.
const RELEASING: Duration = Duration::from_secs(15);

/// What the keeper found.
#[derive(Clone, Debug)]
pub(super) enum KeeperNews {
    /// The hold is proved up to this moment (CLOCK_BOOTTIME, microseconds).
    Proved(u64),
    /// There is no session: why.
    Cut(String),
    /// A session again.
    Attached,
    /// Somebody asked for the end; `true`: by KILL.
    StopAsked(bool),
    Lost,
}

/// What the keeper is told.
enum KeeperTold {
    /// The command was executed.
    Began,
    /// Nothing is left: give it back.
    Release { executed: bool, status: u8, answer: Sender<Result<String, String>> },
}

/// A hold.
pub(super) struct Hold {
    pub(super) place: ViaPlace,
    pub(super) wish: ViaRequest,
    pub(super) id: i64,
    pub(super) token: u64,
    pub(super) times: ViaTimes,
    pub(super) session: Option<ViaSession>,
    /// The guardian's ear; without it (`hold`) nothing is fenced.
    pub(super) orders: Option<Arc<File>>,
}

/// The supervisor's side.
pub(super) struct Keeper {
    told: Sender<KeeperTold>,
    found: Receiver<KeeperNews>,
    pub(super) rings: Wakeup,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread or descriptor is left.
    pub(super) fn start(hold: Hold) -> io::Result<Self> {
        let (told, ear) = mpsc::channel();
        let (mouth, found) = mpsc::channel();
        let rings = Wakeup::new()?;
        let bell = rings.clone();
        let _blocked = Blocked::everything();
        std::thread::Builder::new().name("keeper".into()).spawn(move || {
            Keeping {
                hold,
                ear,
                mouth,
                bell,
                began: false,
                told_began: false,
                cut: false,
                proved_us: clock::boottime_us(),
            }
            .keep();
        })?;
        Ok(Self { told, found, rings })
    }

    /// What was found since the last call.
    pub(super) fn news(&self) -> Vec<KeeperNews> {
        self.rings.silence();
        self.found.try_iter().collect()
    }

    /// The command was executed.
    pub(super) fn began(&self) {
        self.told.send(KeeperTold::Began).ok();
    }

    /// Gives the lock back. `Err`: why it stays in the database.
    pub(super) fn release(&self, executed: bool, status: u8) -> Result<String, String> {
        let (answer, heard) = mpsc::channel();
        self.told.send(KeeperTold::Release { executed, status, answer }).ok();
        heard.recv_timeout(RELEASING + CONNECT * 2).unwrap_or_else(|_| Err("no answer".into()))
    }
}

struct Keeping {
    hold: Hold,
    ear: Receiver<KeeperTold>,
    mouth: Sender<KeeperNews>,
    bell: Wakeup,
    began: bool,
    told_began: bool,
    cut: bool,
    /// When the last question was sent whose answer was proof.
    proved_us: u64,
}

impl Keeping {
    fn keep(mut self) {
        let mut next = Instant::now() + self.hold.times.beat;
        loop {
            match self.ear.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(KeeperTold::Began) => self.began = true,
                Ok(KeeperTold::Release { executed, status, answer }) => {
                    answer.send(self.release(executed, status)).ok();
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let begin = Instant::now();
            let pause = match self.hold.session.take() {
                Some(session) => self.beat(session),
                None => self.attach(),
            };
            let Some(pause) = pause else { return self.only_release() };
            next = begin + pause;
        }
    }

    /// The lock is somebody else's: nothing more is said to the database.
    fn only_release(self) {
        while let Ok(told) = self.ear.recv() {
            if let KeeperTold::Release { answer, .. } = told {
                answer.send(Ok("other".into())).ok();
            }
        }
    }

    /// How long to wait for the next step; `None`: it is lost.
    fn beat(&mut self, mut session: ViaSession) -> Option<Duration> {
        let hold = &self.hold;
        let sent = clock::boottime_us();
        let began = self.began && !self.told_began;
        let said = session.beat(hold.id, hold.token, &hold.wish.nonce, began, hold.times.answer);
        match said {
            Ok(ViaBeat::Lost) => self.lost(),
            Ok(ViaBeat::Adrift) => {
                self.say_cut("the session has lost the lock");
                Some(Duration::ZERO)
            }
            Ok(beat) => {
                self.told_began |= began;
                self.proved(sent);
                if beat != ViaBeat::Ok {
                    self.say(KeeperNews::StopAsked(beat == ViaBeat::Kill));
                }
                self.hold.session = Some(session);
                Some(self.hold.times.beat)
            }
            Err(fault) => {
                self.say_cut(&fault.words());
                Some(Duration::ZERO)
            }
        }
    }

    fn attach(&mut self) -> Option<Duration> {
        let mut session = match ViaSession::open(&self.hold.place, CONNECT) {
            Ok(session) => session,
            Err(fault) => {
                self.say_cut(&fault.words());
                return Some(PAUSE.mul_f64(1.0 + random::fraction()));
            }
        };
        loop {
            let sent = clock::boottime_us();
            match session.attach(&self.hold.wish, self.hold.token, self.hold.times.answer) {
                Ok(ViaAttach::Attached { young, .. })
                    if may_be_overtaken(
                        young,
                        Duration::from_micros(sent.saturating_sub(self.proved_us)),
                        self.hold.times.fence,
                    ) =>
                {
                    self.say_cut("the server was promoted or restored while the run stood");
                    return self.lost();
                }
                Ok(ViaAttach::Attached { id, .. }) => {
                    self.hold.id = id;
                    self.hold.session = Some(session);
                    self.told_began = false;
                    self.proved(sent);
                    return Some(Duration::ZERO);
                }
                Ok(ViaAttach::Contended { id, old }) => {
                    if let Some(old) = old
                        && session.end_old_session(id, old, self.hold.times.answer).is_err()
                    {
                        return Some(PAUSE);
                    }
                    // A claimant that settles sees our generation and steps back.
                    std::thread::sleep(CONTENDED);
                }
                Ok(ViaAttach::Lost) => return self.lost(),
                Ok(ViaAttach::Recovery) => return Some(PAUSE),
                Err(fault) => {
                    self.say_cut(&fault.words());
                    return Some(PAUSE);
                }
            }
        }
    }

    fn proved(&mut self, sent_us: u64) {
        self.proved_us = sent_us;
        if let (Some(orders), Some(fence)) = (&self.hold.orders, self.hold.times.fence) {
            let fence = u64::try_from(fence.as_micros()).unwrap_or(u64::MAX);
            // A guardian that does not read is dead; the supervisor sees that by itself.
            drop(send(orders, FrameOrder::Until(sent_us.saturating_add(fence))));
        }
        if std::mem::take(&mut self.cut) {
            self.say(KeeperNews::Attached);
        }
        self.say(KeeperNews::Proved(sent_us));
    }

    fn lost(&mut self) -> Option<Duration> {
        if let Some(orders) = &self.hold.orders {
            drop(send(orders, FrameOrder::Kill(KillReason::Lost)));
        }
        self.say(KeeperNews::Lost);
        None
    }

    fn say_cut(&mut self, why: &str) {
        if !std::mem::replace(&mut self.cut, true) {
            self.say(KeeperNews::Cut(why.to_owned()));
        }
    }

    fn say(&self, found: KeeperNews) {
        self.mouth.send(found).ok();
        self.bell.ring();
    }

    fn release(&mut self, executed: bool, status: u8) -> Result<String, String> {
        let session = self.hold.session.take();
        give_back(&self.hold, session, executed, status, RELEASING)
    }
}

/// Gives a lock back on a session, or on one of its own, until `patience` is over.
fn give_back(
    hold: &Hold,
    session: Option<ViaSession>,
    executed: bool,
    status: u8,
    patience: Duration,
) -> Result<String, String> {
    let end = Instant::now() + patience;
    let (wish, by) = (&hold.wish, &hold.wish.holder);
    let mut session = session;
    loop {
        let opened = match session.take() {
            Some(session) => Ok(session),
            None => ViaSession::open(&hold.place, CONNECT),
        };
        let released: Result<String, ViaFault> = opened.and_then(|mut session| {
            let said = session.release(&wish.name, hold.token, &wish.nonce, executed, status, by)?;
            session.close();
            Ok(said)
        });
        match released {
            Ok(said) => return Ok(said),
            Err(fault) if Instant::now() >= end => return Err(fault.words()),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// As the guardian does it, without a session.
pub(super) fn give_back_alone(hold: &Hold, executed: bool, status: u8) -> Result<String, String> {
    give_back(hold, None, executed, status, RELEASING)
}

/// This process as it stands in a row.
pub(super) fn holder_json(holder: &ViaHolder) -> serde_json::Value {
    serde_json::json!({
        "host": holder.host, "machine_id": holder.machine_id, "pid": holder.pid, "comm": holder.comm,
        "uid": holder.uid, "note": holder.note,
    })
}
