//! Subcommands of `orion-lock` that show what happened, to people and to programs that watch.

use super::moment;
use super::shared::Whose;
use crate::model::moment::Moment;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `timeline`
#[derive(Args, Debug)]
pub(crate) struct LockTimeline {
    #[command(flatten)]
    pub(crate) whose: Whose,
    /// Where it begins (90m, 09:45, 2026-11-29, RFC 3339)
    #[arg(long, value_name = "WHEN", value_parser = moment, default_value = "24h")]
    pub(crate) since: Moment,
    /// Where it ends; now, if not given
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    pub(crate) until: Option<Moment>,
    /// Write it to FILE as a page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Names of locks; without one, all that ran in this time
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<OsString>,
}
