//! What supervisor and guardian tell each other through two pipes: short frames that arrive whole (pipe(7),
//! PIPE_BUF). Before the first order one line of JSON says whose guardian it is.

use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Kind and number.
const LENGTH: usize = 9;

/// What the guardian is told first. No secrets: it finds the database as its supervisor did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Charge {
    pub(super) name: String,
    /// WHERE as typed; `None`: ORION_VIA.
    pub(super) place: Option<String>,
    /// The tracker of a ticket's row.
    pub(super) tickets: Option<String>,
    /// The state directory, as typed.
    pub(super) dir: Option<PathBuf>,
    pub(super) nonce: String,
    pub(super) token: u64,
    /// The token of this machine's own record.
    pub(super) local_token: u64,
    /// Until when the tree may work, CLOCK_BOOTTIME in microseconds; `None`: as long as it likes.
    pub(super) until: Option<u64>,
    /// How long a stopped tree is kept, microseconds.
    pub(super) frozen_us: u64,
    /// What the command finds in its environment; `None` takes a variable away.
    pub(super) exports: Vec<(String, Option<String>)>,
    /// Signals to give back to the command, as text.
    pub(super) mask: String,
}

/// Why a tree is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillReason {
    /// The database says that the lock is somebody else's, or free.
    Lost,
    /// Too long without proof.
    Fenced,
    /// The supervisor is gone.
    Alone,
    /// Asked for: `stop`, `--kill-after`.
    Asked,
}

impl KillReason {
    const ALL: [Self; 4] = [Self::Lost, Self::Fenced, Self::Alone, Self::Asked];

    fn number(self) -> u64 {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(0) as u64
    }

    fn of(number: u64) -> Self {
        usize::try_from(number).ok().and_then(|at| Self::ALL.get(at)).copied().unwrap_or(Self::Asked)
    }
}

/// From the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameOrder {
    /// The record that names the command is in place: it may begin.
    Go,
    /// Proof: the tree may work until then.
    Until(u64),
    /// Pass this signal on.
    Pass(u64),
    /// Ask everybody to end.
    Ask,
    /// End everybody.
    Kill(KillReason),
}

/// From the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// This process waits to become the command.
    Ready(u64),
    /// It is the command now.
    Began,
    /// It could not become the command: errno.
    CannotRun(u64),
    /// The tree is stopped: no proof in time.
    Frozen,
    /// It goes on.
    Thawed,
    /// The tree is being killed.
    Killing(KillReason),
    /// The command has ended, with this status.
    Ended(u64),
    /// Nothing of the tree is left.
    Gone,
}

pub(super) trait Frame: Sized {
    fn parts(self) -> (u8, u64);
    fn of(kind: u8, number: u64) -> Option<Self>;
}

impl Frame for FrameOrder {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Go => (b'g', 0),
            Self::Until(time) => (b'u', time),
            Self::Pass(signal) => (b'p', signal),
            Self::Ask => (b'a', 0),
            Self::Kill(reason) => (b'k', reason.number()),
        }
    }

    fn of(kind: u8, number: u64) -> Option<Self> {
        Some(match kind {
            b'g' => Self::Go,
            b'u' => Self::Until(number),
            b'p' => Self::Pass(number),
            b'a' => Self::Ask,
            b'k' => Self::Kill(KillReason::of(number)),
            _ => return None,
        })
    }
}

impl Frame for News {
    fn parts(self) -> (u8, u64) {
        match self {
            Self::Ready(pid) => (b'r', pid),
            Self::Began => (b'b', 0),
            Self::CannotRun(errno) => (b'x', errno),
            Self::Frozen => (b'f', 0),
            Self::Thawed => (b't', 0),
            Self::Killing(reason) => (b'k', reason.number()),
            Self::Ended(status) => (b'e', status),
            Self::Gone => (b'z', 0),
        }
    }

    fn of(kind: u8, number: u64) -> Option<Self> {
        Some(match kind {
            b'r' => Self::Ready(number),
            b'b' => Self::Began,
            b'x' => Self::CannotRun(number),
            b'f' => Self::Frozen,
            b't' => Self::Thawed,
            b'k' => Self::Killing(KillReason::of(number)),
            b'e' => Self::Ended(number),
            b'z' => Self::Gone,
            _ => return None,
        })
    }
}

/// Sends a frame.
///
/// # Errors
/// EPIPE: the other side is gone.
pub(super) fn send<F: Frame>(mut pipe: &File, frame: F) -> io::Result<()> {
    let (kind, number) = frame.parts();
    let mut bytes = [0; LENGTH];
    bytes[0] = kind;
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    pipe.write_all(&bytes)
}

/// The reading end of a pipe of frames.
#[derive(Debug)]
pub(super) struct Frames {
    pipe: File,
    bytes: Vec<u8>,
    /// The other side has closed it.
    pub(super) over: bool,
}

impl Frames {
    /// `pipe` must not block.
    pub(super) fn new(pipe: File, before: Vec<u8>) -> Self {
        Self { pipe, bytes: before, over: false }
    }

    /// What has arrived by now.
    pub(super) fn arrived<F: Frame>(&mut self) -> Vec<F> {
        let mut buffer = [0; 64 * LENGTH];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => {
                    self.over = true;
                    break;
                }
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.over = true;
                    break;
                }
            }
        }
        let whole = self.bytes.len() / LENGTH * LENGTH;
        let frames: Vec<u8> = self.bytes.drain(..whole).collect();
        let frame = |bytes: &[u8]| {
            let number = bytes[1..].try_into().map(u64::from_le_bytes).unwrap_or(0);
            F::of(bytes[0], number)
        };
        frames.chunks_exact(LENGTH).filter_map(frame).collect()
    }

    /// To be waited on.
    pub(super) fn pipe(&self) -> &File {
        &self.pipe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_as_they_were_sent() {
        let orders = [
            FrameOrder::Go,
            FrameOrder::Until(u64::MAX),
            FrameOrder::Pass(15),
            FrameOrder::Ask,
            FrameOrder::Kill(KillReason::Lost),
        ];
        for order in orders {
            let (kind, number) = order.parts();
            assert_eq!(FrameOrder::of(kind, number), Some(order));
        }
        for reason in KillReason::ALL {
            let (kind, number) = News::Killing(reason).parts();
            assert_eq!(News::of(kind, number), Some(News::Killing(reason)));
        }
    }
}
