//! The shell side: the gate, the bash library and the examples, each of them run.

#[path = "../support/mod.rs"]
mod support;

mod bash_library;
mod examples;
mod gate;

use std::path::{Path, PathBuf};

/// A file of `scripts/`: of the source tree, or beside installed binaries.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// `PATH` with our binaries, the scripts and a directory of the test in front.
fn path_with(own: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{}:{}:{path}", own.display(), support::bin_dir().display(), script("").display())
}

/// Writes an executable script.
fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directory");
    // Written under another name and renamed: an open writer elsewhere would make exec fail with ETXTBSY.
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).expect("write");
    std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o755)).expect("mode");
    std::fs::rename(&fresh, path).expect("rename");
}

/// A directory with nothing but `program` in it, for a `PATH` where nothing of ours can be found.
fn only(tool: &support::Tool, program: &str) -> PathBuf {
    let dir = tool.path("only");
    std::fs::create_dir_all(&dir).expect("directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    std::os::unix::fs::symlink(found.expect("a program"), dir.join(program)).expect("link");
    dir
}
