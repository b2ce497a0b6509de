//! Every command in the README, run or parsed as its reader would use it:
//! `cron` blocks as cron does, `console` blocks against what they really print,
//! `sh` blocks as a script, and the lines beside flock's.

use crate::help::{Help, exit_codes};
use crate::support::{Done, Tool, needs, run};
use crate::{read, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::Command;

/// A fenced block: what it is, its text, whether it may only be parsed.
#[derive(Debug)]
struct Block {
    kind: String,
    text: String,
    parsed_only: bool,
}

fn blocks() -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut before = "";
    let text: String = crate::written().iter().map(read).collect::<Vec<_>>().join("\n");
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let parsed_only = before == "<!-- parsed only -->";
            blocks.push(Block { kind: kind.to_owned(), text: text.join("\n"), parsed_only });
        }
        before = line;
    }
    assert!(blocks.len() >= 5, "{blocks:?}");
    blocks
}

/// A place with our programs, the scripts, an agent, and the library where the README says it is.
struct Bench {
    tool: Tool,
    path: String,
}

impl Bench {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let tool = Tool::new();
        let job = tool.path("bin/nightly-report");
        std::fs::create_dir(tool.path("bin")).expect("bin");
        // It lives until the end of its input, and leaves a sign that it works.
        std::fs::write(&job, "#!/bin/sh\necho working\n[ -t 0 ] || read -r end\nexit 0\n").expect("job");
        std::fs::set_permissions(&job, PermissionsExt::from_mode(0o755)).expect("mode");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!(
            "{}:{}:{}:{path}",
            tool.path("bin").display(),
            crate::support::bin_dir().display(),
            root().join("scripts").display()
        );
        Self { tool, path }
    }

    /// A script of this text; paths of an installation lead to the source tree.
    fn bash(&self, text: &str) -> Done {
        let library = root().join("scripts/orion.bash").display().to_string();
        let mut command = self.tool.script(&text.replace("/usr/local/share/orion/orion.bash", &library));
        command.env("PATH", &self.path).current_dir(self.tool.path(""));
        run(&mut command)
    }
}

#[test]
fn cron_lines_run() {
    for block in blocks().iter().filter(|block| block.kind == "cron") {
        for line in block.text.lines().filter(|line| !line.starts_with("PATH=")) {
            let mut rest = line;
            for _ in 0..5 {
                rest = rest.trim_start().split_once(' ').expect("five fields").1;
            }
            assert!(!rest.contains('%'), "cron reads % as a newline: {line}");
            let bench = Bench::new();
            let command = rest.trim_start();
            let done = bench.bash(&format!("/bin/sh -c '{command}'")).expect(0).silent();
            assert_eq!(done.stdout, "working\n", "{line}");
            let mut holder = bench.tool.hold("sync");
            assert_eq!(bench.bash(&format!("/bin/sh -c '{command}'")).expect(75).silent().stdout, "");
            holder.end();
        }
    }
}

/// Digits, and durations made of them, as one: `pid 812` is `pid 0`, `14m` is `0`.
fn alike(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_ascii_digit() {
            out.push(c);
            continue;
        }
        while chars.peek().is_some_and(char::is_ascii_digit) {
            chars.next();
        }
        out.push('0');
        // A unit belongs to the number: 48ms, 1h30m.
        while chars.peek().is_some_and(|c| "dhms".contains(*c)) {
            chars.next();
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ").replace("00", "0")
}

#[test]
fn console_blocks_print_what_they_show() {
    for block in blocks().iter().filter(|block| block.kind == "console") {
        // Commands with the lines shown under them.
        let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in block.text.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => steps.push((command, Vec::new())),
                None => steps.last_mut().expect("a command first").1.push(line),
            }
        }
        let mut text = String::from("exec 2>&1\nmkfifo hold; exec 7<>hold\nlast=0\n");
        for (command, _) in &steps {
            let _ = writeln!(text, "printf '\\036'");
            match command.strip_suffix('&') {
                // The agent reads from a pipe that stays open, and its own word is not the reader's terminal.
                Some(command) => {
                    let _ = writeln!(
                        text,
                        "{command} <&7 >/dev/null &\njob=$!\nuntil [ -e state ] && ! orion-lock status -q sync >/dev/null; do :; done"
                    );
                }
                None => {
                    let _ = writeln!(text, "(exit $last)\n{command}\nlast=$?");
                }
            }
        }
        text.push_str("printf '\\036'\nkill \"$job\"\nwait\n");
        let bench = Bench::new();
        let done = bench.bash(&text);
        let said: Vec<&str> = done.stdout.split('\u{1e}').collect();
        assert_eq!(said.len(), steps.len() + 2, "{done:?}");
        for ((command, shown), said) in steps.iter().zip(&said[1..]) {
            let mut said = said.lines();
            for line in shown {
                if *line == "..." {
                    said.by_ref().for_each(drop);
                    break;
                }
                let real = said.next().unwrap_or_default();
                assert_eq!(alike(real), alike(line), "$ {command}\nreally: {real}\nshown:  {line}\n{done:?}");
            }
            assert_eq!(said.next(), None, "$ {command} prints more than is shown");
        }
    }
}

