//! Claims as refs of a git remote: created, replaced and deleted only with the
//! explicit value that was expected, so that the server decides between two.
//! For every tracker, and any remote that git reaches; no service needed.

use super::failure::{Failure, Why};
use crate::error::escape;
use crate::model::secret_text::secret_in;
use crate::model::ticket::Key;
use crate::os::call::{self, NoAnswer};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a git that calls us says about its own repository (`git rev-parse
/// --local-env-vars`, and what a receiving git adds). What says how to reach a server
/// stays: proxies, ssh, credentials.
const OWN_TO_A_REPOSITORY: [&str; 17] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_CONFIG",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_PUSH_OPTION_COUNT",
];

/// What a claim's ref may hold.
const BLOB_CAP: usize = 1 << 20;

/// Whoever asked for the ref, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// The ref is as we wrote it; its object id.
    Ours(String),
    /// It is something else: another object id, or gone.
    Theirs(Option<String>),
}

/// A git remote that holds claims.
#[derive(Debug)]
pub(crate) struct GitRef {
    /// A bare repository of ours, to make objects in.
    scratch: PathBuf,
    remote: String,
    prefix: String,
    timeout: Duration,
}

impl GitRef {
    /// `tracker` keeps issue 12 of two repositories apart. Makes the scratch
    /// repository if it is not there.
    ///
    /// # Errors
    /// [`Why::Setting`]: git is missing, or a remote with a secret in it (argv is public).
    pub(crate) fn open(
        scratch: &Path,
        remote: &str,
        tracker: &str,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        if let Some(why) = secret_in(remote) {
            return Err(Failure::new(Why::Setting, format!("the git remote {why}; it is not repeated here"))
                .hint("use ssh, or let git ask a credential helper: git help credentials"));
        }
        if remote.is_empty() || remote.starts_with('-') || remote.chars().any(char::is_control) {
            return Err(Failure::new(Why::Setting, "the git remote is not a usable URL or path"));
        }
        let prefix = format!("refs/orion/claims/{}", component(tracker));
        let mut git = Self { scratch: scratch.to_owned(), remote: remote.to_owned(), prefix, timeout };
        if !scratch.exists() {
            git.make_scratch(scratch)?;
        }
        Ok(git)
    }

