//! Who is at the other end, who may come in, and what stands between.

use crate::server::{Host, Postgres, as_postgres, needs_postgres};
use crate::support::{Done, Running, Tool, eventually, needs, run};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An authority and a certificate for `name`, valid from now on for `days`.
fn certificate(dir: &Path, tag: &str, name: &str, days: &str) -> (PathBuf, PathBuf, PathBuf) {
    let file = |what: &str| dir.join(format!("{tag}-{what}"));
    let openssl = |args: &[&str]| run(Command::new("openssl").args(args).current_dir(dir)).expect(0);
    let (ca, ca_key, cert, key) = (file("ca.crt"), file("ca.key"), file("server.crt"), file("server.key"));
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    let subject = ["-subj", "/CN=orion test authority"];
    let (ca_text, ca_key_text, cert_text, key_text) = (text(&ca), text(&ca_key), text(&cert), text(&key));
    let mut args = vec!["req", "-x509", "-days", "3"];
    args.extend(curve);
    args.extend(subject);
    args.extend(["-keyout", &ca_key_text, "-out", &ca_text]);
    openssl(&args);
    let request = text(&file("request"));
    let cn = format!("/CN={name}");
    let mut args = vec!["req", "-new"];
    args.extend(curve);
    args.extend(["-subj", &cn, "-keyout", &key_text, "-out", &request]);
    openssl(&args);
    let names = file("names");
    std::fs::write(&names, format!("subjectAltName=DNS:{name}")).unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        &request,
        "-CA",
        &ca_text,
        "-CAkey",
        &ca_key_text,
        "-CAcreateserial",
        "-days",
        days,
        "-extfile",
        &text(&names),
        "-out",
        &cert_text,
    ]);
    (ca, cert, key)
}

/// The locks over TCP with a password, asked for in a certain way.
fn over_tcp(server: &Postgres, hba: &str) {
    let path = server.data().join("pg_hba.conf");
    std::fs::write(path, format!("local all all trust\n{hba}\n")).unwrap();
    server.sql("select pg_reload_conf()");
}

/// `run x true` with a password file.
fn run_with(tool: &Tool, url: &str, password: &str) -> Done {
    let pass = tool.path("pass");
    std::fs::write(&pass, format!("*:*:locks:job:{password}\n")).unwrap();
    run(Command::new("chmod").arg("600").arg(&pass)).expect(0);
    run(tool.tool("orion-lock", &["--via", url, "run", "x", "true"]).env("PGPASSFILE", &pass))
}

#[test]
fn a_server_that_is_not_proved_to_be_the_right_one_gets_no_lock_and_no_password() {
    if !needs_postgres() || !needs("openssl") {
        return;
    }
    let mut server = Postgres::start();
    let tool = Tool::new();
    server.sql("alter role job password 's3cret'");
    let certs = tool.path("certs");
    std::fs::create_dir(&certs).unwrap();
    let (ca, cert, key) = certificate(&certs, "good", "localhost", "3");
    let (other_ca, ..) = certificate(&certs, "other", "localhost", "3");
    let port = server.port;
    let url = |ca: &Path, host: &str| {
        format!("postgres://job@{host}:{port}/locks?sslmode=verify-full&sslrootcert={}", ca.display())
    };
    // No TLS there: an attacker may have said so.
    run_with(&tool, &url(&ca, "localhost"), "s3cret").expect(78).one_line().says("offers no TLS");
    let install = |server: &mut Postgres, cert: &Path, key: &Path| {
        for (from, to) in [(cert, "server.crt"), (key, "server.key")] {
            let to = server.data().join(to);
            std::fs::copy(from, &to).unwrap();
            run(Command::new("chmod").arg("600").arg(&to)).expect(0);
            let owner = Command::new("stat").args(["-c", "%U"]).arg(server.data()).output().unwrap().stdout;
            let owner = String::from_utf8(owner).unwrap();
            run(Command::new("chown").arg(owner.trim()).arg(&to)).expect(0);
        }
        server.sql("alter system set ssl = on");
        server.stop(Signal::INT);
        server.start_again();
    };
    install(&mut server, &cert, &key);
    over_tcp(&server, "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256");
    run_with(&tool, &url(&ca, "localhost"), "s3cret").expect(0).silent();
    run_with(&tool, &url(&ca, "localhost"), "wrong")
        .expect(78)
        .one_line()
        .says("password authentication failed");
    run_with(&tool, &url(&other_ca, "localhost"), "s3cret").expect(78).says("no known authority");
    run_with(&tool, &url(&ca, "127.0.0.1"), "s3cret").expect(78).says("another name");
    let plain = format!("postgres://job@127.0.0.1:{port}/locks");
    run_with(&tool, &plain, "s3cret").expect(78).says("pg_hba.conf");
    let (late_ca, late, late_key) = certificate(&certs, "late", "localhost", "-1");
    install(&mut server, &late, &late_key);
    run_with(&tool, &url(&late_ca, "localhost"), "s3cret").expect(78).says("expired");
}

