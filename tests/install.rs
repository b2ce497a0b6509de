//! `scripts/install`, the Debian metadata and the demo: what people get.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Tool, bin_dir, names_in, run};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Programs, by `src/bin`.
fn tools() -> Vec<String> {
    names_in(&root().join("src/bin"))
        .into_iter()
        .filter_map(|file| Some(file.strip_suffix(".rs")?.to_owned()))
        // Called by other programs only: it has no page and no completions of its own.
        .filter(|tool| tool != "orion-via")
        .collect()
}

fn install(tool: &Tool, variables: &[(&str, &Path)]) -> support::Done {
    let mut command = tool.command(root().join("scripts/install"));
    command.env("BIN", bin_dir()).env_remove("PREFIX").env_remove("DESTDIR");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    run(&mut command)
}

#[test]
fn an_image_has_everything_where_the_system_looks_for_it() {
    let tool = Tool::new();
    let image = tool.path("image");
    install(&tool, &[("DESTDIR", &image), ("PREFIX", Path::new("/usr"))]).expect(0).silent();
    assert_eq!(names_in(&image), ["usr"], "nothing outside the prefix");
    let usr = image.join("usr");
    for tool in tools() {
        for file in [
            format!("bin/{tool}"),
            format!("share/man/man1/{tool}.1"),
            format!("share/bash-completion/completions/{tool}"),
            format!("share/zsh/site-functions/_{tool}"),
            format!("share/fish/vendor_completions.d/{tool}.fish"),
        ] {
            assert!(usr.join(&file).is_file(), "{file}");
        }
    }
    for file in [
        "bin/orion-gate",
        "bin/orion-via",
        "share/man/man7/orion-via.7",
        "share/man/man1/orion-gate.1",
        "share/man/man7/orion.7",
        "share/orion/orion.bash",
        "share/doc/orion-toolkit/LICENSE-MIT",
        "share/doc/orion-toolkit/examples/crontab",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
    let gate = run(Command::new(usr.join("bin/orion-gate")).arg("--help")).expect(0);
    assert!(gate.stdout.contains("--skip-code"));
    let crontab = read(usr.join("share/doc/orion-toolkit/examples/crontab"));
    assert!(crontab.contains("PATH=/usr/bin:") && !crontab.contains("/usr/local"), "{crontab}");
}

#[test]
fn nothing_is_ever_removed_by_age() {
    let lines = read(root().join("scripts/tmpfiles/orion.conf"));
    let entries: Vec<Vec<&str>> = lines
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert!(!entries.is_empty());
    for entry in entries {
        assert_eq!((entry[0], entry.get(5)), ("d", Some(&"-")), "tmpfiles.d(5): type and age of {entry:?}");
    }
}

#[test]
fn what_is_installed_works_from_a_bare_environment() {
    let tool = Tool::new();
    let prefix = tool.path("prefix");
    install(&tool, &[("PREFIX", &prefix)]).expect(0).silent().prints("try:");
    let bare = |program: &Path| {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/").env("ORION_DIR", tool.dir());
        command
    };
    run(bare(&prefix.join("bin/orion-lock")).args(["run", "hello", "echo", "hello"]))
        .expect(0)
        .prints("hello");
    run(bare(&prefix.join("bin/orion-gate")).arg("hello")).expect(0).silent();
    // The library finds the programs beside it, which this PATH does not have.
    let script = tool.path("fire");
    let library = prefix.join("share/orion/orion.bash");
    std::fs::write(&script, format!(". '{}'\norion_guard hello\necho guarded\n", library.display()))
        .expect("script");
    run(bare(Path::new("bash")).arg(&script)).expect(0).silent().prints("guarded");
    // An installed example knows where it was installed.
    let example = prefix.join("share/doc/orion-toolkit/examples/agent-fire");
    assert!(read(&example).contains(&library.display().to_string()));
    // Again over itself: the same.
    install(&tool, &[("PREFIX", &prefix)]).expect(0);
}

#[test]
fn a_relative_prefix_and_unknown_arguments_are_refused() {
    let tool = Tool::new();
    install(&tool, &[("PREFIX", Path::new("here"))]).expect(64).one_line().says("absolute");
    let done = run(Command::new(root().join("scripts/install")).arg("--prefix")).expect(64);
    assert!(done.stdout.contains("PREFIX=~/.local scripts/install"), "{done:?}");
}

#[test]
fn the_debian_package_has_every_program() {
    let manifest = read(root().join("Cargo.toml"));
    for tool in tools() {
        for asset in [
            format!("[\"target/release/{tool}\", \"usr/bin/\", \"755\"]"),
            format!(
                "[\"completions/{tool}.bash\", \"usr/share/bash-completion/completions/{tool}\", \"644\"]"
            ),
        ] {
            assert!(manifest.contains(&asset), "Cargo.toml, package.metadata.deb.assets: {asset}");
        }
    }
    for asset in [
        "man/*.1",
        "man/*.7",
        "completions/_orion-*",
        "completions/*.fish",
        "scripts/orion-*",
        "scripts/tmpfiles/orion.conf",
    ] {
        assert!(manifest.contains(&format!("[\"{asset}\"")), "{asset}");
    }
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).expect("a version");
    let changelog = read(root().join("packaging/debian/changelog"));
    assert!(changelog.starts_with(&format!("orion-toolkit ({}-", version.trim_matches('"'))), "{version}");
}

#[test]
fn without_http_there_is_no_tls() {
    let tree = |more: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root()).args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ]);
        run(command.args(more)).expect(0).stdout
    };
    assert!(tree(&[]).contains("rustls"), "with HTTP there is TLS");
    let without = tree(&["--no-default-features"]);
    assert!(!without.contains("rustls") && !without.contains("ureq"), "{without}");
}

#[test]
fn the_demo_plays_to_its_end_from_a_bare_environment() {
    let tool = Tool::new();
    let mut command = Command::new(root().join("scripts/demo"));
    command.arg("--bin").arg(bin_dir()).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", tool.path(""));
    command.env("TMPDIR", tool.path(""));
    let done = run(&mut command).expect(0).silent();
    assert!(done.stdout.ends_with("# All of it went as it should.\n"), "{}", done.stdout);
    assert!(done.stdout.contains("$ orion-lock run sync agent --task sync &"), "as a person types it");
    let left = names_in(&tool.path(""));
    assert!(left.is_empty(), "the demo left {left:?}");
}

#[test]
fn a_command_that_hangs_fails_its_test_instead_of_hanging_it() {
    let most = Duration::from_millis(200);
    let hangs =
        std::panic::catch_unwind(|| support::bounded::output(Command::new("sleep").arg("1000"), most));
    let why = hangs.expect_err("it was bounded");
    let why = why.downcast_ref::<String>().expect("a message");
    assert!(why.contains("sleep") && why.contains("did not end in 200ms"), "{why}");
}
