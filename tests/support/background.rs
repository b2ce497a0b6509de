//! A command that runs beside the test.

use super::{Done, LONG};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command that waits, ended with the test.
#[derive(Debug)]
pub(crate) struct Background(Child);

impl Background {
    /// Starts it; its output is read at its end, so it may not say much.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"))
    }

    /// Has it ended?
    pub(crate) fn is_over(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Done {
        let end = Instant::now() + LONG;
        while !self.is_over() {
            assert!(Instant::now() < end, "it still waits");
            std::thread::sleep(Duration::from_millis(2));
        }
        let text = |pipe: Option<&mut dyn std::io::Read>| {
            let mut text = String::new();
            pipe.expect("piped").read_to_string(&mut text).expect("read");
            text
        };
        let stdout = text(self.0.stdout.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        let stderr = text(self.0.stderr.as_mut().map(|pipe| pipe as &mut dyn std::io::Read));
        let status = self.0.wait().expect("wait");
        Done::of(status, stdout.as_bytes(), stderr.as_bytes())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
