//! Where tickets live: `file:DIR`, `github:OWNER/REPO`, `gitlab:HOST/GROUP/PROJECT`,
//! `gitea:HOST/OWNER/REPO`, `jira:URL/PROJECT`, `command:PROG`.

use std::path::{Component, Path, PathBuf};

/// A tracker, in canonical spelling: one tracker has one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A directory of ticket files, absolute.
    File(PathBuf),
    /// A repository, lower case (GitHub tells no two by case), and the API's base
    /// URL without a slash at its end.
    GitHub {
        /// `https://api.github.com`, or a GitHub Enterprise server's `…/api/v3`.
        base: String,
        /// The account.
        owner: String,
        /// The repository.
        repo: String,
    },
    /// A Jira project.
    Jira {
        /// The site, without a slash at its end.
        base: String,
        /// The project's key, upper case.
        project: String,
    },
    /// A GitLab project.
    GitLab {
        /// The site, without a slash at its end.
        base: String,
        /// Its whole path, groups and all, lower case (GitLab tells no two by case).
        project: String,
    },
    /// A repository of a Gitea or Forgejo, lower case.
    Gitea {
        /// The site, without a slash at its end.
        base: String,
        /// The account.
        owner: String,
        /// The repository.
        repo: String,
    },
    /// A program that speaks JSON on stdin and stdout, absolute.
    Command(PathBuf),
}

/// GitHub's own API.
pub(crate) const GITHUB: &str = "https://api.github.com";

impl Address {
    /// Reads what a person typed. Paths must be absolute: cron, systemd and a
    /// terminal must mean one place.
    ///
    /// # Errors
    /// What is wrong, as a fragment after the escaped text.
    pub(crate) fn parse(text: &str, github_base: Option<&str>) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').ok_or(FORMS)?;
        match kind {
            "file" | "command" => {
                let path = Path::new(rest);
                if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
                    return Err(format!("needs an absolute path without .. ({kind}:/…)"));
                }
                // Without doubled and trailing slashes.
                let path: PathBuf = path.components().collect();
                Ok(if kind == "file" { Self::File(path) } else { Self::Command(path) })
            }
            "github" => {
                let (owner, repo) = rest.split_once('/').ok_or("needs github:OWNER/REPO")?;
                if !is_word(owner) || !is_word(repo) {
                    return Err("needs github:OWNER/REPO".to_owned());
                }
                let base = base_url(github_base.unwrap_or(GITHUB))?;
                Ok(Self::GitHub { base, owner: owner.to_ascii_lowercase(), repo: repo.to_ascii_lowercase() })
            }
            "gitlab" => {
                const FORM: &str = "needs gitlab:HOST/GROUP/PROJECT";
                let (scheme, rest) = rest.split_once("://").unwrap_or(("https", rest));
                let (host, project) = rest.split_once('/').ok_or(FORM)?;
                if !project.contains('/') || !project.split('/').all(is_word) {
                    return Err(FORM.to_owned());
                }
                let base = base_url(&format!("{scheme}://{host}"))?;
                Ok(Self::GitLab { base, project: project.to_ascii_lowercase() })
            }
            "gitea" => {
                const FORM: &str = "needs gitea:HOST/OWNER/REPO";
                let rest = if rest.contains("://") { rest.to_owned() } else { format!("https://{rest}") };
                let (rest, repo) = rest.rsplit_once('/').ok_or(FORM)?;
                let (site, owner) = rest.rsplit_once('/').ok_or(FORM)?;
                if site.ends_with('/') || !is_word(owner) || !is_word(repo) {
                    return Err(FORM.to_owned());
                }
                let (owner, repo) = (owner.to_ascii_lowercase(), repo.to_ascii_lowercase());
                Ok(Self::Gitea { base: base_url(site)?, owner, repo })
            }
            "jira" => {
                let (site, project) = rest.rsplit_once('/').ok_or("needs jira:URL/PROJECT")?;
                let legal = project.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                if project.is_empty() || !legal {
                    return Err("needs jira:URL/PROJECT, with the project's key".to_owned());
                }
                Ok(Self::Jira { base: base_url(site)?, project: project.to_ascii_uppercase() })
            }
            _ => Err(FORMS.to_owned()),
        }
    }

    /// Is it reached over the network, with a token?
    pub(crate) fn is_server(&self) -> bool {
        match self {
            Self::File(_) | Self::Command(_) => false,
            Self::GitHub { .. } | Self::Jira { .. } | Self::GitLab { .. } | Self::Gitea { .. } => true,
        }
    }

    /// The one spelling, as it stands in records.
    pub(crate) fn canonical(&self) -> String {
        match self {
            Self::File(path) => format!("file:{}", path.display()),
            Self::GitHub { base, owner, repo } if base == GITHUB => format!("github:{owner}/{repo}"),
            Self::GitHub { base, owner, repo } => format!("github:{base}/{owner}/{repo}"),
            Self::Jira { base, project } => format!("jira:{base}/{project}"),
            Self::GitLab { base, project } => format!("gitlab:{}/{project}", without_https(base)),
            Self::Gitea { base, owner, repo } => format!("gitea:{}/{owner}/{repo}", without_https(base)),
            Self::Command(path) => format!("command:{}", path.display()),
        }
    }

    /// A directory name for its claims: what a person recognises, and 8 hex of the
    /// canonical address, so that issue 12 of two repositories is two claims.
    pub(crate) fn dir_name(&self) -> String {
        let readable = match self {
            Self::File(path) => format!("file_{}", path.display()),
            Self::GitHub { base, owner, repo } => format!("{}_{owner}_{repo}", host(base)),
            Self::Jira { base, project } => format!("{}_{project}", host(base)),
            Self::GitLab { base, project } => format!("{}_{project}", host(base)),
            Self::Gitea { base, owner, repo } => format!("{}_{owner}_{repo}", host(base)),
            Self::Command(path) => format!("command_{}", path.display()),
        };
        let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let readable: String = readable.chars().map(safe).take(80).collect();
        format!("{readable}-{:08x}", fnv1a(self.canonical().as_bytes()))
    }
}

