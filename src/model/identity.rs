//! Who a process is: never a bare pid.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// The largest pid Linux hands out (`PID_MAX_LIMIT`, 64-bit, proc(5)).
pub(crate) const PID_MAX: u32 = 4_194_304;

/// One process, told apart from every other that has or will have its number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    /// 1 to [`PID_MAX`]; a process, never a thread.
    #[serde(deserialize_with = "strict_pid")]
    pub(crate) pid: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot; compared, never converted.
    pub(crate) start_ticks: u64,
    /// Inode of its pidfd where that is pidfs (kernel 6.9): unique within a boot, seen alike from every namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pidfs_ino: Option<u64>,
    /// The name it had, escaped; shown, never compared (exec and title setters change it).
    #[serde(default)]
    pub(crate) comm: String,
    /// Its user, shown, never compared.
    #[serde(default)]
    pub(crate) uid: u32,
}

impl ProcessIdentity {
    /// The same process? By pidfs inode where both have one, else by pid and start.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let inodes = self.pidfs_ino.zip(other.pidfs_ino);
        self.pid == other.pid && inodes.map_or(self.start_ticks == other.start_ticks, |(a, b)| a == b)
    }
}

fn strict_pid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let pid = u32::deserialize(deserializer)?;
    if (1..=PID_MAX).contains(&pid) { Ok(pid) } else { Err(D::Error::custom("pid out of range")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_are_read_strictly() {
        for pid in ["0", "-1", "4194305", "4294967297", "\"5\"", "5.0", "null", "99999999999999999999"] {
            let text = format!("{{\"pid\":{pid},\"start_ticks\":1}}");
            assert!(serde_json::from_str::<ProcessIdentity>(&text).is_err(), "{pid}");
        }
        assert!(serde_json::from_str::<ProcessIdentity>("{\"pid\":4194304,\"start_ticks\":1}").is_ok());
    }
}