    /// Made beside and moved into place whole: git's own init is not safe against itself.
    fn make_scratch(&mut self, scratch: &Path) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::local("cannot make the scratch repository", &error);
        let above = scratch.parent().unwrap_or(Path::new("/"));
        let temp = tempfile::Builder::new().prefix(".git-").tempdir_in(above).map_err(failed)?;
        self.scratch = temp.path().to_owned();
        self.local(&["init", "--quiet", "--bare"], b"")?;
        self.scratch = scratch.to_owned();
        match std::fs::rename(temp.path(), scratch) {
            // Somebody else was first; ours goes with its guard.
            Err(_) if scratch.exists() => Ok(()),
            Err(error) => Err(failed(error)),
            Ok(()) => Ok(()),
        }
    }

    /// Takes the ref for a ticket that nobody has, with a record that holds a nonce.
    ///
    /// # Errors
    /// [`Failure::may_be_applied`] where not even a look at the remote says what became of it.
    pub(crate) fn create(&self, key: &Key, record: &[u8]) -> Result<Pushed, Failure> {
        let blob = self.blob(record)?;
        self.push(key, "", Some(&blob))
    }

    /// Gives the ref back, while it is still `old`.
    ///
    /// # Errors
    /// As [`GitRef::create`].
    pub(crate) fn delete(&self, key: &Key, old: &str) -> Result<Pushed, Failure> {
        self.push(key, old, None)
    }

    /// The claim of a ticket: object id and record.
    ///
    /// # Errors
    /// The remote cannot be reached, or the ref holds no record.
    pub(crate) fn read(&self, key: &Key) -> Result<Option<(String, Vec<u8>)>, Failure> {
        let Some(id) = self.look(key)? else { return Ok(None) };
        // Somebody may replace it in between: the fetch is then of the next one.
        self.remote_git(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"], &[&self.name(key)])?;
        let record = self.local(&["cat-file", "blob", &id], b"")?;
        if record.len() > BLOB_CAP {
            return Err(Failure::new(
                Why::Protocol,
                format!("the git ref {} does not hold a record", self.name(key)),
            ));
        }
        Ok(Some((id, record)))
    }

    fn push(&self, key: &Key, old: &str, new: Option<&str>) -> Result<Pushed, Failure> {
        let name = self.name(key);
        // Never the bare form, which believes whatever was fetched last; an empty
        // value says "must not exist" (git-push(1)).
        let lease = format!("--force-with-lease={name}:{old}");
        let refspec = format!("{}:{name}", new.unwrap_or_default());
        let pushed = self.remote_git(&["push", "--porcelain", "--no-verify", &lease], &[&refspec]);
        let Err(failure) = pushed else { return Ok(Pushed::Ours(new.unwrap_or_default().to_owned())) };
        if failure.why() == Why::Setting {
            return Err(failure);
        }
        // Refused, or the answer was lost: the ref itself says which.
        match self.look(key) {
            Ok(now) if now.as_deref() == new => Ok(Pushed::Ours(new.unwrap_or_default().to_owned())),
            Ok(now) if now.as_deref() == Some(old).filter(|old| !old.is_empty()) => Err(failure),
            Ok(now) => Ok(Pushed::Theirs(now)),
            Err(_) => Err(failure.maybe_applied(true)),
        }
    }

    /// The object id that the remote has for a ticket.
    fn look(&self, key: &Key) -> Result<Option<String>, Failure> {
        let name = self.name(key);
        let found = self.remote_git(&["ls-remote"], &[&name])?;
        let text = String::from_utf8_lossy(&found);
        let exact = |line: &str| {
            let (id, full) = line.split_once('\t')?;
            (full == name).then(|| id.to_owned())
        };
        Ok(text.lines().find_map(exact))
    }

    fn blob(&self, record: &[u8]) -> Result<String, Failure> {
        let id = self.local(&["hash-object", "-w", "--stdin"], record)?;
        Ok(String::from_utf8_lossy(&id).trim().to_owned())
    }

    fn name(&self, key: &Key) -> String {
        format!("{}/{}", self.prefix, component(key.as_str()))
    }

    fn remote_git(&self, options: &[&str], what: &[&str]) -> Result<Vec<u8>, Failure> {
        let arguments: Vec<&str> = [options, &["--", &self.remote], what].concat();
        self.run(&arguments, b"", Why::Unreachable)
    }

    fn local(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Failure> {
        self.run(arguments, input, Why::Setting)
    }

    fn run(&self, arguments: &[&str], input: &[u8], why: Why) -> Result<Vec<u8>, Failure> {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&self.scratch).args(arguments);
        // A git hook that calls us must not lend us its repository.
        for name in OWN_TO_A_REPOSITORY {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        let verb = arguments.first().copied().unwrap_or_default();
        let failed = |error: &std::io::Error| Failure::local(&format!("git {verb}"), error);
        let stdin = if input.is_empty() {
            Stdio::null()
        } else {
            let mut file = tempfile::tempfile().map_err(|error| failed(&error))?;
            file.write_all(input).and_then(|()| file.rewind()).map_err(|error| failed(&error))?;
            file.into()
        };
        let answer = call::call_with(&mut command, stdin, self.timeout).map_err(|none| match none {
            NoAnswer::NotFound => Failure::new(Why::Setting, "git is not installed").hint("install git"),
            NoAnswer::TimedOut => {
                Failure::new(Why::Unreachable, format!("git {verb} did not answer in time"))
                    .maybe_applied(true)
            }
            NoAnswer::TooMuch => Failure::new(Why::Protocol, format!("git {verb} produced more than 64 MiB")),
            NoAnswer::Failed(error) => failed(&error),
        })?;
        if answer.status.success() {
            return Ok(answer.stdout);
        }
        let said = String::from_utf8_lossy(&answer.stderr);
        let said = said.lines().find(|line| line.starts_with("fatal: ") || line.starts_with("error: "));
        let said = escape(said.unwrap_or("no reason given").as_bytes(), 200);
        Err(Failure::new(why, format!("git {verb} failed ({said})")))
    }
}

/// One component of a ref name (git-check-ref-format(1)): no dots at the edges, no
/// two in a row, no `.lock` at the end; simplest with none at all.
fn component(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    const TIMEOUT: Duration = Duration::from_secs(60);

    struct GitFixture {
        dir: tempfile::TempDir,
        git: GitRef,
    }

    fn fixture() -> GitFixture {
        let dir = tempfile::tempdir().expect("dir");
        let remote = dir.path().join("remote");
        let made =
            Command::new("git").args(["init", "--quiet", "--bare"]).arg(&remote).status().expect("git");
        assert!(made.success());
        let remote = remote.display().to_string();
        let git = GitRef::open(&dir.path().join("scratch"), &remote, "t", TIMEOUT).expect("open");
        GitFixture { dir, git }
    }

    fn key(text: &str) -> Key {
        Key::new(text).expect(text)
    }

    #[test]
    fn a_ref_is_taken_once_replaced_and_given_back_only_by_its_holder() {
        let GitFixture { dir: _dir, git } = fixture();
        for name in ["12", "a..b", "x.lock", "K-1."] {
            let key = key(name);
            let Pushed::Ours(id) = git.create(&key, b"one").expect(name) else { panic!("{name}: taken") };
            assert_eq!(git.create(&key, b"two").expect(name), Pushed::Theirs(Some(id.clone())));
            assert_eq!(git.create(&key, b"one").expect(name), Pushed::Ours(id.clone()), "our own words");
            assert_eq!(git.read(&key).expect(name), Some((id.clone(), b"one".to_vec())));
            let other = "0".repeat(39) + "1";
            assert_eq!(git.delete(&key, &other).expect(name), Pushed::Theirs(Some(id.clone())));
            assert!(matches!(git.delete(&key, &id).expect(name), Pushed::Ours(_)));
            assert_eq!(git.read(&key).expect(name), None);
        }
    }

    #[test]
    fn of_many_that_push_at_once_exactly_one_has_the_ref() {
        const RACERS: usize = 4;
        const TICKETS: usize = 4;
        let GitFixture { dir, git } = fixture();
        let barrier = Arc::new(Barrier::new(RACERS));
        let remote = git.remote.clone();
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                let (barrier, remote) = (Arc::clone(&barrier), remote.clone());
                let scratch = dir.path().join(format!("scratch-{racer}"));
                std::thread::spawn(move || {
                    let git = GitRef::open(&scratch, &remote, "t", TIMEOUT).expect("open");
                    let mut won = Vec::new();
                    for ticket in 0..TICKETS {
                        barrier.wait();
                        let record = format!("racer {racer} ticket {ticket}");
                        let pushed = git.create(&key(&ticket.to_string()), record.as_bytes());
                        if matches!(pushed.expect("push"), Pushed::Ours(_)) {
                            won.push(ticket);
                        }
                    }
                    won
                })
            })
            .collect();
        let mut won: Vec<usize> = racers.into_iter().flat_map(|racer| racer.join().expect("racer")).collect();
        won.sort_unstable();
        assert_eq!(won, (0..TICKETS).collect::<Vec<_>>());
    }

    #[test]
    fn what_cannot_be_reached_is_no_loss_and_a_secret_is_refused() {
        let GitFixture { dir, git } = fixture();
        let gone = GitRef { remote: dir.path().join("nothing").display().to_string(), ..git };
        let failure = gone.create(&key("1"), b"x").expect_err("no remote");
        assert_eq!(failure.why(), Why::Unreachable, "{failure}");
        let open = |remote: &str| GitRef::open(&dir.path().join("scratch"), remote, "t", TIMEOUT);
        let failure = open("https://me:hunter2@git.example/x").expect_err("a secret");
        assert_eq!(failure.why(), Why::Setting);
        assert!(!failure.to_string().contains("hunter2"));
        assert!(open("--upload-pack=x").is_err() && open("").is_err());
        assert!(open("ssh://git@git.example/x").is_ok());
    }
}
