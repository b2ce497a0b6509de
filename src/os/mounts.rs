//! Other paths of one file: where it is mounted a second time (bind mounts, mount(8)).

use crate::os::proc;
use procfs::FromBufRead;
use procfs::process::{MountInfo, MountInfos};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The other paths under which this very file is mounted, as far as our mount namespace
/// shows them; sorted. None for a file that does not exist.
pub(crate) fn other_names(file: &Path) -> Vec<PathBuf> {
    let Ok(wanted) = fs::metadata(file) else { return Vec::new() };
    let Ok(text) = proc::read_file("/proc/self/mountinfo") else { return Vec::new() };
    let mut names = possible_names(&text, file);
    names.retain(|name| {
        fs::metadata(name).is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    });
    names
}

/// Where the text of a mountinfo file says that the file could also be.
fn possible_names(mountinfo: &[u8], file: &Path) -> Vec<PathBuf> {
    let Ok(mounts) = MountInfos::from_buf_read(mountinfo) else { return Vec::new() };
    // The mount that is seen there: the deepest, and of several at one place the last.
    let deepest = |mount: &&MountInfo| unescaped(&mount.mount_point).components().count();
    let covering = mounts.0.iter().filter(|mount| file.starts_with(unescaped(&mount.mount_point)));
    let Some(covering) = covering.max_by_key(deepest) else { return Vec::new() };
    let below = |mount: &MountInfo, path: &Path| -> Option<PathBuf> {
        Some(path.strip_prefix(unescaped(mount.mount_point.as_path())).ok()?.to_owned())
    };
    let Some(rest) = below(covering, file) else { return Vec::new() };
    // Its path in the file system itself.
    let inside = joined(&unescaped(Path::new(&covering.root)), &rest);
    let same = mounts.0.iter().filter(|mount| mount.majmin == covering.majmin);
    let mut names: Vec<PathBuf> = same
        .filter_map(|mount| {
            let rest = inside.strip_prefix(unescaped(Path::new(&mount.root))).ok()?;
            Some(joined(&unescaped(&mount.mount_point), rest))
        })
        .filter(|name| name != file)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// `join` adds a slash behind a path even where nothing follows.
fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_owned() } else { path.join(rest) }
}

/// The kernel writes blanks, tabs, line ends and backslashes as `\040` (proc_pid_mountinfo(5)).
fn unescaped(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let plain = ["\\040", "\\011", "\\012", "\\134"].iter().zip([" ", "\t", "\n", "\\"]);
    PathBuf::from(plain.fold(text.into_owned(), |text, (code, plain)| text.replace(code, plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_mount_of_a_file_is_found_from_both_sides() {
        let text = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            30 22 8:1 /data/g.db /mnt/h\\040x.db rw shared:1 - ext4 /dev/sda1 rw\n\
            31 22 8:1 /data /elsewhere rw shared:1 - ext4 /dev/sda1 rw\n\
            32 22 8:2 /data /other rw shared:1 - ext4 /dev/sda2 rw\n";
        let names = |file: &str| {
            let found = possible_names(text, Path::new(file));
            found.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("/data/g.db"), "/elsewhere/g.db /mnt/h x.db");
        assert_eq!(names("/mnt/h x.db"), "/data/g.db /elsewhere/g.db");
        assert_eq!(names("/elsewhere/g.db"), "/data/g.db /mnt/h x.db");
        assert_eq!(names("/other/g.db"), "");
        assert_eq!(names("/data/a.db"), "/elsewhere/a.db");
        assert!(possible_names(b"what is this", Path::new("/data/a.db")).is_empty());
    }
}