#[test]
fn a_password_is_given_to_scram_only_and_from_a_private_file_only() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let tool = Tool::new();
    let url = format!("postgres://job@127.0.0.1:{}/locks", server.port);
    server.sql("alter role job password 's3cret'");
    over_tcp(&server, "host all all 127.0.0.1/32 scram-sha-256");
    run_with(&tool, &url, "s3cret").expect(0).silent();
    run(&mut tool.tool("orion-lock", &["--via", &url, "run", "x", "true"]))
        .expect(78)
        .says("asks for a password");
    let pass = tool.path("pass");
    run(Command::new("chmod").arg("644").arg(&pass)).expect(0);
    let done = run(tool.tool("orion-lock", &["--via", &url, "run", "x", "true"]).env("PGPASSFILE", &pass));
    done.expect(78).one_line().says("others can read it");
    let service = tool.path("service");
    let text =
        format!("[prod]\nhost=127.0.0.1\nport={}\nuser=job\ndbname=locks\npassword=s3cret\n", server.port);
    std::fs::write(&service, text).unwrap();
    let by_service = ["--via", "postgres:///?service=prod", "run", "x", "true"];
    run(tool.tool("orion-lock", &by_service).env("PGSERVICEFILE", &service))
        .expect(78)
        .says("others can read it");
    run(Command::new("chmod").arg("600").arg(&service)).expect(0);
    run(tool.tool("orion-lock", &by_service).env("PGSERVICEFILE", &service)).expect(0).silent();
    for (hba, words) in [("md5", "md5"), ("password", "the password itself")] {
        if hba == "md5" {
            server.sql("set password_encryption = 'md5'; alter role job password 's3cret'");
        }
        over_tcp(&server, &format!("host all all 127.0.0.1/32 {hba}"));
        let done = run_with(&tool, &url, "s3cret").expect(78).one_line();
        assert!(done.stderr.contains(words), "{}", done.stderr);
        assert!(!done.stderr.contains("s3cret"), "{}", done.stderr);
    }
    assert!(
        !server.log().contains("s3cret") || server.log().contains("alter role"),
        "no secret in the server's log"
    );
}

#[test]
fn a_role_with_execute_only_can_do_all_of_it_and_nothing_else() {
    if !needs_postgres() {
        return;
    }
    let server = Postgres::start();
    let host = Host::new(&server);
    let mut holder = host.hold(&[], "x");
    host.lock(&["status", "x"]).expect(75);
    host.lock(&["doctor"]).expect(0).prints("a second session is refused");
    holder.end();
    for text in [
        "select * from orion.lock",
        "update orion.lock set token = 1",
        "delete from orion.event",
        "select orion.say_('lock', 'x', 1, 'x', null)",
        "select orion.young_()",
        "create table orion.mine(x int)",
    ] {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-U", "job", "-d", "locks", "-p", &server.port.to_string(), "-h"])
            .arg(server.dir());
        let done = run(psql.args(["-c", text]));
        assert!(done.code != 0 && done.stderr.contains("permission denied"), "{text}: {done:?}");
    }
    // A role without the right, and a database without the schema.
    server.sql("create role other login; create database empty");
    let url = host.url.replace("job@", "other@");
    host.tool
        .lock(&["--via", &url, "run", "x", "true"])
        .expect(78)
        .says("may not use the locks")
        .says("--grant");
    let url = host.url.replace("/locks?", "/empty?");
    host.tool.lock(&["--via", &url, "run", "x", "true"]).expect(78).says("init");
    // Typed again it changes nothing that is held.
    let mut holder = host.hold(&[], "x");
    host.tool.lock(&["--via", &server.url("postgres"), "init", "--grant", "other"]).expect(0).silent();
    host.lock(&["run", "x", "true"]).expect(75);
    holder.end();
    let print = ["--via", &server.url("postgres"), "init", "--print", "--grant", "job"];
    host.tool.lock(&print).expect(0).prints("grant usage on schema orion to \"job\"");
}

/// A pgbouncer before a server, in a mode.
struct Pooler {
    child: std::process::Child,
    port: u16,
}

impl Pooler {
    fn start(tool: &Tool, server: &Postgres, mode: &str) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = tool.path(&format!("pooler-{mode}"));
        std::fs::create_dir(&dir).unwrap();
        let config = dir.join("pgbouncer.ini");
        let text = format!(
            "[databases]\nlocks = host={} port={} dbname=locks user=job\n[pgbouncer]\nlisten_addr=127.0.0.1\n\
             listen_port={port}\nunix_socket_dir=\nauth_type=any\npool_mode={mode}\ndefault_pool_size=20\n\
             ignore_startup_parameters=extra_float_digits\n",
            server.dir().display(),
            server.port
        );
        std::fs::write(&config, text).unwrap();
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(tool.path(""))).expect(0);
        let mut command = as_postgres("pgbouncer");
        command.arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("the pooler listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { child, port }
    }

    fn url(&self, more: &str) -> String {
        format!("postgres://job@127.0.0.1:{}/locks{more}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn every_pooler_is_refused_and_one_in_session_mode_can_be_allowed() {
    if !needs_postgres() || !needs("pgbouncer") {
        return;
    }
    let server = Postgres::start();
    let tool = Tool::new();
    for mode in ["session", "transaction", "statement"] {
        let pooler = Pooler::start(&tool, &server, mode);
        let args = ["--via", &pooler.url(""), "run", "x", "true"];
        let done = tool.lock(&args).expect(78).one_line();
        assert!(mode == "statement" || done.stderr.contains("pooler"), "{}", done.stderr);
        if mode == "session" {
            let url = pooler.url("?pooler=session");
            let mut holder = Running::start(
                &mut tool.tool("orion-lock", &["--via", &url, "run", "x", "sh", "-c", "echo up; read x"]),
            );
            Host::new(&server).lock(&["run", "x", "true"]).expect(75);
            holder.end();
        }
    }
}
