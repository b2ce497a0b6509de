//! `orion-precheck --via`: a skip on a live holder only, whatever fails.

use crate::server::{Host, Postgres, needs_postgres};
use crate::support::{Done, run};
use rustix::process::Signal;
use std::time::{Duration, Instant};

fn precheck(host: &Host, url: &str, args: &[&str]) -> Done {
    let mut all = vec!["--via", url];
    all.extend(args);
    run(&mut host.tool.tool("orion-precheck", &all))
}

#[test]
fn the_precheck_skips_on_a_live_holder_and_goes_under_every_fault() {
    if !needs_postgres() {
        return;
    }
    let mut server = Postgres::start();
    let (one, two) = (Host::new(&server), Host::new(&server));
    let url = two.url.clone();
    precheck(&two, &url, &["x"]).expect(0).silent();
    let mut holder = one.hold(&[], "x");
    precheck(&one, &url, &["x"]).expect(75).one_line().says("on this machine");
    precheck(&two, &url, &["x"]).expect(75).one_line().says("x is held by pid");
    precheck(&two, &url, &["-q", "y", "x"]).expect(75).silent();
    precheck(&two, &url, &["--observe", "x"]).expect(0).says("would skip");
    precheck(&two, &url, &["10m", "x"]).expect(75);
    assert_eq!(precheck(&two, &url, &["--json", "x"]).expect(75).json()["skip"], true);
    for (bad, strict) in [
        ("postgres://job@/nothing?host=/nonexistent", 69),
        ("nowhere", 78),
        ("postgres://job:pw@h/x", 64),
        (&url.replace("job@", "nobody@"), 78),
        (&url.replace("/locks?", "/postgres?"), 78),
    ] {
        precheck(&two, bad, &["x"]).expect(0).one_line().says("not guarding");
        precheck(&two, bad, &["--strict", "x"]).expect(strict);
        // This machine's own run is known without it, where the place is the same.
    }
    server.signal_all(Signal::STOP);
    let begun = Instant::now();
    precheck(&two, &url, &["x"]).expect(0).one_line().says("not guarding");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    precheck(&one, &url, &["x"]).expect(75);
    server.signal_all(Signal::CONT);
    server.stop(Signal::INT);
    precheck(&two, &url, &["x"]).expect(0).one_line().says("not guarding");
    precheck(&one, &url, &["x"]).expect(75);
    server.start_again();
    holder.end();
    precheck(&two, &url, &["x"]).expect(0).silent();
}

#[test]
fn the_tools_refuse_a_helper_that_is_missing_or_of_another_version() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let host = Host::new(&server);
    let alone = host.tool.path("alone");
    std::fs::create_dir(&alone).unwrap();
    for tool in ["orion-lock", "orion-precheck"] {
        std::fs::copy(crate::support::bin(tool), alone.join(tool)).unwrap();
    }
    let lock =
        |url: &str| run(host.tool.command(alone.join("orion-lock")).args(["--via", url, "run", "x", "true"]));
    let check = |url: &str| run(host.tool.command(alone.join("orion-precheck")).args(["--via", url, "x"]));
    lock(&host.url).expect(78).one_line().says("orion-via");
    check(&host.url).expect(0).one_line().says("not guarding");
    let via = crate::support::bin("orion-via");
    let other = |tool: &str, rest: &[&str]| {
        run(host.tool.command(&via).args([tool, "0.0.1", "--via", &host.url]).args(rest))
    };
    other("lock", &["run", "x", "true"]).expect(78).says("version 0.0.1");
    other("precheck", &["x"]).expect(0).says("version 0.0.1").says("not guarding");
    run(&mut host.tool.command(&via)).expect(64);
}