const FORMS: &str = "is not a tracker (write file:/DIR, github:OWNER/REPO, gitlab:HOST/GROUP/PROJECT, gitea:HOST/OWNER/REPO, jira:https://SITE/PROJECT or command:/PROG)";

/// An http or https URL without user, query and fragment, and without a slash at its end.
fn base_url(text: &str) -> Result<String, String> {
    let (scheme, rest) = text.split_once("://").ok_or("needs a URL (https://…)")?;
    let scheme = scheme.to_ascii_lowercase();
    if scheme != "https" && scheme != "http" {
        return Err("needs https:// (or http:// to this machine)".to_owned());
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.contains('@') {
        return Err("has a user or a secret in its URL; give them apart".to_owned());
    }
    let legal = |byte: u8| byte.is_ascii_graphic() && !b"?#\"<>\\^`{|}".contains(&byte);
    if host.is_empty() || !rest.bytes().all(legal) {
        return Err("is not a usable URL".to_owned());
    }
    let path = path.trim_end_matches('/');
    let slash = if path.is_empty() { "" } else { "/" };
    Ok(format!("{scheme}://{}{slash}{path}", host.to_ascii_lowercase()))
}

fn without_https(base: &str) -> &str {
    base.strip_prefix("https://").unwrap_or(base)
}

/// The host of a base URL, with its port.
pub(crate) fn host(base: &str) -> &str {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn is_word(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.')
        && text.len() <= 100
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && text != "."
        && text != ".."
}

/// FNV-1a, 32 bits: the same on every machine and in every version.
pub(crate) fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tracker_has_one_address() {
        let read = |text| Address::parse(text, None).expect(text);
        assert_eq!(read("github:Acme/Tools"), read("github:acme/tools"));
        assert_eq!(read("jira:https://X.example/jira//ab"), read("jira:https://x.example/jira/AB"));
        assert_eq!(read("file:/a//b/./c/"), read("file:/a/b/c"));
        assert_ne!(read("github:acme/a").dir_name(), read("github:acme/b").dir_name());
        let name = read("github:acme/tools").dir_name();
        assert_eq!(name, "api.github.com_acme_tools-e4723e0a", "the same in every version");
        let enterprise = Address::parse("github:a/b", Some("https://ghe.example/api/v3/")).expect("ghe");
        for (typed, canonical) in [
            ("gitlab:Gitlab.Example/Top/Sub/Tools", "gitlab:gitlab.example/top/sub/tools"),
            ("gitlab:https://gitlab.example/top/tools", "gitlab:gitlab.example/top/tools"),
            ("gitlab:http://127.0.0.1:8080/a/b", "gitlab:http://127.0.0.1:8080/a/b"),
            ("gitea:Codeberg.example/Acme/Tools", "gitea:codeberg.example/acme/tools"),
            ("gitea:https://git.example/sub/acme/tools", "gitea:git.example/sub/acme/tools"),
        ] {
            let address = read(typed);
            assert_eq!((address.canonical(), address.is_server()), (canonical.to_owned(), true));
            assert_eq!(read(canonical), address);
        }
        assert_eq!(enterprise.canonical(), "github:https://ghe.example/api/v3/a/b");
    }

    #[test]
    fn what_is_no_tracker_is_refused() {
        for bad in [
            "",
            "acme/tools",
            "github:acme",
            "github:a/b/c",
            "github:../x",
            "github:a b/c",
            "file:tickets",
            "file:/a/../b",
            "command:prog",
            "jira:x.example/AB",
            "jira:ftp://x/AB",
            "jira:https://u:p@x.example/AB",
            "jira:https://x.example/A B",
            "jira:https://x.example/",
            "jira:https:///AB",
            "gitlab:a/b",
            "gitlab:host//b",
            "gitlab:ftp://host/a/b",
            "gitlab:host/a/../b",
            "gitea:a/b",
            "gitea:host/a/b c",
            "gitea:https://host/b",
            "gitea://a/b",
        ] {
            assert!(Address::parse(bad, None).is_err(), "{bad:?}");
        }
    }
}
