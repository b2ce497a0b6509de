//! How shells read their arguments, as far as it says whether one was started for a
//! single command: by the meaning of `-c`, not by where it stands.

/// What the arguments of a shell say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellCall<'a> {
    /// It runs the text of an argument and ends.
    pub(crate) one_shot: bool,
    /// The first operand: a script, where it is not one-shot.
    pub(crate) script: Option<&'a [u8]>,
}

/// A family of shells whose options are read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// sh(1), dash, ksh, mksh, busybox: `-o NAME` takes the next word, letters may be joined.
    Posix,
    /// bash(1): also `-O NAME`, `--rcfile FILE`, `--init-file FILE`.
    Bash,
    /// zsh(1): `-o NAME` or `-oNAME`, `--emulate MODE`.
    Zsh,
    /// fish(1): values joined or in the next word, `--command TEXT`.
    Fish,
    /// csh(1), tcsh(1), and shells of their own kind that have `-c`.
    Plain,
}

impl Grammar {
    /// The family of a shell's name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        // Versions in names: ksh93, zsh-5.9, bash5.
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c));
        Some(match stem {
            "bash" | "rbash" => Self::Bash,
            "zsh" | "rzsh" => Self::Zsh,
            "fish" => Self::Fish,
            "sh" | "dash" | "ash" | "hush" | "ksh" | "rksh" | "mksh" | "rmksh" | "lksh" | "oksh"
            | "loksh" | "pdksh" | "posh" | "yash" | "jsh" | "bosh" | "osh" | "brush" => Self::Posix,
            "csh" | "tcsh" | "nu" | "xonsh" | "elvish" | "rc" | "es" | "ysh" => Self::Plain,
            _ => return None,
        })
    }

    /// Reads the arguments behind the name.
    pub(crate) fn read(self, arguments: &[Vec<u8>]) -> ShellCall<'_> {
        let mut one_shot = false;
        let mut rest = arguments.iter();
        let script = loop {
            let Some(word) = rest.next() else { break None };
            let values = match word.as_slice() {
                b"--" | b"-" => break rest.next(),
                [b'-', b'-', long @ ..] => {
                    let (name, joined) =
                        long.split_at(long.iter().position(|c| *c == b'=').unwrap_or(long.len()));
                    one_shot |= matches!(name, b"command" | b"commands") && self != Self::Bash;
                    usize::from(joined.is_empty() && self.long_takes_value(name))
                }
                [b'-' | b'+', letters @ ..] if !letters.is_empty() => {
                    let (command, values) = self.letters(letters);
                    one_shot |= command && word[0] == b'-';
                    values
                }
                _ => break Some(word),
            };
            for _ in 0..values {
                rest.next();
            }
        };
        ShellCall { one_shot, script: script.map(Vec::as_slice).filter(|_| !one_shot) }
    }

    fn long_takes_value(self, name: &[u8]) -> bool {
        match self {
            Self::Bash => matches!(name, b"rcfile" | b"init-file"),
            Self::Zsh => name == b"emulate",
            Self::Fish => matches!(
                name,
                b"command"
                    | b"init-command"
                    | b"debug"
                    | b"debug-output"
                    | b"features"
                    | b"profile"
                    | b"profile-startup"
            ),
            Self::Posix => matches!(name, b"rcfile" | b"init-file" | b"profile"),
            Self::Plain => false,
        }
    }

    /// Joined letters: is `c` among them, and how many of the next words are theirs?
    fn letters(self, letters: &[u8]) -> (bool, usize) {
        let (mut command, mut values) = (false, 0);
        for (at, letter) in letters.iter().enumerate() {
            let last = at + 1 == letters.len();
            match (self, letter) {
                (Self::Fish, b'c' | b'C' | b'd' | b'D' | b'f' | b'o' | b'p') => {
                    return (command || *letter == b'c', values + usize::from(last));
                }
                (_, b'c') => command = true,
                (Self::Zsh, b'o') => return (command, values + usize::from(last)),
                (Self::Posix | Self::Bash, b'o') | (Self::Bash, b'O') => values += 1,
                _ => {}
            }
        }
        (command, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> (bool, Option<String>) {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let grammar = Grammar::of(&line[..line.find(' ').unwrap_or(line.len())]).expect("a shell");
        let call = grammar.read(&words[1..]);
        (call.one_shot, call.script.map(|script| String::from_utf8_lossy(script).into_owned()))
    }

    #[test]
    fn one_command_is_recognised_however_it_is_spelled() {
        for line in [
            "sh -c x",
            "bash -lc x",
            "bash -e -c x",
            "bash -euo pipefail -c x",
            "bash -eu -o pipefail -c x",
            "bash -O extglob -c x",
            "bash -O extglob -o pipefail -ec x",
            "bash --rcfile f -c x",
            "bash --init-file f --norc -c x",
            "bash +e -c x",
            "bash -oc pipefail x",
            "rbash -c x",
            "dash -ec x",
            "dash -o errexit -c x",
            "mksh -c x",
            "ksh93 -o pipefail -c x",
            "zsh -o pipefail -c x",
            "zsh -opipefail -c x",
            "zsh --emulate sh -c x",
            "fish -c x",
            "fish -cx",
            "fish --command x",
            "fish --command=x",
            "fish -N -C y -c x",
            "fish --init-command y --command=x",
            "tcsh -fc x",
            "nu --commands x",
        ] {
            assert_eq!(call(line), (true, None), "{line}");
        }
    }

    #[test]
    fn a_script_is_found_behind_options_and_its_own_arguments_are_not_the_shells() {
        for (line, script) in [
            ("bash x.sh -c", Some("x.sh")),
            ("bash -o pipefail x.sh", Some("x.sh")),
            ("bash -euo pipefail x.sh -c y", Some("x.sh")),
            ("bash --rcfile -c", None),
            ("bash -- -c", Some("-c")),
            ("bash - x.sh", Some("x.sh")),
            ("bash +O extglob x.sh -c", Some("x.sh")),
            ("bash -s", None),
            ("bash -i", None),
            ("bash --norc", None),
            ("zsh -oc", None),
            ("fish x.fish -c", Some("x.fish")),
            ("fish -C command", None),
            ("fish --debug-output -c x.fish", Some("x.fish")),
            ("dash -o errexit x.sh", Some("x.sh")),
            ("sh +c x.sh", Some("x.sh")),
        ] {
            assert_eq!(call(line), (false, script.map(str::to_owned)), "{line}");
        }
        assert!(
            Grammar::of("python3").is_none() && Grammar::of("").is_none() && Grammar::of("ssh").is_none()
        );
    }
}
