//! Open network connections of processes, from `/proc/PID/fd` and `/proc/PID/net/tcp` (proc_pid_net(5)).

use crate::os::proc;
use std::collections::HashSet;
use std::fs;

/// `TCP_ESTABLISHED` in `include/net/tcp_states.h`.
const ESTABLISHED: &str = "01";

/// One end of an established connection: the socket's inode, its own address and the other end's, as the
/// kernel writes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SocketEnd {
    inode: u64,
    own: String,
    other: String,
}

/// How many established TCP connections these processes have to others; `None` where that cannot be seen.
/// What they have among themselves is not work: an agent may speak to a part of its own for ever.
///
/// A process that is gone by now has none.
pub(crate) fn established(pids: &[u32]) -> Option<usize> {
    let mut ends: HashSet<SocketEnd> = HashSet::new();
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
        for table in ["net/tcp", "net/tcp6"] {
            match proc::read_file(proc::path(*pid, table)) {
                Ok(text) => ends.extend(rows(&text).into_iter().filter(|end| sockets.contains(&end.inode))),
                // A kernel without IPv6, or the process ended.
                Err(error) if proc::is_gone(&error) => {}
                Err(_) => return None,
            }
        }
    }
    Some(to_others(&ends))
}

/// Those whose other end is not among them.
fn to_others(ends: &HashSet<SocketEnd>) -> usize {
    let pairs: HashSet<(&str, &str)> = ends.iter().map(|end| (&*end.own, &*end.other)).collect();
    ends.iter().filter(|end| !pairs.contains(&(&*end.other, &*end.own))).count()
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

/// The established sockets in one of the kernel's tables.
fn rows(table: &[u8]) -> Vec<SocketEnd> {
    let text = String::from_utf8_lossy(table);
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|fields| fields.get(3) == Some(&ESTABLISHED))
        .filter_map(|fields| {
            let (own, other) = (fields.get(1)?, fields.get(2)?);
            let inode = fields.get(9)?.parse().ok()?;
            Some(SocketEnd { inode, own: (*own).to_owned(), other: (*other).to_owned() })
        })
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
        let inodes = |table: &[u8]| rows(table).into_iter().map(|end| end.inode).collect::<Vec<u64>>();
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

    #[test]
    fn what_processes_say_among_themselves_is_not_counted() {
        let end = |inode, own: &str, other: &str| SocketEnd { inode, own: own.into(), other: other.into() };
        let (one, two) = (end(1, "0100007F:1F90", "0100007F:8235"), end(2, "0100007F:8235", "0100007F:1F90"));
        let api = end(3, "0A00000A:9C40", "01010101:01BB");
        assert_eq!(to_others(&HashSet::from([one.clone(), two, api.clone()])), 1);
        assert_eq!(to_others(&HashSet::from([one, api])), 2, "the other end is somebody else");
    }
}
