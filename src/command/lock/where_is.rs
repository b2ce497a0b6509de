//! `where`: which directory, and why that one.

use super::LockCall;
use crate::cli::lock::LockWhere as Args;
use crate::error::Error;
use crate::exit::{Exit, Status};
use crate::model::name::LockName;
use crate::os::pulse;
use crate::os::state_dir::{DirMark, StateDir, mark};
use serde_json::json;

pub(super) fn show(call: &LockCall, args: &Args) -> Result<Status, Error> {
    if let Some(name) = &args.pulse {
        return pulse_path(call, &crate::command::typed::name(name)?);
    }
    let place = call.place().place()?;
    let wanted = match (args.mark_private, args.mark_network) {
        (true, _) => Some(DirMark::Private),
        (_, true) => Some(DirMark::Network),
        _ => None,
    };
    if let Some(wanted) = wanted {
        // The mark must be possible where opening is refused without it, so it goes by the path.
        if !place.path.exists() {
            StateDir::open(place.clone(), true)?;
        }
        mark(&place.path, wanted)?;
    }
    let rule = place.rule;
    let path = std::path::absolute(&place.path).unwrap_or_else(|_| place.path.clone());
    let state = StateDir::open(place, false)?;
    let sudo = whose(state.as_ref());
    if call.report.json {
        let mut object = json!({"directory": path, "rule": rule.as_str(), "exists": state.is_some()});
        if let Some(state) = &state {
            object["device"] = json!(state.device);
            object["inode"] = json!(state.inode);
            object["file_system"] = json!(state.file_system);
            object["uid"] = json!(state.uid);
            object["shared"] = json!(state.dir.shared);
            object["marks"] = json!(marks(state));
        }
        drop(call.report.object(&object));
        return Ok(Exit::Ok.into());
    }
    let mut text = format!("{}\n  chosen by: {}", path.display(), rule.as_str());
    match &state {
        None => text.push_str("\n  does not exist yet; the first run or acquire makes it"),
        Some(state) => {
            text.push_str(&format!("\n  dev:ino: {}:{}", state.device, state.inode));
            text.push_str(&format!("\n  file system: {}", state.file_system));
            let marks = marks(state);
            text.push_str(&format!(
                "\n  marks: {}",
                if marks.is_empty() { "none".into() } else { marks.join(", ") }
            ));
            if state.dir.shared {
                text.push_str("\n  shared with its group (setgid)");
            }
        }
    }
    if let Some(line) = sudo {
        text.push_str(&format!("\n  {line}"));
    }
    drop(call.report.data(&text));
    Ok(Exit::Ok.into())
}

/// A shell can neither know the directory nor make the file with the right mode.
fn pulse_path(call: &LockCall, name: &LockName) -> Result<Status, Error> {
    let store = call.store()?;
    let path = store.path().join(format!("{}.pulse", name.file()));
    drop(
        pulse::open(store.folder(), name.file())
            .map_err(|error| Error::io(&path.display().to_string(), &error))?,
    );
    let path = std::path::absolute(&path).unwrap_or(path);
    let printed = if call.report.json {
        call.report.object(&json!({"name": name.as_str(), "pulse": path}))
    } else {
        call.report.data(&path.display().to_string())
    };
    printed.map_err(|error| Error::io("stdout", &error))?;
    Ok(Exit::Ok.into())
}

fn marks(state: &StateDir) -> Vec<&'static str> {
    [(state.is_private(), "private"), (state.network, "network"), (state.has_containers(), "containers")]
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, mark)| *mark)
        .collect()
}

/// Under sudo the locks are root's, not the caller's; that surprises people.
fn whose(state: Option<&StateDir>) -> Option<String> {
    let user = crate::env::text(crate::env::name::SUDO_USER)?;
    rustix::process::geteuid().is_root().then(|| {
        let uid = state.map_or(0, |state| state.uid);
        format!(
            "under sudo this is the directory of uid {uid}, not of {}",
            crate::report::escape(user.as_bytes(), 40)
        )
    })
}
