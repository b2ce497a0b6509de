//! A small tracker of our own: enough of GitHub, GitLab, Gitea and Jira for claims, with every
//! fault that real ones have on a switch. Plain HTTP/1.1 on loopback, a thread per
//! connection.
#![allow(dead_code, reason = "every test program uses another part of it")]

#[path = "tracker_server/fault.rs"]
mod fault;
#[path = "tracker_server/gitea.rs"]
mod gitea;
#[path = "tracker_server/github.rs"]
mod github;
#[path = "tracker_server/gitlab.rs"]
mod gitlab;
#[path = "tracker_server/jira.rs"]
mod jira;
#[path = "tracker_server/world.rs"]
mod world;

pub(crate) use fault::{Fault, Kind};
pub(crate) use world::World;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With its query, as sent.
    pub(crate) path: String,
    /// The authorization header, or nothing.
    pub(crate) authorization: String,
    pub(crate) body: String,
    host: String,
}

impl Request {
    /// `http://HOST:PORT` as the caller wrote it.
    fn host(&self) -> String {
        format!("http://{}", self.host)
    }
}

/// An answer in the making.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        Self { status, headers: Vec::new(), body: body.to_string() }
    }

    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: String::new() }
    }
}

struct Shared {
    world: Mutex<World>,
    stop: AtomicBool,
}

/// The server; it ends when this is dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    shared: Arc<Shared>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("address");
        let shared = Arc::new(Shared { world: Mutex::new(World::default()), stop: AtomicBool::new(false) });
        let for_accept = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if for_accept.stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&for_accept);
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { url: format!("http://{address}"), shared, accepting: Some(accepting) }
    }

    /// The tickets and what the server remembers, to look at and to change.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        lock(&self.shared.world)
    }

    /// Switches a fault on.
    pub(crate) fn fault(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Requests so far whose `METHOD path` holds `text`.
    pub(crate) fn count(&self, text: &str) -> usize {
        self.world().seen.iter().filter(|one| format!("{} {}", one.method, one.path).contains(text)).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the accept.
        drop(TcpStream::connect(self.url.trim_start_matches("http://")));
        if let Some(accepting) = self.accepting.take() {
            drop(accepting.join());
        }
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared, stream: TcpStream) {
    drop(stream.set_read_timeout(Some(Duration::from_secs(30))));
    drop(stream.set_nodelay(true));
    let Ok(mut out) = stream.try_clone() else { return };
    let mut input = BufReader::new(stream);
    while !shared.stop.load(Ordering::SeqCst) {
        let Some(request) = read_request(&mut input) else { return };
        lock(&shared.world).seen.push(request.clone());
        let kind = lock(&shared.world).fault_for(&request);
        if !answer(shared, &request, kind, &mut out) {
            return;
        }
    }
}

/// Answers one request, with its fault; false when the connection is over.
fn answer(shared: &Shared, request: &Request, kind: Option<Kind>, out: &mut TcpStream) -> bool {
    let apply = || route(shared, request);
    let refused = lock(&shared.world).accepts.clone();
    if refused.is_some_and(|accepted| !request.authorization.contains(&accepted)) {
        // Some servers repeat what they do not like.
        let said = format!("bad credentials: {}", request.authorization);
        return write_answer(out, &Answer::json(401, &serde_json::json!({"message": said})));
    }
    match kind {
        None => write_answer(out, &apply()),
        Some(Kind::Answer(instead)) => write_answer(out, &instead),
        Some(Kind::AppliedThen(instead)) => {
            drop(apply());
            write_answer(out, &instead)
        }
        Some(Kind::Unchanged) => {
            let before = lock(&shared.world).tickets.clone();
            let answer = apply();
            lock(&shared.world).tickets = before;
            write_answer(out, &answer)
        }
        Some(Kind::Close) => false,
        Some(Kind::AppliedThenClose) => {
            drop(apply());
            false
        }
        Some(Kind::HalfBody) => half(out, apply()),
        Some(Kind::HalfThenStall(time)) => {
            half(out, apply());
            std::thread::sleep(time);
            false
        }
        Some(Kind::Huge(bytes)) => {
            write_head(out, &Answer::empty(200), bytes);
            let chunk = vec![b' '; 1 << 16];
            for _ in 0..bytes / chunk.len() {
                if out.write_all(&chunk).is_err() {
                    break;
                }
            }
            false
        }
        Some(Kind::Stall(time)) => {
            std::thread::sleep(time);
            false
        }
        Some(Kind::AppliedThenStall(time)) => {
            drop(apply());
            std::thread::sleep(time);
            false
        }
        Some(Kind::First(change)) => {
            change(&mut lock(&shared.world));
            write_answer(out, &apply())
        }
        Some(Kind::Afterwards(change)) => {
            let answer = apply();
            change(&mut lock(&shared.world));
            write_answer(out, &answer)
        }
    }
}

fn half(out: &mut TcpStream, mut answer: Answer) -> bool {
    let whole = answer.body.len();
    answer.body.truncate(whole / 2);
    write_head(out, &answer, whole.max(10));
    drop(out.write_all(answer.body.as_bytes()));
    false
}

fn route(shared: &Shared, request: &Request) -> Answer {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let segments: Vec<String> = path.split('/').skip(1).map(decode).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let query: Vec<(String, String)> = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect();
    let leak = lock(&shared.world).leaky_adds;
    match segments.first() {
        // "Add" as some servers do it: read, think, write the whole list.
        Some(&"repos") if leak && request.method == "POST" && segments.last() == Some(&"labels") => {
            let old = github::labels_of(&lock(&shared.world), &segments);
            std::thread::sleep(Duration::from_millis(3));
            github::leaky_add(&mut lock(&shared.world), &segments, old, &request.body)
        }
        Some(&("repos" | "user")) => github::handle(&mut lock(&shared.world), request, &segments, &query),
        Some(&"api") => match segments[1..] {
            ["v4", ref rest @ ..] => gitlab::handle(&mut lock(&shared.world), request, rest, &query),
            ["v1", ref rest @ ..] => {
                let mut world = lock(&shared.world);
                world.know_labels();
                gitea::handle(&mut world, request, rest, &query)
            }
            _ => Answer::json(404, &serde_json::json!({"message": "Not Found"})),
        },
        Some(&"rest") => jira::handle(&mut lock(&shared.world), request, &segments, &query),
        _ => Answer::json(404, &serde_json::json!({"message": "Not Found"})),
    }
}

fn read_request(input: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut authorization, mut host) = (0, String::new(), String::new());
    loop {
        let mut header = String::new();
        input.read_line(&mut header).ok()?;
        let header = header.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "host" => value.trim().clone_into(&mut host),
            "authorization" => value.trim().clone_into(&mut authorization),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(Request { method, path, authorization, body: String::from_utf8_lossy(&body).into_owned(), host })
}

fn write_answer(out: &mut TcpStream, answer: &Answer) -> bool {
    write_head(out, answer, answer.body.len()) && out.write_all(answer.body.as_bytes()).is_ok()
}

fn write_head(out: &mut TcpStream, answer: &Answer, length: usize) -> bool {
    let mut head = format!("HTTP/1.1 {} X\r\n", answer.status);
    if answer.status != 204 {
        head.push_str(&format!("content-length: {length}\r\n"));
    }
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    out.write_all(head.as_bytes()).is_ok()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => {
                let hex = String::from_utf8_lossy(&[*high, *low]).into_owned();
                bytes.push(u8::from_str_radix(&hex, 16).expect("percent"));
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).expect("UTF-8")
}
