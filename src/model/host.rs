//! Which machine, boot and namespaces a record comes from.

use serde::{Deserialize, Serialize};

/// Inode of the initial pid namespace (`PROC_PID_INIT_INO`, linux/proc_ns.h).
pub(crate) const INITIAL_PID_NS: u64 = 4_026_531_836;
/// Inode of the initial time namespace (`PROC_TIME_INIT_INO`).
pub(crate) const INITIAL_TIME_NS: u64 = 4_026_531_834;

/// Inode of the initial user namespace (`PROC_USER_INIT_INO`).
pub(crate) const INITIAL_USER_NS: u64 = 4_026_531_837;

/// The host part of a record, and the same facts about ourselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostIdentity {
    /// `/proc/sys/kernel/random/boot_id`, only if that file really was procfs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot_id: Option<String>,
    /// CLOCK_BOOTTIME in microseconds when it was written.
    pub(crate) boottime_us: u64,
    /// `/etc/machine-id`: 32 hex digits, not all zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine_id: Option<String>,
    /// Random, one per state directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state_id: Option<String>,
    /// Shown, never compared.
    #[serde(default)]
    pub(crate) hostname: String,
    /// Inode of the pid namespace; absent where the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid_ns: Option<u64>,
    /// Inode of the time namespace; absent where the kernel has none (before 5.6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) time_ns: Option<u64>,
}

/// Is it a machine id that tells machines apart (machine-id(5))?
pub(crate) fn real_machine_id(text: &str) -> Option<String> {
    let text = text.trim();
    let real = text.len() == 32
        && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        && text.bytes().any(|byte| byte != b'0');
    real.then(|| text.to_ascii_lowercase())
}
