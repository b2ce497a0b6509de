//! Where a token comes from, and a new one when the old one ends.

use super::Options;
use super::secret::Secret;
use crate::error::escape;
use crate::os::call::{self, NoAnswer};
use crate::tracker::failure::{Failure, Why};
use base64::Engine;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A token that was read from a file or a program is read again after so long.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Where the token comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// There is none: the server is asked without.
    #[default]
    Nothing,
    /// The environment of this process, which does not change.
    Given(Secret),
    /// A private file.
    File(PathBuf),
    /// A program and its arguments, without a shell; its first line is the token.
    Command(Vec<String>),
}

/// How the token stands in the `authorization` header.
#[derive(Clone, Debug)]
pub(super) enum AuthScheme {
    /// `Bearer TOKEN`
    Bearer,
    /// `token TOKEN`, as Gitea and Forgejo have it.
    Token,
    /// `Basic`, with this user's name (RFC 7617).
    Basic(String),
}

impl AuthScheme {
    fn header(&self, secret: &Secret) -> String {
        match self {
            Self::Bearer => format!("Bearer {}", secret.reveal()),
            Self::Token => format!("token {}", secret.reveal()),
            Self::Basic(user) => format!("Basic {}", basic(user, secret)),
        }
    }
}

fn basic(user: &str, secret: &Secret) -> String {
    base64::engine::general_purpose::STANDARD.encode(format!("{user}:{}", secret.reveal()))
}

/// The token in force, and every one before it: none of them is ever shown.
pub(super) struct TokenSupply {
    source: TokenSource,
    scheme: AuthScheme,
    timeout: Duration,
    max_age: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The last one is in force.
    secrets: Vec<Secret>,
    read_at: Option<Instant>,
}

impl TokenSupply {
    pub(super) fn new(options: &Options, scheme: AuthScheme) -> Self {
        Self {
            source: options.token.clone(),
            scheme,
            timeout: options.timeout,
            max_age: MAX_AGE,
            known: Mutex::default(),
        }
    }

    /// The value of the header, from a token that is not older than an hour where it
    /// can be read again. One that cannot be read again just now stays in force: the
    /// server says when it has ended.
    ///
    /// # Errors
    /// There is a source, and it has not given any token yet.
    pub(super) fn header(&self) -> Result<Option<String>, Failure> {
        let mut known = self.known();
        let fresh = known.read_at.is_some_and(|at| at.elapsed() < self.max_age);
        if !fresh && let Err(failure) = self.read(&mut known) {
            if known.secrets.is_empty() {
                return Err(failure);
            }
            known.read_at = Some(Instant::now());
        }
        Ok(known.secrets.last().map(|secret| self.scheme.header(secret)))
    }

    /// After a 401: reads the token again. False where it cannot have changed.
    ///
    /// # Errors
    /// The source gives no token any more.
    pub(super) fn renew(&self) -> Result<bool, Failure> {
        match self.source {
            TokenSource::Nothing | TokenSource::Given(_) => Ok(false),
            TokenSource::Command(_) => self.read(&mut self.known()).map(|()| true),
            TokenSource::File(_) => {
                // Somebody may be writing it at this moment.
                let mut read = self.read(&mut self.known());
                for _ in 0..2 {
                    if read.is_err() {
                        std::thread::sleep(Duration::from_millis(250));
                        read = self.read(&mut self.known());
                    }
                }
                read.map(|()| true)
            }
        }
    }

