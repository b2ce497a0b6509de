//! The controlling terminal and whose turn it is there (tcsetpgrp(3)).

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::fs::File;
use std::io::{self, IsTerminal};

/// The terminal that this session belongs to, whatever stdin is.
#[derive(Debug)]
pub(crate) struct ControllingTerminal(File);

impl ControllingTerminal {
    /// `None` without one: cron, systemd, a container.
    pub(crate) fn controlling() -> Option<Self> {
        File::open("/dev/tty").ok().map(Self)
    }

    /// Is our process group in the foreground?
    pub(crate) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.0).is_ok_and(|group| group == getpgrp())
    }

    /// Puts a process group of this session into the foreground. From the
    /// background this needs SIGTTOU blocked.
    ///
    /// # Errors
    /// EPERM for a group of another session, ENOTTY after a hang-up.
    pub(crate) fn give_to(&self, group: u32) -> io::Result<()> {
        let group = i32::try_from(group).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(tcsetpgrp(&self.0, group)?)
    }

    /// Puts our own process group into the foreground.
    ///
    /// # Errors
    /// As [`ControllingTerminal::give_to`].
    pub(crate) fn take_back(&self) -> io::Result<()> {
        Ok(tcsetpgrp(&self.0, getpgrp())?)
    }
}

/// Columns of the terminal that stdout is; `None` where it is none.
pub(crate) fn width() -> Option<usize> {
    size().map(|(columns, _)| columns).filter(|columns| *columns > 0)
}

/// Its rows; `None` as in [`width`].
pub(crate) fn height() -> Option<usize> {
    size().map(|(_, rows)| rows).filter(|rows| *rows > 0)
}

fn size() -> Option<(usize, usize)> {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal())?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row)))
}
