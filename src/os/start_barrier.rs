//! Two pipes between a supervisor and the shim it starts: the gate, which the shim
//! waits at, and the answer, which says whether it could become the command.
//!
//! The shim's ends travel by number. It opens them anew through `/proc/self/fd` and
//! closes the numbers, so that the command inherits neither.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What goes through the gate.
const GO: u8 = b'g';

/// The supervisor's ends. Dropping it, also by dying, tells the shim that nothing may run.
#[derive(Debug)]
pub(crate) struct StartBarrier {
    /// Until it was opened.
    go: Option<File>,
    answer: File,
}

/// The shim's ends, to be dropped once it was started.
#[derive(Debug)]
pub(crate) struct ShimEnds {
    go: OwnedFd,
    answer: OwnedFd,
}

/// What the shim answered.
#[derive(Debug)]
pub(crate) enum ShimAnswer {
    /// It is the command now, or it has ended.
    Closed,
    /// It could not become the command.
    Failed(io::Error),
}

impl StartBarrier {
    /// Makes the pipes; the shim's ends are inherited by what is started next.
    ///
    /// # Errors
    /// EMFILE and the like.
    pub(crate) fn new() -> io::Result<(Self, ShimEnds)> {
        let (shim_go, go) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer, shim_answer) = pipe_with(PipeFlags::CLOEXEC)?;
        for end in [&shim_go, &shim_answer] {
            fcntl_setfd(end, FdFlags::empty())?;
        }
        Ok((
            Self { go: Some(go.into()), answer: answer.into() },
            ShimEnds { go: shim_go, answer: shim_answer },
        ))
    }

    /// Lets the shim become the command, once. A shim that cannot be told so sees a supervisor that is gone:
    /// nothing runs, and nobody waits for anybody.
    ///
    /// # Errors
    /// EPIPE: it has ended.
    pub(crate) fn open(&mut self) -> io::Result<()> {
        self.go.take().map_or(Ok(()), |mut go| go.write_all(&[GO]))
    }

    /// What it answered; to be asked when the descriptor is readable, else it blocks.
    pub(crate) fn answer(&mut self) -> ShimAnswer {
        let mut errno = [0; 4];
        match self.answer.read_exact(&mut errno) {
            Ok(()) => ShimAnswer::Failed(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(_) => ShimAnswer::Closed,
        }
    }
}

impl AsFd for StartBarrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.answer.as_fd()
    }
}

impl ShimEnds {
    /// The numbers to hand to the shim: gate and answer.
    pub(crate) fn numbers(&self) -> (i32, i32) {
        (self.go.as_raw_fd(), self.answer.as_raw_fd())
    }
}

/// The shim's side.
#[derive(Debug)]
pub(crate) struct WaitingShim {
    go: File,
    answer: File,
}

impl WaitingShim {
    /// Takes over the two numbers.
    ///
    /// # Errors
    /// They are not open, or `/proc` is not there.
    pub(crate) fn take_over(go: i32, answer: i32) -> io::Result<Self> {
        let waiting = Self {
            go: File::open(format!("/proc/self/fd/{go}"))?,
            answer: File::options().write(true).open(format!("/proc/self/fd/{answer}"))?,
        };
        nix::unistd::close(go)?;
        nix::unistd::close(answer)?;
        Ok(waiting)
    }

    /// Waits at the gate; `false`: the supervisor has gone, and nothing may run.
    pub(crate) fn is_opened(&mut self) -> bool {
        let mut byte = [0];
        self.go.read_exact(&mut byte).is_ok() && byte[0] == GO
    }

    /// Says why the command could not be executed.
    pub(crate) fn failed(&mut self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(nix::libc::ENOEXEC);
        drop(self.answer.write_all(&errno.to_ne_bytes()));
    }
}