#[test]
fn scripts_in_the_readme_run() {
    for block in blocks().iter().filter(|block| block.kind == "sh") {
        if block.parsed_only {
            run(Command::new("bash").args(["-n", "-c", &block.text])).expect(0).silent();
            for line in block.text.lines() {
                let program = line.split(' ').next().expect("a word");
                let program = if program == "env" { "orion-lock" } else { program };
                let script = ["", "scripts"].iter().any(|dir| root().join(dir).join(program).is_file());
                // What comes with the shell and with PostgreSQL.
                let theirs = ["echo", "createdb", "createuser"].contains(&program);
                let ours = theirs || script || crate::tools().iter().any(|tool| tool == program);
                assert!(ours, "{program} is not in the tree");
            }
            continue;
        }
        let bench = Bench::new();
        bench.bash(&block.text).expect(0).silent();
        // With the lock held, none of them goes on.
        let mut holder = bench.tool.hold("sync");
        for line in
            block.text.lines().filter(|line| line.contains("orion-precheck") || line.contains("orion-gate"))
        {
            assert_ne!(bench.bash(line).code, 0, "{line}");
        }
        if block.text.contains("orion_guard") {
            bench.bash(&block.text).expect(75);
        }
        holder.end();
    }
}

/// Rows of a table, cells trimmed and `\|` read as `|`.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let text: String = crate::written().iter().map(read).collect::<Vec<_>>().join("\n");
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let line = line.replace("\\|", "\u{1}");
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|")).collect()
        })
        .collect()
}

#[test]
fn the_lines_beside_flocks_do_the_same_job() {
    let rows = rows("| with flock");
    assert_eq!(rows.len(), 5);
    if !needs("flock") {
        return;
    }
    for row in &rows {
        let (theirs, ours) = (&row[0], &row[1]);
        // A job after the line, where the line guards what follows it.
        let job = if theirs.ends_with(" nightly-report") { "" } else { "\nnightly-report\n" };
        let bench = Bench::new();
        let lock = bench.tool.path("sync.lock").display().to_string();
        let theirs = format!("{}{job}", theirs.replace("/tmp/sync.lock", &lock));
        let ours = format!("{ours}{job}");
        let free = (
            self_calling(&bench, "a", &theirs).expect(0),
            self_calling(&bench, "b", &ours).expect(0).silent(),
        );
        assert_eq!((free.0.stdout.as_str(), free.1.stdout.as_str()), ("working\n", "working\n"), "{row:?}");
        // Held: the job does not run. What waits is not waited for.
        if !ours.contains(" -w ") {
            let mut holder = bench.tool.hold("sync");
            let done = self_calling(&bench, "b", &ours);
            assert_eq!(done.stdout, "", "{row:?}");
            assert_eq!(done.code, if ours.contains("-E 0") { 0 } else { 75 }, "{row:?}");
            holder.end();
        }
    }
}

/// A script file of that name, executable, for lines that call themselves.
fn self_calling(bench: &Bench, name: &str, text: &str) -> Done {
    use std::os::unix::fs::PermissionsExt;
    let library = root().join("scripts/orion.bash").display().to_string();
    let text = text.replace("/usr/local/share/orion/orion.bash", &library);
    let fresh = bench.tool.path(&format!("{name}.new"));
    std::fs::write(&fresh, format!("#!/bin/bash\n{text}")).expect("script");
    std::fs::set_permissions(&fresh, PermissionsExt::from_mode(0o755)).expect("mode");
    let path = bench.tool.path(name);
    std::fs::rename(&fresh, &path).expect("rename");
    let mut command = bench.tool.command(&path);
    command.env("PATH", &bench.path).env_remove("FLOCKER").current_dir(bench.tool.path(""));
    run(&mut command)
}

