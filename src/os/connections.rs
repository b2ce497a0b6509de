//! Open network connections of processes, from `/proc/PID/fd` and `/proc/PID/net/tcp` (proc_pid_net(5)).

use crate::os::proc;
use std::collections::HashSet;
use std::fs;

/// `TCP_ESTABLISHED` in `include/net/tcp_states.h`.
const ESTABLISHED: &str = "01";

/// How many established TCP connections these processes have; `None` where that cannot be seen.
///
/// A process that is gone by now has none.
pub(crate) fn established(pids: &[u32]) -> Option<usize> {
    let mut open: HashSet<u64> = HashSet::new();
    let mut count = 0;
    for pid in pids {
        let sockets = match sockets(*pid) {
            Ok(sockets) => sockets,
            Err(error) if proc::is_gone(&error) => continue,
            Err(_) => return None,
        };
        if sockets.is_empty() {
            continue;
        }
        // Of the process's own network namespace.
        open.clear();
        for table in ["net/tcp", "net/tcp6"] {
            match proc::read_file(proc::path(*pid, table)) {
                Ok(text) => open.extend(inodes(&text)),
                // A kernel without IPv6, or the process ended.
                Err(error) if proc::is_gone(&error) => {}
                Err(_) => return None,
            }
        }
        count += sockets.intersection(&open).count();
    }
    Some(count)
}

fn sockets(pid: u32) -> std::io::Result<HashSet<u64>> {
    let mut found = HashSet::new();
    for entry in fs::read_dir(proc::path(pid, "fd"))? {
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let inode: Option<u64> =
            target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
        found.extend(inode);
    }
    Ok(found)
}

/// The inodes of established sockets in one of the kernel's tables.
fn inodes(table: &[u8]) -> Vec<u64> {
    let text = String::from_utf8_lossy(table);
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|fields| fields.get(3) == Some(&ESTABLISHED))
        .filter_map(|fields| fields.get(9)?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_open_connection_is_seen_and_a_listener_is_none() {
        let row = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0019 0100007F:8235 01 00000000:00000000 00:00000000 00000000     0        0 777 1 x\n\
            1: 0100007F:0019 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 778 1 x\n";
        assert_eq!(inodes(row), [777]);
        let me = [std::process::id()];
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let inode = |socket: &dyn std::os::fd::AsRawFd| {
            let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).expect("a link");
            let text = link.to_string_lossy().into_owned();
            text["socket:[".len()..text.len() - 1].parse::<u64>().expect("a number")
        };
        let client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let table = proc::read_file("/proc/self/net/tcp").expect("table");
        assert!(inodes(&table).contains(&inode(&client)) && !inodes(&table).contains(&inode(&listener)));
        assert!(sockets(me[0]).expect("ours").contains(&inode(&client)));
        assert!(established(&me).expect("can be seen") >= 1);
        assert_eq!(established(&[]), Some(0));
    }
}
