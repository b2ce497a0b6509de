//! By which right a caller speaks for a claim: its token, or being its owner.

use crate::cli::claim::ClaimRight as Args;
use crate::command::owner;
use crate::env;
use crate::error::Error;
use crate::model::ticket::Key;
use crate::verdict::ownership::Credential;

/// The credential that the arguments or the environment give.
///
/// # Errors
/// As [`owner::credential`].
pub(super) fn of(args: &Args, key: &Key) -> Result<Credential, Error> {
    owner::credential(args.token, args.owner.as_deref(), || exported(key), key.as_str())
}

/// The token in the environment, unless that is of another ticket.
fn exported(key: &Key) -> Option<u64> {
    let other = env::text(env::name::TICKET).is_some_and(|ticket| ticket != key.as_str());
    if other { None } else { env::text(env::name::CLAIM_TOKEN)?.parse().ok() }
}
