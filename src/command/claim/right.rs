//! By which right a caller speaks for a claim: its token, or being its owner.

use crate::cli::claim::ClaimRight as Args;
use crate::command::lock::owner::{among, ancestors, from_environment};
use crate::env;
use crate::error::Error;
use crate::model::ticket::Key;
use crate::verdict::owner::OwnerSpec;
use crate::verdict::ownership::Credential;

/// The token or owner that was named, else the token that `run` exported for this
/// ticket, else `ORION_OWNER_PID`.
pub(super) fn of(args: &Args, key: &Key) -> Result<Credential, Error> {
    if let Some(token) = args.token {
        return Ok(Credential::Token(token));
    }
    let wish = match &args.owner {
        Some(owner) => Some(OwnerSpec::parse(owner)),
        None => match exported(key) {
            Some(token) => return Ok(Credential::Token(token)),
            None => from_environment()?,
        },
    };
    match wish {
        Some(wish) => Ok(Credential::Owner(among(&ancestors()?, &wish, true)?)),
        None => Err(Error::usage(format!("whose {key}? No token was exported for it"))
            .hint("--token N, or --owner $$")),
    }
}

/// The token in the environment, unless that is of another ticket.
fn exported(key: &Key) -> Option<u64> {
    let other = env::text(env::name::TICKET).is_some_and(|ticket| ticket != key.as_str());
    if other { None } else { env::text(env::name::CLAIM_TOKEN)?.parse().ok() }
}

/// For `release`: the token, or the owner by its number, and nothing that is inherited.
pub(super) fn explicit(token: Option<u64>, owner: Option<u32>) -> Result<Credential, Error> {
    match (token, owner) {
        (Some(token), _) => Ok(Credential::Token(token)),
        (None, Some(pid)) => Ok(Credential::Owner(among(&ancestors()?, &OwnerSpec::Pid(pid), true)?)),
        (None, None) => Err(Error::usage("whose claim? --token N, or --owner $$")),
    }
}
