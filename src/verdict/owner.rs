//! Which ancestor owns what `acquire` takes. No guess: a person or a script says who.

use crate::model::ancestor::Ancestor;

/// What was said about the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnerSpec {
    Pid(u32),
    Name(String),
}

impl OwnerSpec {
    /// Digits are a pid, anything else a name.
    pub(crate) fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Pid)
    }
}

/// Picks the owner among the caller's ancestors (parent first). `short_lived` allows a one-shot shell.
///
/// # Errors
/// What is wrong with what was asked for, and what to type instead.
pub(crate) fn pick<'a>(
    wanted: &OwnerSpec,
    ancestors: &'a [Ancestor],
    short_lived: bool,
) -> Result<&'a Ancestor, (String, String)> {
    let owner = match wanted {
        OwnerSpec::Pid(pid) => ancestors
            .iter()
            .find(|ancestor| ancestor.pid == *pid)
            .ok_or_else(|| (format!("pid {pid} is not a caller of this command"), hint(ancestors)))?,
        OwnerSpec::Name(name) => by_name(name, ancestors)?,
    };
    if owner.is_one_shot() && !short_lived {
        return Err((
            format!("{} is a one-shot shell, gone when this call returns", owner.show()),
            format!("{}, or --short-lived if that is meant", hint(ancestors)),
        ));
    }
    Ok(owner)
}

fn by_name<'a>(name: &str, ancestors: &'a [Ancestor]) -> Result<&'a Ancestor, (String, String)> {
    let called: Vec<&Ancestor> = ancestors.iter().filter(|ancestor| ancestor.is_called(name)).collect();
    if let Some(wrapper) = called.iter().find(|ancestor| ancestor.is_wrapper()) {
        return Err((
            format!("{} runs another program and ends with it, so it owns nothing by name", wrapper.show()),
            format!("{}; if it is meant, give its number: --owner {}", hint(ancestors), wrapper.pid),
        ));
    }
    let owner = match called.as_slice() {
        [] => return Err((format!("no caller of this command is called {name}"), hint(ancestors))),
        [one] => *one,
        several => {
            let list: Vec<String> = several.iter().map(|ancestor| ancestor.show()).collect();
            return Err((
                format!("several callers are called {name}: {}", list.join(", ")),
                format!("name one by number: --owner {}", several[0].pid),
            ));
        }
    };
    if owner.is_shared_daemon() {
        return Err((
            format!("{} is a daemon that other sessions share", owner.show()),
            format!("if it is meant, give its number: --owner {}", owner.pid),
        ));
    }
    Ok(owner)
}

