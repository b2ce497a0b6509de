//! The rows of `list-panes` and what the tags in them say.

use std::str;

/// Every row begins with it: hooks of the user may print lines of their own.
const ROW: &str = "orion2|";
/// And so does every line about a client.
const CLIENT: &str = "orion-client|";

/// Numbers and ids first; text last, each with its length, because options may hold
/// any character and a newline in one must not become a row.
pub(super) const FORMAT: &str = "orion2|#{pane_id}|#{pane_pid}|#{pid}|#{start_time}|#{pane_dead}|#{window_active}|\
#{window_activity}|#{pane_last_output_time}|#{pane_tty}|#{session_id}|#{session_last_attached}|#{pane_in_mode}|\
#{n:session_name}:#{session_name}|#{n:@orion_run}:#{@orion_run}|#{n:@orion_state}:#{@orion_state}|#{pane_title}";

/// Who looks at which session, and when they last did something.
pub(super) const CLIENTS: &str = "orion-client|#{session_id}|#{client_activity}";

/// One pane as tmux shows it. Text is kept as bytes: nothing promises UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PaneRow {
    pub(super) pane: String,
    pub(super) pane_pid: u32,
    pub(super) server_pid: u32,
    pub(super) server_start: String,
    pub(super) dead: bool,
    /// Its window is the one shown in some session.
    pub(super) shown: bool,
    /// Seconds since 1970, of the whole window.
    pub(super) window_activity: u64,
    /// Seconds since 1970, of this pane; absent before tmux 3.8.
    pub(super) last_output: Option<u64>,
    pub(super) tty: String,
    /// Every session that has its window, with its name.
    pub(super) sessions: Vec<(String, Vec<u8>)>,
    /// Seconds since 1970: when a client last came to one of them.
    pub(super) came: Option<u64>,
    /// Modes it is in, copy mode for one.
    pub(super) modes: String,
    pub(super) run: Vec<u8>,
    pub(super) state: Vec<u8>,
    pub(super) title: Vec<u8>,
}

/// What tmux said about panes and clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) rows: Vec<PaneRow>,
    /// Session and last activity of each client, seconds since 1970.
    pub(super) clients: Vec<(String, u64)>,
    /// Lines of ours that could not be read.
    pub(super) unreadable: usize,
}

/// Reads the output of one call.
pub(super) fn read(output: &[u8]) -> Said {
    let mut said = Said::default();
    let mut rest = output;
    while !rest.is_empty() {
        if rest.starts_with(CLIENT.as_bytes()) {
            match client(&rest[CLIENT.len()..]) {
                Some(client) => said.clients.push(client),
                None => said.unreadable += 1,
            }
            rest = after_line(rest);
            continue;
        }
        if !rest.starts_with(ROW.as_bytes()) {
            rest = after_line(rest);
            continue;
        }
        match row(&rest[ROW.len()..]) {
            Some((row, left)) => {
                // A pane linked into two sessions comes twice, each time with that session's shown window.
                match said.rows.iter_mut().find(|known| known.pane == row.pane) {
                    Some(known) => {
                        known.shown |= row.shown;
                        known.came = known.came.max(row.came);
                        known.sessions.extend(row.sessions);
                    }
                    None => said.rows.push(row),
                }
                rest = left;
            }
            None => {
                said.unreadable += 1;
                rest = after_line(rest);
            }
        }
    }
    said
}

fn client(line: &[u8]) -> Option<(String, u64)> {
    let line = str::from_utf8(line.split(|byte| *byte == b'\n').next()?).ok()?;
    let (session, active) = line.split_once('|')?;
    Some((session.to_owned(), active.parse().ok()?))
}

fn after_line(bytes: &[u8]) -> &[u8] {
    bytes.iter().position(|byte| *byte == b'\n').map_or(&[], |at| &bytes[at + 1..])
}

fn row(bytes: &[u8]) -> Option<(PaneRow, &[u8])> {
    let mut rest = bytes;
    let mut field = || {
        let at = rest.iter().position(|byte| matches!(byte, b'|' | b'\n')).filter(|at| rest[*at] == b'|')?;
        let text = str::from_utf8(&rest[..at]).ok()?;
        rest = &rest[at + 1..];
        Some(text)
    };
    let pane = field()?.to_owned();
    let digits = pane.strip_prefix('%')?;
    digits.parse::<u32>().ok()?;
    let row = PaneRow {
        pane_pid: field()?.parse().ok()?,
        server_pid: field()?.parse().ok()?,
        server_start: field()?.to_owned(),
        dead: field()? == "1",
        shown: field()? == "1",
        window_activity: field()?.parse().ok()?,
        last_output: field().map(|text| text.parse().ok())?,
        tty: field()?.to_owned(),
        pane,
        ..PaneRow::default()
    };
    let session = field()?.to_owned();
    let came = field()?;
    let came = if came.is_empty() { None } else { Some(came.parse().ok()?) };
    let modes = field()?.to_owned();
    let (name, rest) = counted(rest)?;
    let (run, rest) = counted(rest)?;
    let (state, rest) = counted(rest)?;
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let sessions = vec![(session, name.to_vec())];
    let row = PaneRow {
        sessions,
        came,
        modes,
        run: run.to_vec(),
        state: state.to_vec(),
        title: rest[..end].to_vec(),
        ..row
    };
    Some((row, after_line(&rest[end..])))
}

