//! From what was typed and what the environment says to runners and settings.

use super::case::ReapSettings;
use super::output_file::OutputDir;
use crate::cli::reap::{ReapOptions, RunnerName};
use crate::command::mark::agent_profiles;
use crate::env::{self, name};
use crate::error::Error;
use crate::model::agent_profile::AgentProfile;
use crate::model::terminal::AgentRules;
use crate::runner::Runner;
use crate::runner::command::ProgramRunner;
use crate::runner::orca::{Around, Orca};
use crate::runner::tmux::{Inside, Tmux};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Less silence than this is not a sign of anything (a tool call may take longer).
const LEAST_IDLE: Duration = Duration::from_secs(60);

/// Everything a pass needs.
pub(crate) struct Setup {
    pub(crate) runners: Vec<Box<dyn Runner>>,
    pub(crate) settings: ReapSettings,
    pub(crate) output: Option<OutputDir>,
}

/// Checks what was typed. Nothing is asked of a runner yet.
///
/// # Errors
/// Usage, and a `--keep-output` that cannot be written.
pub(crate) fn setup(
    what: &ReapOptions,
    end: Instant,
    dry_run: bool,
    in_precheck: bool,
) -> Result<Setup, Error> {
    let Some(runner) = &what.runner else {
        return Err(Error::usage("--runner is missing").hint("--runner tmux, orca, or command:PROG"));
    };
    if what.interrupted.is_some_and(|limit| limit < what.idle) {
        return Err(Error::usage("--interrupted is shorter than --idle").hint("give it a longer time"));
    }
    if what.idle < LEAST_IDLE && !what.force {
        return Err(
            Error::usage("--idle under 1m would close runs that only think").hint("--force allows it")
        );
    }
    let prompt = what.idle_match.clone().filter(|_| what.trust_screen);
    if *runner != RunnerName::Tmux && (!what.tmux_sockets.is_empty() || prompt.is_some()) {
        return Err(Error::usage("--tmux-socket and --idle-match are for --runner tmux"));
    }
    let runners: Vec<Box<dyn Runner>> = match runner {
        RunnerName::Tmux => {
            let mut sockets: Vec<Option<OsString>> = what.tmux_sockets.iter().cloned().map(Some).collect();
            if sockets.is_empty() {
                sockets.push(None);
            }
            let tmux = |socket| -> Box<dyn Runner> { Box::new(Tmux::new(socket, prompt.clone(), inside())) };
            sockets.into_iter().map(tmux).collect()
        }
        RunnerName::Orca => vec![Box::new(Orca::new(orca_program(), around()))],
        RunnerName::Command(program) => vec![Box::new(ProgramRunner::new(program.clone()))],
    };
    let output = match &what.keep_output {
        Some(path) if !dry_run => Some(OutputDir::open(path)?),
        _ => None,
    };
    let settings = ReapSettings {
        automations: what.automations.clone(),
        idle: what.idle,
        settle: what.settle,
        end,
        close_newest: what.close_newest,
        residents: what.residents.clone(),
        agents: agent_rules(),
        job_quiet: what.job_quiet,
        interrupted: what.interrupted,
        end_survivors: what.end_survivors,
        dry_run,
        in_precheck,
    };
    Ok(Setup { runners, settings, output })
}

/// What the profiles say about the processes of each kind of agent. A profile that is not understood names no
/// residents, and that keeps more.
fn agent_rules() -> Vec<AgentRules> {
    let rules = |profile: AgentProfile| AgentRules { names: profile.commands, residents: profile.residents };
    agent_profiles().unwrap_or_default().into_iter().map(rules).collect()
}

fn inside() -> Option<Inside> {
    let (tmux, pane) = env::text(name::TMUX).zip(env::text(name::TMUX_PANE))?;
    Inside::parse(&tmux, &pane)
}

/// Orca's command line by its own rule (runners A.1): a bare `orca` is the screen reader on GNOME.
fn orca_program() -> OsString {
    let developer = env::value(name::ORCA_DEV_REPO_ROOT).map(|_| OsString::from("orca-dev"));
    env::value(name::ORCA_CLI_COMMAND).or(developer).unwrap_or_else(|| "orca-ide".into())
}

fn around() -> Around {
    Around {
        pane_key: env::text(name::ORCA_PANE_KEY),
        elsewhere: name::ORCA_ELSEWHERE.iter().any(|name| env::value(name).is_some()),
    }
}
