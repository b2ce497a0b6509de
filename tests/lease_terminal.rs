//! A resident in a terminal: Ctrl-C once, Ctrl-Z and fg, reading, and scripts that
//! call it. The terminal is script(1)'s; a job-control shell runs in it.

#![expect(clippy::print_stdout, clippy::disallowed_macros, reason = "said to whoever runs the tests")]

mod lease_kit;

use lease_kit::{LONG, Scene, nap};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

struct Terminal {
    child: Child,
    keys: ChildStdin,
    screen: Arc<Mutex<Vec<u8>>>,
    /// What was waited for ends here.
    seen: usize,
}

/// `None` without script(1), which only a build server must have.
fn terminal(scene: &Scene) -> Option<Terminal> {
    let mut command = Command::new("script");
    command
        .args(["-qfec", "bash --norc --noprofile -i", "/dev/null"])
        .current_dir(scene.store.parent().expect("dir"))
        .env("PS1", "")
        .env("LEASE", lease_kit::program());
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = child else {
        assert!(std::env::var_os("CI").is_none(), "script(1) is missing");
        println!("skipped: no script(1)");
        return None;
    };
    let keys = child.stdin.take().expect("keys");
    let mut output = child.stdout.take().expect("screen");
    let screen = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&screen);
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            shared.lock().expect("screen").extend_from_slice(&bytes[..count]);
        }
    });
    let mut terminal = Terminal { child, keys, screen, seen: 0 };
    // What is typed is not shown, so that only answers are on the screen.
    terminal.keys("stty -echo; PS1=; echo up$((40+2))\n");
    terminal.see("up42");
    Some(terminal)
}

impl Terminal {
    fn keys(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).expect("typed");
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().expect("screen")).into_owned()
    }

    /// Waits for this text behind what was seen before.
    fn see(&mut self, text: &str) {
        let end = Instant::now() + LONG;
        loop {
            let screen = self.text();
            if let Some(position) = screen.get(self.seen..).and_then(|rest| rest.find(text)) {
                self.seen += position + text.len();
                return;
            }
            assert!(Instant::now() < end, "no {text:?} on the screen:\n{screen}");
            nap();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn ctrl_c_reaches_the_command_once_and_its_status_is_kept() {
    let scene = Scene::new();
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal.keys("$LEASE run journal.db bash -c 'trap \"echo got it; n=1\" INT; echo ready; until [ \"$n\" ]; do sleep 0.01; done; sleep 0.3; exit 5'; echo status=$?\n");
    terminal.see("ready");
    terminal.keys("\x03");
    terminal.see("status=5");
    assert_eq!(terminal.text().matches("got it").count(), 1, "{}", terminal.text());
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn ctrl_c_ends_a_script_that_calls_us_as_it_ends_one_that_does_not() {
    let scene = Scene::new();
    let script = "for i in 1 2 3; do echo round $i; $LEASE run journal.db bash -c 'echo ready; exec sleep 1000'; done; echo survived\n";
    std::fs::write(scene.path("loop.sh"), script).expect("script");
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal.keys("bash loop.sh\n");
    terminal.see("ready");
    terminal.keys("\x03");
    lease_kit::until("the script has ended", || scene.probe().code == 0);
    terminal.keys("echo status=$?\n");
    terminal.see("status=130");
    let text = terminal.text();
    assert!(!text.contains("round 2") && !text.contains("survived"), "{text}");
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn the_command_reads_from_the_terminal() {
    let scene = Scene::new();
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal
        .keys("$LEASE run journal.db bash -c 'echo ready; read word; echo \"<$word>\"'; echo status=$?\n");
    terminal.see("ready");
    terminal.keys("hello\n");
    terminal.see("<hello>");
    terminal.see("status=0");
    // And the shell has its terminal back.
    terminal.keys("echo back$((40+2))\n");
    terminal.see("back42");
}

#[test]
fn ctrl_z_stops_it_and_fg_goes_on() {
    let scene = Scene::new();
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal
        .keys("$LEASE run journal.db bash -c 'echo ready; read word; echo \"<$word>\"'; echo status=$?\n");
    terminal.see("ready");
    terminal.keys("\x1a");
    terminal.see("Stopped");
    assert_eq!(scene.probe().code, 75, "a stopped resident keeps its role");
    terminal.keys("fg >/dev/null; echo status=$?\n");
    terminal.keys("hello\n");
    terminal.see("<hello>");
    terminal.see("status=0");
    assert_eq!(scene.probe().code, 0);
}

#[test]
fn a_resident_in_the_background_that_reads_is_stopped_until_fg() {
    let scene = Scene::new();
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal.keys("$LEASE run journal.db bash -c 'echo ready; read word; echo \"<$word>\"' &\n");
    terminal.see("ready");
    lease_kit::until("the shell knows it is stopped", || {
        terminal.keys("jobs; echo asked\n");
        terminal.see("asked");
        terminal.text().contains("Stopped")
    });
    terminal.keys("fg >/dev/null; echo status=$?\n");
    terminal.keys("hello\n");
    terminal.see("<hello>");
    terminal.see("status=0");
}

#[test]
fn closing_the_terminal_hangs_up() {
    let scene = Scene::new();
    let Some(mut terminal) = terminal(&scene) else { return };
    terminal.keys("$LEASE run journal.db bash -c 'echo ready:$$; exec sleep 1000'\n");
    terminal.see("ready:");
    lease_kit::until("its pid is there", || terminal.text()[terminal.seen..].contains('\n'));
    let text = terminal.text();
    let pid: u32 = text[terminal.seen..].lines().next().expect("line").trim().parse().expect("a pid");
    drop(terminal);
    lease_kit::until("the command is gone", || lease_kit::is_gone(pid));
    lease_kit::until("the role is free", || scene.probe().code == 0);
}