    /// A text without any token that we ever sent, should a server have repeated it.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.known().secrets {
            text = secret.scrub(&text);
            // Encoded with the user's name it is no less of a secret.
            if let AuthScheme::Basic(user) = &self.scheme {
                text = text.replace(&basic(user, secret), "(token)");
            }
        }
        text
    }

    fn read(&self, known: &mut Known) -> Result<(), Failure> {
        let secret = match &self.source {
            TokenSource::Nothing => None,
            TokenSource::Given(secret) => Some(secret.clone()),
            TokenSource::File(path) => Some(Secret::from_file(path)?),
            TokenSource::Command(words) => Some(ask(words, self.timeout)?),
        };
        if let Some(secret) = secret {
            known.secrets.retain(|old| *old != secret);
            known.secrets.push(secret);
        }
        known.read_at = Some(Instant::now());
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the program that prints the token. Nothing it prints is ever repeated, and
/// of its words only the first.
fn ask(words: &[String], timeout: Duration) -> Result<Secret, Failure> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| Failure::new(Why::Setting, "token_command has no words"))?;
    let name = format!("the token command {}", escape(program.as_bytes(), 200));
    let answer = call::call(Command::new(program).args(arguments), timeout).map_err(|none| match none {
        NoAnswer::NotFound => Failure::new(Why::Setting, format!("{name} is not there")),
        NoAnswer::TimedOut => Failure::new(Why::Unreachable, format!("{name} did not answer in time")),
        NoAnswer::TooMuch => Failure::new(Why::Setting, format!("{name} produced more than 64 MiB")),
        NoAnswer::Failed(error) => {
            Failure::new(Why::Setting, format!("cannot run {name}: {}", crate::error::reason(&error)))
        }
    })?;
    if !answer.status.success() {
        let message = format!("{name} failed ({}); its output is not shown", answer.status);
        return Err(Failure::new(Why::Setting, message).hint("run it by hand, as this user"));
    }
    let text = String::from_utf8(answer.stdout).unwrap_or_default();
    Secret::new(text.lines().next().unwrap_or_default())
        .map_err(|_| Failure::new(Why::Setting, format!("{name} did not print a token in its first line")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(source: TokenSource, max_age: Duration) -> TokenSupply {
        let options = Options { token: source, ..Options::default() };
        TokenSupply { max_age, ..TokenSupply::new(&options, AuthScheme::Basic("me".into())) }
    }

    fn command(script: &str) -> TokenSource {
        TokenSource::Command(vec!["sh".into(), "-c".into(), script.into()])
    }

    #[test]
    fn a_token_that_can_be_read_again_is_read_again_when_it_is_old() {
        let dir = tempfile::tempdir().expect("dir");
        let count = dir.path().join("count");
        let script = format!("echo x >> {0}; echo tok-$(wc -l < {0})", count.display());
        let young = supply(command(&script), Duration::from_secs(3600));
        let first = young.header().expect("header");
        assert_eq!(first, young.header().expect("header"));
        assert_eq!(young.renew().ok(), Some(true));
        assert_ne!(first, young.header().expect("header"), "asked again after a 401");
        let old = supply(command(&script), Duration::ZERO);
        assert_ne!(old.header().expect("header"), old.header().expect("header"));
        let given = supply(TokenSource::Given(Secret::new("t").expect("token")), Duration::ZERO);
        assert_eq!(given.renew().ok(), Some(false));
        assert_eq!(supply(TokenSource::Nothing, Duration::ZERO).header().expect("none"), None);
    }

    #[test]
    fn a_source_that_fails_later_keeps_the_token_in_force_and_shows_nothing() {
        let dir = tempfile::tempdir().expect("dir");
        let once = dir.path().join("once");
        let script = format!("echo hidden-1; echo hidden-2 >&2; mkdir {}", once.display());
        let old = supply(command(&script), Duration::ZERO);
        let first = old.header().expect("header");
        assert_eq!(old.header().expect("still the first"), first);
        let failure = old.renew().expect_err("it fails now");
        assert_eq!(failure.why(), Why::Setting);
        for script in ["echo hidden-1; exit 3", "echo 'hidden 1'", "echo hidden-1 >&2"] {
            let failure = supply(command(script), MAX_AGE).header().expect_err(script);
            assert!(!format!("{failure:?}").contains("hidden"), "{failure:?}");
        }
    }

    #[test]
    fn every_token_that_was_ever_sent_is_scrubbed_in_every_form() {
        let dir = tempfile::tempdir().expect("dir");
        let count = dir.path().join("count");
        let script = format!("echo x >> {0}; echo tok-$(wc -l < {0})", count.display());
        let supply = supply(command(&script), Duration::ZERO);
        let headers: Vec<String> =
            (0..2).map(|_| supply.header().expect("header").expect("a token")).collect();
        let said = supply.scrub(&format!("tok-1 tok-2 {} {}", headers[0], headers[1]));
        assert_eq!(said, "(token) (token) Basic (token) Basic (token)");
    }
}