/// `5:hello|`
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    let length: usize = str::from_utf8(&bytes[..colon]).ok()?.parse().ok()?;
    let text = bytes.get(colon + 1..)?;
    let end = text.get(length)?;
    (*end == b'|').then(|| (&text[..length], &text[length + 1..]))
}

/// Whose pane it is, as `@orion_run` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) automation: String,
    pub(super) pane: String,
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
}

/// Reads `AUTOMATION PANE_ID PANE_PID START_TICKS`; the name may hold blanks, so from the end.
pub(super) fn tag(bytes: &[u8]) -> Option<Tag> {
    let text = str::from_utf8(bytes).ok()?;
    let mut words = text.rsplitn(4, ' ');
    let start_ticks = words.next()?.parse().ok()?;
    let pid = words.next()?.parse().ok()?;
    let pane = words.next()?.to_owned();
    let automation = words.next().filter(|name| !name.is_empty())?.to_owned();
    Some(Tag { automation, pane, pid, start_ticks })
}

/// Text inside a comparison of a tmux format.
pub(super) fn literal(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if matches!(byte, b'#' | b',' | b'}') {
            out.push(b'#');
        }
        out.push(*byte);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(pane: &str, run: &str, state: &str) -> String {
        format!(
            "orion2|{pane}|71|70|1700000000|0|1|1700000009||/dev/pts/3|$1||0|4:a|b!|{}:{run}|{}:{state}|a title | here\n",
            run.len(),
            state.len()
        )
    }

    #[test]
    fn rows_survive_whatever_a_tag_holds() {
        let nasty = "a|b\norion2|%9|1|1|1|0|0|1||x|$1||0|0:|0:|0:|t\n$(x) #{pid} é";
        let text = format!("hello from a hook\n{}{}", line("%1", nasty, "idle 5"), line("%2", "", ""));
        let Said { rows, unreadable, .. } = read(text.as_bytes());
        assert_eq!((rows.len(), unreadable), (2, 0));
        assert_eq!(rows[0].run, nasty.as_bytes());
        assert_eq!(
            (rows[0].pane_pid, rows[0].window_activity, rows[0].last_output),
            (71, 1_700_000_009, None)
        );
        assert_eq!(rows[0].title, b"a title | here");
        assert_eq!(rows[0].sessions, [("$1".to_owned(), b"a|b!".to_vec())]);
        assert_eq!(rows[1].pane, "%2");
    }

    #[test]
    fn a_bad_row_is_counted_and_the_next_one_read() {
        let text = format!("orion2|%1|x|70|\n{}orion2|%3|71", line("%2", "n %2 71 5", ""));
        let Said { rows, unreadable, .. } = read(text.as_bytes());
        assert_eq!((rows.len(), unreadable), (1, 2));
    }

    #[test]
    fn clients_are_told_from_panes() {
        let text = format!("orion-client|$1|1700000001\n{}orion-client|$2|x\n", line("%1", "", ""));
        let said = read(text.as_bytes());
        assert_eq!((said.rows.len(), said.unreadable), (1, 1));
        assert_eq!(said.clients, [("$1".to_owned(), 1_700_000_001)]);
        assert!(read(b"access not allowed\n").rows.is_empty());
    }

    #[test]
    fn a_pane_linked_twice_is_one_pane() {
        let first = line("%1", "", "");
        let second = first.replace("|0|1|", "|0|0|");
        let rows = read(format!("{second}{first}").as_bytes()).rows;
        assert_eq!(rows.len(), 1);
        assert!(rows[0].shown, "shown in one of them");
    }

    #[test]
    fn a_tag_names_its_bearer_from_the_end() {
        let tag = tag(b"my nightly run %12 812 4711").expect("a tag");
        assert_eq!((tag.automation.as_str(), tag.pane.as_str()), ("my nightly run", "%12"));
        assert_eq!((tag.pid, tag.start_ticks), (812, 4711));
        for bad in [&b""[..], b"nightly", b" %1 2 3", b"n %1 x 3", b"n %1 2", b"\xff %1 2 3", b"n %1 2 -3"] {
            assert_eq!(super::tag(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn no_output_crashes_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let found = read(&[b"orion2|%1|".as_slice(), &bytes].concat());
            prop_assert!(found.rows.len() < 100);
        }
    }
}
