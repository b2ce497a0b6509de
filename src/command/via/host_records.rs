//! This machine's own records of the runs of a database: they refuse without asking it, and they prove ends.

use crate::command::records::{Judged, Records, Where};
use crate::error::Error;
use crate::model::record::LOCK;
use crate::verdict::liveness::State;
use crate::verdict::via::ViaHere;
use crate::via::credentials::ViaPlace;
use std::path::Path;

/// In `attrs`: the run's nonce, the same as in the row.
pub(super) const NONCE: &str = "via_nonce";
/// In `attrs`: the nonce of the ended run whose record was in this one's place.
pub(super) const AFTER: &str = "via_after";
/// In `attrs`: the token in the database.
pub(super) const TOKEN: &str = "via_token";

/// The folder of a database's records.
pub(super) fn open(dir: Option<&Path>, place: &ViaPlace, create: bool) -> Result<Option<Records>, Error> {
    let folder = place.target.records_folder(&place.database);
    let mut path = vec!["via", &folder];
    path.extend(place.tickets.as_deref());
    let here = Where { dir: dir.map(Path::to_owned), user: None };
    Records::open(&here, &path, LOCK, create)
}

fn attr<'a>(judged: &'a Judged, key: &str) -> Option<&'a str> {
    judged.record()?.attrs.get(key)?.as_str()
}

/// The runs that this record proves to have ended: its own, when its owner is dead or it was released, and the
/// one before.
pub(super) fn ended(judged: &Judged) -> Vec<String> {
    let own = match judged.state() {
        State::Free | State::Dead => attr(judged, NONCE),
        _ => None,
    };
    own.into_iter().chain(attr(judged, AFTER)).map(str::to_owned).collect()
}

/// What this machine knows of the run with this nonce.
pub(super) fn knows(judged: &Judged, nonce: Option<&str>) -> ViaHere {
    let Some(nonce) = nonce else { return ViaHere::NotOurs };
    if ended(judged).iter().any(|it| it == nonce) {
        return ViaHere::Ended;
    }
    if attr(judged, NONCE) != Some(nonce) {
        return ViaHere::NotOurs;
    }
    match judged.state() {
        State::Live(_) => ViaHere::Live,
        _ => ViaHere::Unclear,
    }
}
