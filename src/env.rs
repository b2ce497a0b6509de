//! The environment, read in one place. An empty value counts as unset.

use std::ffi::OsString;

/// Names of the variables the tools read or export.
pub(crate) mod name {
    /// Set by sudo(8): who called it.
    pub(crate) const SUDO_USER: &str = "SUDO_USER";
    /// The person's directory: agents keep their settings below it.
    pub(crate) const HOME: &str = "HOME";
    /// Where a person's settings are, instead of ~/.config.
    pub(crate) const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
    /// The time zone, tzset(3).
    pub(crate) const TZ: &str = "TZ";
    /// The shell's word for the working directory, with its links.
    pub(crate) const PWD: &str = "PWD";
    /// Where commands are looked for.
    pub(crate) const PATH: &str = "PATH";
    /// The state directory, an absolute path.
    pub(crate) const DIR: &str = "ORION_DIR";
    /// The database of the locks of many machines, as `--via`; exported by a run there.
    pub(crate) const VIA: &str = "ORION_VIA";
    /// PostgreSQL's file with passwords.
    #[cfg(feature = "postgres")]
    pub(crate) const PGPASSFILE: &str = "PGPASSFILE";
    /// PostgreSQL's file with services.
    #[cfg(feature = "postgres")]
    pub(crate) const PGSERVICEFILE: &str = "PGSERVICEFILE";
    /// The process that owns what `acquire` takes; a live ancestor's pid.
    pub(crate) const OWNER_PID: &str = "ORION_OWNER_PID";
    /// Exported by `orion-lock run`: the innermost lock's name.
    pub(crate) const LOCK_NAME: &str = "ORION_LOCK_NAME";
    /// Exported by `orion-lock run`: the innermost lock's token.
    pub(crate) const LOCK_TOKEN: &str = "ORION_LOCK_TOKEN";
    /// Exported by `orion-lock run` to what runs in a slot: its number.
    pub(crate) const LOCK_SLOT: &str = "ORION_LOCK_SLOT";
    /// Exported by `orion-lock run`: every lock held on the way down, `a:1 b:2`, outermost first.
    pub(crate) const LOCKS: &str = "ORION_LOCKS";
    /// Set by tmux in its panes: socket, server's pid, session, with commas between.
    pub(crate) const TMUX: &str = "TMUX";
    /// Set by tmux in its panes: the pane's id.
    pub(crate) const TMUX_PANE: &str = "TMUX_PANE";
    /// Orca's own name for its command line (WSL sessions).
    pub(crate) const ORCA_CLI_COMMAND: &str = "ORCA_CLI_COMMAND";
    /// A developer's checkout of Orca: its command line is `orca-dev`.
    pub(crate) const ORCA_DEV_REPO_ROOT: &str = "ORCA_DEV_REPO_ROOT";
    /// Set by Orca in its terminals: tab and pane.
    pub(crate) const ORCA_PANE_KEY: &str = "ORCA_PANE_KEY";
    /// Any of these sends Orca's command line to another machine.
    pub(crate) const ORCA_ELSEWHERE: [&str; 3] =
        ["ORCA_ENVIRONMENT", "ORCA_PAIRING_CODE", "ORCA_REMOTE_PAIRING"];
    /// The ticket tracker, as `--tracker`; exported by `orion-claim run`.
    pub(crate) const TRACKER: &str = "ORION_TRACKER";
    /// Who decides a race, as `--arbiter`.
    pub(crate) const ARBITER: &str = "ORION_ARBITER";
    /// `true`: only this machine claims from the tracker, as `--single-machine`.
    pub(crate) const SINGLE_MACHINE: &str = "ORION_SINGLE_MACHINE";
    /// The settings file of `orion-claim`, as `--config`.
    pub(crate) const CLAIM_CONFIG: &str = "ORION_CLAIM_CONFIG";
    /// A tracker's token; goes before those of one kind of tracker.
    pub(crate) const TRACKER_TOKEN: &str = "ORION_TRACKER_TOKEN";
    /// The login that goes with a Jira token.
    pub(crate) const TRACKER_USER: &str = "ORION_TRACKER_USER";
    /// GitHub's tokens, as its own tools read them.
    pub(crate) const GITHUB_TOKENS: [&str; 2] = ["GH_TOKEN", "GITHUB_TOKEN"];
    /// A token of Gitea or Forgejo.
    pub(crate) const GITEA_TOKEN: &str = "GITEA_TOKEN";
    /// A GitLab token.
    pub(crate) const GITLAB_TOKEN: &str = "GITLAB_TOKEN";
    /// A Jira token.
    pub(crate) const JIRA_TOKEN: &str = "JIRA_TOKEN";
    /// The API of a GitHub Enterprise server.
    pub(crate) const GITHUB_API: &str = "GITHUB_API_URL";
    /// Between the programs of a run of a ticket: token, nonce and name of its row in the database that decides.
    pub(crate) const CLAIM_ROW: &str = "ORION_CLAIM_ROW";
    /// Exported by `orion-claim run`: the ticket's key.
    pub(crate) const TICKET: &str = "ORION_TICKET";
    /// Exported by `orion-claim run`: the claim's token.
    pub(crate) const CLAIM_TOKEN: &str = "ORION_CLAIM_TOKEN";
    /// Exported by `orion-claim run`: the branch of this work, or of an interrupted earlier run.
    pub(crate) const CLAIM_BRANCH: &str = "ORION_CLAIM_BRANCH";
    /// Exported by `orion-claim run`: the directory of this work, or of an interrupted earlier run.
    pub(crate) const CLAIM_WORKTREE: &str = "ORION_CLAIM_WORKTREE";
}

/// The value of a variable; `None` when unset or empty.
pub(crate) fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The value as text; `None` when unset, empty or not UTF-8.
pub(crate) fn text(name: &str) -> Option<String> {
    value(name).and_then(|value| value.into_string().ok())
}