/// The line to type: the script itself, or the long-lived callers by name.
pub(crate) fn hint(ancestors: &[Ancestor]) -> String {
    let lasting: Vec<String> = ancestors
        .iter()
        .filter(|it| it.pid > 1 && !it.is_one_shot() && !it.is_shared_daemon() && !it.is_wrapper())
        .take(3)
        .map(|ancestor| {
            let handle = ancestor.handle();
            let unique = ancestors.iter().filter(|other| other.is_called(&handle)).count() == 1;
            let plain = !handle.contains(|c: char| !c.is_ascii_alphanumeric() && !"._-".contains(c));
            let who = if unique && plain { handle } else { ancestor.pid.to_string() };
            format!("{}: --owner {who}", ancestor.show())
        })
        .collect();
    let script = "in a script: --owner $$ ($BASHPID in a subshell)";
    if lasting.is_empty() { script.to_owned() } else { format!("{script}, or {}", lasting.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ancestor(pid: u32, args: &[&str]) -> Ancestor {
        let name = args[0].rsplit('/').next().unwrap_or_default().trim_start_matches('-').to_owned();
        Ancestor {
            pid,
            comm: name.clone(),
            exe: Some(name),
            args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            tty_nr: 34816,
            under_manager: false,
        }
    }

    fn chain() -> Vec<Ancestor> {
        vec![
            ancestor(50, &["/bin/bash", "-c", "orion-lock acquire"]),
            ancestor(40, &["node", "/opt/claude/claude.js"]),
            ancestor(30, &["bash", "/srv/fire.sh", "x"]),
            ancestor(20, &["-bash"]),
            Ancestor { tty_nr: 0, under_manager: true, ..ancestor(10, &["sshd"]) },
        ]
    }

    fn pid(wanted: &str) -> Result<u32, String> {
        pick(&OwnerSpec::parse(wanted), &chain(), false)
            .map(|a| a.pid)
            .map_err(|(what, hint)| format!("{what}; {hint}"))
    }

    #[test]
    fn an_owner_is_an_ancestor_by_number_or_unique_name() {
        assert_eq!(pid("30"), Ok(30));
        assert_eq!(pid("fire.sh"), Ok(30));
        assert_eq!(pid("claude.js"), Ok(40));
        assert_eq!(pid("node"), Ok(40));
        assert_eq!(pid("10"), Ok(10), "a daemon by number is meant");
    }

    #[test]
    fn everything_else_is_refused_with_the_line_to_type() {
        for (wanted, expected) in [
            ("99", "not a caller"),
            ("vim", "no caller of this command is called vim"),
            ("50", "one-shot shell"),
            ("bash", "several callers are called bash: bash (pid 50), fire.sh (pid 30), bash (pid 20)"),
            ("sshd", "a daemon"),
            ("", "no caller"),
        ] {
            let error = pid(wanted).expect_err(wanted);
            assert!(error.contains(expected) && error.contains("--owner"), "{wanted}: {error}");
        }
        assert!(pick(&OwnerSpec::Pid(50), &chain(), true).is_ok(), "--short-lived");
    }

    #[test]
    fn the_line_to_type_names_whoever_stays() {
        // Not the one-shot shell, not the daemon, not the first process of the machine.
        let mut with_init = chain();
        with_init.push(ancestor(1, &["init"]));
        let script = "in a script: --owner $$ ($BASHPID in a subshell)";
        let all = format!(
            "{script}, or claude.js (pid 40): --owner claude.js, fire.sh (pid 30): --owner fire.sh, \
             bash (pid 20): --owner 20"
        );
        assert_eq!(hint(&chain()), all, "a name that two have is a number");
        assert_eq!(hint(&with_init), all);
        assert_eq!(hint(&[]), script);
        assert_eq!(hint(&[ancestor(1, &["init"])]), script);
        let daemon = Ancestor { tty_nr: 0, under_manager: true, ..ancestor(10, &["sshd"]) };
        for alone in [daemon, ancestor(50, &["sh", "-c", "x"]), ancestor(45, &["sudo", "x"])] {
            assert_eq!(hint(std::slice::from_ref(&alone)), script, "{alone:?}");
        }
        // A name that a shell would read otherwise is a number too.
        let odd = ancestor(7, &["python3", "/srv/my job.py"]);
        assert_eq!(hint(&[odd]), format!("{script}, or my job.py (pid 7): --owner 7"));
        let dashed = ancestor(8, &["agent-v2_x.1"]);
        assert_eq!(hint(&[dashed]), format!("{script}, or agent-v2_x.1 (pid 8): --owner agent-v2_x.1"));
    }

    #[test]
    fn one_shot_shells_are_recognised() {
        for args in [
            &["sh", "-c", "x"][..],
            &["/bin/bash", "-lc", "x"],
            &["bash", "-e", "-c", "x"],
            &["dash", "-ec", "x"],
            &["bash", "-euo", "pipefail", "-c", "x"],
            &["busybox", "sh", "-c", "x"],
            &["/bin/busybox", "ash", "-ec", "x"],
        ] {
            assert!(ancestor(2, args).is_one_shot(), "{args:?}");
        }
        for args in
            [&["bash", "x.sh", "-c"][..], &["-bash"], &["bash", "--norc"], &["python3", "-c", "x"], &["bash"]]
        {
            assert!(!ancestor(2, args).is_one_shot(), "{args:?}");
        }
        assert!(!ancestor(2, &["busybox", "sh", "x.sh", "-c"]).is_one_shot());
        // Called by another name, it is the executable that tells.
        let renamed = Ancestor { exe: Some("bash".into()), ..ancestor(2, &["tool", "-c", "x"]) };
        assert!(renamed.is_one_shot());
    }

    #[test]
    fn what_ends_with_its_command_is_never_an_owner_by_name() {
        let mut chain = chain();
        for (pid, name) in
            [(45, "sudo"), (44, "su"), (43, "runuser"), (42, "env"), (41, "timeout"), (35, "nice")]
        {
            chain.insert(1, ancestor(pid, &[name, "x"]));
            let (what, hint) = pick(&OwnerSpec::Name(name.into()), &chain, false).expect_err(name);
            assert!(
                what.contains("ends with it") && hint.contains(&format!("--owner {pid}")),
                "{what}; {hint}"
            );
            assert!(!super::hint(&chain).contains(&format!("(pid {pid})")), "{name} is not offered");
            assert_eq!(
                pick(&OwnerSpec::Pid(pid), &chain, false).map(|it| it.pid),
                Ok(pid),
                "by number it is meant"
            );
        }
    }

    #[test]
    fn the_hint_names_those_who_last() {
        let hint = hint(&chain());
        assert!(hint.contains("claude.js (pid 40): --owner claude.js"), "{hint}");
        assert!(hint.contains("--owner $$") && !hint.contains("sshd"), "{hint}");
    }
}
