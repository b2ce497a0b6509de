//! All files of one name together: which names have any, and how they are removed.

use crate::model::time::WallTime;
use crate::os::dir::Dir;
use crate::os::{pause_file, record_file};
use std::ffi::OsString;
use std::io;

/// What stands behind a name in the file names of a lock; the guard is removed last.
const SUFFIXES: [&str; 5] = [".json", ".pulse", ".queue", ".pause", ".guard"];

/// The first parts of the names of all files of locks, unsorted.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn stems(dir: &Dir) -> io::Result<Vec<String>> {
    let stem = |file: OsString| {
        let file = file.to_str()?;
        let suffixes = SUFFIXES.iter().chain(&[".members"]);
        let stem = suffixes.into_iter().find_map(|suffix| file.strip_suffix(suffix));
        stem.or_else(|| corrupt_of(file)).filter(|stem| !stem.is_empty()).map(str::to_owned)
    };
    Ok(dir.names()?.into_iter().filter_map(stem).collect())
}

/// The files of records that were set aside, unsorted.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn set_aside(dir: &Dir) -> io::Result<Vec<String>> {
    let files = dir.names()?.into_iter().filter_map(|file| file.into_string().ok());
    Ok(files.filter(|file| corrupt_of(file).is_some()).collect())
}

/// `NAME.corrupt.7`: a record that was set aside.
fn corrupt_of(file: &str) -> Option<&str> {
    let (stem, number) = file.rsplit_once(".corrupt.")?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(stem)
}

/// When the guard was written last; `None`: there is none, or it cannot be seen.
pub(crate) fn guard_changed(dir: &Dir, stem: &str) -> Option<WallTime> {
    let seconds = u64::try_from(dir.stat(&format!("{stem}.guard")).ok()?.st_mtime).ok()?;
    Some(WallTime(seconds.saturating_mul(1000)))
}

/// Removes all of them but the records, which go one by one before, and of those in `set_aside` its own; the guard
/// last. To be called under the guard.
///
/// # Errors
/// EACCES, EROFS and the like; the guard is then still there.
pub(crate) fn remove(dir: &Dir, stem: &str, set_aside: &[String]) -> io::Result<()> {
    if let Some(members) = record_file::members(dir, stem, false)? {
        // Only what a kill left half written.
        let left = members.names()?;
        for file in left.iter().filter_map(|file| file.to_str()).filter(|file| file.starts_with('.')) {
            members.unlink(file)?;
        }
        dir.remove_dir(&format!("{stem}.members"))?;
    }
    set_aside.iter().filter(|file| corrupt_of(file) == Some(stem)).try_for_each(|file| dir.unlink(file))?;
    dir.unlink(&format!(".{stem}.tmp"))?;
    dir.unlink(&pause_file::temp_name(stem))?;
    for suffix in SUFFIXES.into_iter().filter(|suffix| *suffix != ".json") {
        dir.unlink(&format!("{stem}{suffix}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_one_name() {
        let temp = tempfile::tempdir().expect("dir");
        let dir = Dir::open(temp.path()).expect("open");
        let files =
            ["x.guard", "y.json", "z.corrupt.7", "a.corrupt.7.json", "b.corrupt.", ".x.tmp", "c", ".pause"];
        for file in files {
            std::fs::write(temp.path().join(file), "").expect("write");
        }
        std::fs::create_dir(temp.path().join("m.members")).expect("mkdir");
        let mut stems = stems(&dir).expect("list");
        stems.sort();
        assert_eq!(stems, ["a.corrupt.7", "m", "x", "y", "z"]);
        let aside = set_aside(&dir).expect("list");
        assert_eq!(aside, ["z.corrupt.7"]);
        remove(&dir, "x", &aside).expect("remove");
        assert!(temp.path().join("z.corrupt.7").exists());
        remove(&dir, "z", &aside).expect("remove");
        for (file, there) in [("z.corrupt.7", false), ("x.guard", false), (".x.tmp", false), ("y.json", true)]
        {
            assert_eq!(temp.path().join(file).exists(), there, "{file}");
        }
    }
}
