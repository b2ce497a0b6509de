//! Does a text hold a password or a token where it must not? Such a text is refused
//! and never repeated: arguments, settings and records are read by many.

/// How the tokens of well-known trackers begin, as their documentation tells.
const TOKEN_PREFIXES: [&str; 9] =
    ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gloas-", "ATATT3"];

/// What is secret about a text, as the end of a sentence; `None` when nothing is seen.
/// A user's name alone is harmless with ssh; before `@` in an `http` address it may be
/// a token as well as a name, and nobody can tell which.
pub(crate) fn secret_in(text: &str) -> Option<&'static str> {
    if holds_token(text) {
        return Some("has a token in it");
    }
    let (scheme, rest) = text.rsplit_once("://")?;
    let scheme = scheme.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(scheme);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let web = scheme.to_ascii_lowercase().starts_with("http");
    match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => Some("has a password in its address"),
        Some(_) if web => Some("has a user or a token in its address"),
        // A slash in a password ends the authority for us, and not for everybody.
        None if web && rest.contains('@') => Some("has an @ in its address"),
        _ if web && rest.contains(['?', '#']) => Some("has a query in its address"),
        _ => None,
    }
}

fn holds_token(text: &str) -> bool {
    let begins = |word: &str| {
        TOKEN_PREFIXES.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| rest.len() >= 16))
    };
    text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c)).any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_seen_and_what_is_none_is_not() {
        for bad in [
            "https://me:PW@host/r",
            "https://TOKEN@host/r",
            "HTTPS://TOKEN@host",
            "jira:https://me:PW@host/AB",
            "https://me:p/w@host/r",
            "https://host/r?private_token=x",
            "https://host/r#x",
            "ssh://git:PW@host/r",
            "github:acme/ghp_0123456789abcdef0123",
            "glpat-0123456789abcdefghij",
            "file:/x/github_pat_11ABCDEFG0123456789",
        ] {
            assert!(secret_in(bad).is_some(), "{bad}");
        }
        for good in [
            "https://host/r",
            "ssh://git@host/r",
            "git@host:group/r.git",
            "/srv/git/r.git",
            "github:acme/tools",
            "jira:https://site.example/AB",
            "me@example.com",
            "file:/home/a@b/tickets",
            "ghp_x",
        ] {
            assert_eq!(secret_in(good), None, "{good}");
        }
    }
}