#[test]
fn the_table_of_exit_codes_is_that_of_the_help() {
    let rows: Vec<(String, String, String)> = rows("| code | name")
        .into_iter()
        .map(|mut row| (row.remove(0), row.remove(0), row.remove(0)))
        .collect();
    let help: Vec<_> =
        exit_codes().into_iter().map(|(code, name, meaning)| (code.to_string(), name, meaning)).collect();
    assert_eq!(rows, help);
}

#[test]
fn every_program_subcommand_and_option_that_is_named_exists() {
    let mut known: BTreeMap<String, Help> = BTreeMap::new();
    for tool in crate::tools() {
        let help = Help::of(&tool);
        known.insert(tool, help);
    }
    let others = ["CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "scripts/examples/orca-recipe.md"];
    for file in crate::written().into_iter().chain(others.map(str::to_owned)) {
        let text = read(&file);
        for code in text.split('`').skip(1).step_by(2).chain(text.lines()) {
            for part in code.split([';', '|', '&']) {
                let words: Vec<&str> = part.split_whitespace().collect();
                let Some(at) = words.iter().position(|word| known.contains_key(*word)) else { continue };
                // In running text a program's name may be followed by any word.
                if !words[..at].iter().all(|word| {
                    word.contains('*') || word.contains('/') || word.contains('=') || *word == "exec"
                }) {
                    continue;
                }
                let help = &known[words[at]];
                for option in words[at + 1..].iter().filter(|word| word.starts_with("--") && word.len() > 2) {
                    let option =
                        option.split('=').next().unwrap_or_default().trim_end_matches([',', '.', ')']);
                    let agents = option == "--task";
                    assert!(agents || help.all().contains(option), "{file}: {part}: {option}");
                }
            }
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    for file in crate::written().into_iter().chain(others.map(str::to_owned)) {
        let text = read(&file);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let beside = root().join(&file).parent().expect("a folder").join(link);
            assert!(link.starts_with("https://") || beside.exists(), "{file}: {link}");
        }
        for path in text.split('`').skip(1).step_by(2).filter(|code| {
            code.starts_with("scripts/") || code.starts_with("src/") || code.starts_with("tests/")
        }) {
            let path = path.split(' ').next().unwrap_or_default();
            assert!(root().join(path).exists(), "{file}: {path}");
        }
    }
}

#[test]
fn the_table_of_costs_is_what_the_bench_printed() {
    let costs = read("docs/costs.md");
    let table =
        costs.split("<!-- bench -->").nth(1).and_then(|rest| rest.split("<!-- end of bench -->").next());
    let table = table.expect("the table between its marks, for scripts/bench --readme").trim();
    let (machine, rows) = table.split_once("\n\n").expect("a line about the machine, then the table");
    assert!(
        machine.starts_with("20") && machine.contains("Linux") && machine.contains("flock from"),
        "{machine}"
    );
    // Every label is one that the bench can print, and what must be measured was.
    let mut bench = read("scripts/bench");
    for part in crate::support::names_in(&root().join("scripts/bench.d")) {
        bench.push_str(&read(format!("scripts/bench.d/{part}")));
    }
    let labels: Vec<&str> =
        rows.lines().skip(2).filter_map(|row| row.trim_start_matches("| ").split(" | ").next()).collect();
    for label in &labels {
        let fixed = label.split(|c: char| c.is_ascii_digit()).next().unwrap_or_default();
        let begin =
            fixed.trim_start_matches("peak memory, ").trim_matches('`').split('`').next().unwrap_or_default();
        assert!(
            bench.contains(begin.split(' ').next().unwrap_or_default()),
            "no row of scripts/bench: {label}"
        );
    }
    for wanted in [
        "orion-lock run NAME true`, C.UTF-8",
        "orion-lock run NAME true`, LC_ALL=C",
        "refusal by `orion-lock",
        "`orion-precheck`, free",
        "list` of 10,000",
        "peak memory, `orion-lock run`",
        "waiters",
    ] {
        assert!(labels.iter().any(|label| label.contains(wanted)), "the table lacks {wanted}");
    }
}
