//! Lines of flock(1) that cannot be carried over by changing one word: what to type instead.

use crate::error::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// The better answer to a line of `run` that clap refused; `None`: its own will do.
pub(super) fn instead(args: &[OsString], error: &clap::Error) -> Option<Error> {
    if !args.iter().take_while(|word| *word != "--").any(|word| word == "run") {
        return None;
    }
    let invalid = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let last = args.last()?.to_string_lossy();
    if error.kind() == ErrorKind::UnknownArgument && matches!(invalid, "-u" | "--unlock") {
        return Some(Error::usage(format!("{invalid}: run gives its lock back by itself, when its command ends")).hint(
            "to give one back that a script took: orion-lock release --owner $$ NAME (man orion-lock, Lines of flock)",
        ));
    }
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    if error.kind() == ErrorKind::MissingRequiredArgument && is_number {
        return Some(
            Error::usage(format!(
                "{last} alone, a descriptor of flock, is no lock here, and there is no command"
            ))
            .hint(
                "in a script: orion-lock acquire --owner $$ NAME, in bash: . orion.bash; orion_guard NAME; \
             for one command: orion-lock run NAME CMD [ARG...]",
            ),
        );
    }
    None
}
