//! JSON over HTTP: time-outs, a body cap, few retries, and a token that goes to
//! one host only. What an answer means is the tracker's business.

mod answer;
mod pages;

pub(super) use answer::{HttpAnswer, names, zoned};
pub(super) use pages::MorePages;

use super::Options;
use super::token_supply::{AuthScheme, TokenSupply};
use crate::error::escape;
use crate::model::address;
use crate::tracker::failure::{Failure, Why};
use answer::words;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::{Method, Request, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

/// A hundred tickets with long bodies fit; fifty megabytes are not an answer.
const BODY_CAP: u64 = 24 << 20;
const TRIES: u32 = 4;

/// May a request be sent again when its answer was lost?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It changes nothing.
    Read,
    /// Only where it certainly did nothing: not connected, or told to come back later.
    Write,
}

/// One request.
pub(super) struct HttpCall<'a> {
    pub(super) method: Method,
    /// After the base URL, percent-encoded, with its query.
    pub(super) path: &'a str,
    pub(super) body: Option<&'a Value>,
    pub(super) repeat: Repeat,
}

/// A server.
pub(super) struct Http {
    agent: Agent,
    base: String,
    tokens: TokenSupply,
    accept: &'static str,
    patience: Duration,
    sent: AtomicU64,
    /// What the last answer said of it; the greatest number where none did.
    left: AtomicU64,
}

impl Http {
    /// # Errors
    /// [`Why::Setting`]: plain http to another machine, or an unusable CA file.
    pub(super) fn new(
        base: &str,
        accept: &'static str,
        scheme: AuthScheme,
        options: &Options,
    ) -> Result<Self, Failure> {
        let setting = |message: String| Failure::new(Why::Setting, message);
        let uri: Uri = base.parse().map_err(|_| setting(format!("{base} is not a usable URL")))?;
        let loopback = is_loopback(uri.host().unwrap_or_default());
        if uri.scheme_str() == Some("http") && !loopback && !options.allow_http {
            return Err(setting(format!("{base} would carry the token in clear"))
                .hint("use https://, or --allow-http on a network you trust"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect may lead to another host; nothing of ours follows it.
            .max_redirects(0)
            .timeout_global(Some(options.timeout))
            .timeout_connect(Some(options.timeout.min(Duration::from_secs(10))))
            .max_response_header_size(64 * 1024)
            .user_agent(concat!("orion-claim/", env!("CARGO_PKG_VERSION")));
        if loopback {
            // A proxy from the environment is for elsewhere, and it would see the token.
            config = config.proxy(None);
        }
        if let Some(path) = &options.ca_file {
            let name = escape(path.as_os_str().as_encoded_bytes(), 300);
            let pem = std::fs::read(path)
                .map_err(|error| setting(format!("cannot read {name}: {}", crate::error::reason(&error))))?;
            let certificates: Vec<_> = parse_pem(&pem)
                .filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect();
            if certificates.is_empty() {
                return Err(setting(format!("{name} does not hold a certificate")));
            }
            let roots = RootCerts::new_with_certs(&certificates);
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Self {
            agent: config.build().new_agent(),
            base: base.to_owned(),
            tokens: TokenSupply::new(options, scheme),
            accept,
            patience: options.patience,
            sent: AtomicU64::new(0),
            left: AtomicU64::new(u64::MAX),
        })
    }

    /// Requests sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests that the server still answers, as its last answer said.
    pub(super) fn left(&self) -> Option<u64> {
        Some(self.left.load(Ordering::Relaxed)).filter(|left| *left != u64::MAX)
    }

    /// The part of `url` after our base, when it is ours.
    pub(super) fn own<'u>(&self, url: &'u str) -> Option<&'u str> {
        url.strip_prefix(&self.base).filter(|rest| rest.starts_with('/'))
    }

    /// Sends, waits and repeats as allowed, and gives every answer that is not
    /// about the transport: 2xx and 4xx. The rest is a failure.
    ///
    /// # Errors
    /// [`Why::Unreachable`] with the time at which the server says to come back,
    /// [`Why::Unauthorised`], [`Why::Setting`] for a redirect.
    pub(super) fn call(&self, call: &HttpCall<'_>) -> Result<HttpAnswer, Failure> {
        let end = Instant::now() + self.patience;
        let mut pause = Duration::from_millis(250);
        for left in (0..TRIES).rev() {
            let (failure, again) = match self.authorised(call) {
                Ok(answer) if answer.is_throttled() => {
                    let failure = self.answered(call, &answer).retry_after(answer.retry_after());
                    (failure, true)
                }
                Ok(answer) if answer.is_gateway() || answer.status >= 500 => {
                    let failure = self.answered(call, &answer).retry_after(answer.retry_after());
                    let maybe = call.repeat == Repeat::Write;
                    (failure.maybe_applied(maybe), answer.is_gateway() && !maybe)
                }
                Ok(answer) => return self.sorted(call, answer),
                Err(failure) => {
                    let again = call.repeat == Repeat::Read || !failure.may_be_applied();
                    (failure, again)
                }
            };
            let wait = failure.wait().unwrap_or(pause);
            if !again || left == 0 || Instant::now() + wait > end || !failure.is_passing() {
                return Err(failure);
            }
            std::thread::sleep(wait);
            pause *= 2;
        }
        Err(Failure::new(Why::Unreachable, format!("{} does not answer", self.host())))
    }

    /// Once, and once more with a token that was read again after a 401: that answer
    /// certainly did nothing.
    fn authorised(&self, call: &HttpCall<'_>) -> Result<HttpAnswer, Failure> {
        let answer = self.once(call)?;
        if answer.status == 401 && self.tokens.renew()? { self.once(call) } else { Ok(answer) }
    }

    fn once(&self, call: &HttpCall<'_>) -> Result<HttpAnswer, Failure> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.base, call.path))
            .header("accept", self.accept);
        if let Some(authorization) = self.tokens.header()? {
            request = request.header("authorization", authorization);
        }
        let broken =
            |_| Failure::new(Why::Setting, format!("{} does not give a usable request", self.host()));
        let answer = match call.body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string());
                self.agent.run(request.map_err(broken)?)
            }
            // DELETE and GET without a body.
            None => self.agent.run(request.body(()).map_err(broken)?),
        };
        let mut answer = answer.map_err(|error| self.transport(call, &error))?;
        let status = answer.status().as_u16();
        let headers = answer.headers().clone();
        // GitHub and Jira; GitLab.
        let left =
            ["x-ratelimit-remaining", "ratelimit-remaining"].iter().find_map(|name| headers.get(*name));
        if let Some(left) = left.and_then(|left| left.to_str().ok()?.trim().parse().ok()) {
            self.left.store(left, Ordering::Relaxed);
        }
        let body = answer.body_mut().with_config().limit(BODY_CAP).read_to_vec().map_err(|error| {
            let failure = match error {
                ureq::Error::BodyExceedsLimit(_) => {
                    Failure::new(Why::Protocol, format!("{} sent more than {BODY_CAP} bytes", self.host()))
                }
                ureq::Error::Timeout(_) => Failure::new(
                    Why::Unreachable,
                    format!("{} stopped in the middle of an answer", self.host()),
                ),
                _ => Failure::new(Why::Protocol, format!("{} sent half an answer", self.host())),
            };
            failure.maybe_applied(call.repeat == Repeat::Write)
        })?;
        Ok(HttpAnswer { status, headers, body })
    }

    /// Sorts the answers every tracker treats alike.
    fn sorted(&self, call: &HttpCall<'_>, answer: HttpAnswer) -> Result<HttpAnswer, Failure> {
        match answer.status {
            300..=399 if answer.status != 304 => {
                // What stands behind a question mark may be a secret of that server.
                let to = answer.header("location").and_then(|to| to.split(['?', '#']).next());
                let to = to.map(|to| escape(to.as_bytes(), 200));
                let to = to.unwrap_or_else(|| "somewhere else".to_owned());
                let message = self.scrub(&format!("{} redirected to {to}", self.host()));
                Err(Failure::new(Why::Setting, message)
                    .hint("if that is right, change the tracker's address; a token is never sent along"))
            }
            401 => Err(Failure::new(Why::Unauthorised, self.answered(call, &answer).to_string())
                .hint("the token is missing, wrong or expired")),
            _ => Ok(answer),
        }
    }

    /// An answer that says no, in words: status and the server's own message.
    pub(super) fn answered(&self, call: &HttpCall<'_>, answer: &HttpAnswer) -> Failure {
        let value: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let said = words(&value).map(|said| format!(": {}", escape(self.scrub(&said).as_bytes(), 200)));
        let path = call.path.split('?').next().unwrap_or_default();
        let why = if answer.status >= 500 || answer.is_throttled() { Why::Unreachable } else { Why::Refused };
        let message = format!(
            "{} answered {} {} with {}{}",
            self.host(),
            call.method,
            path,
            answer.status,
            said.unwrap_or_default()
        );
        Failure::new(why, message)
    }

    fn transport(&self, call: &HttpCall<'_>, error: &ureq::Error) -> Failure {
        use std::io::ErrorKind;
        use ureq::Timeout;
        let host = self.host();
        // What failed before a byte of the request left certainly did nothing.
        let (message, sent) = match error {
            ureq::Error::HostNotFound => (format!("the host {host} does not exist"), false),
            ureq::Error::ConnectionFailed => (format!("cannot connect to {host}"), false),
            ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => {
                (format!("the proxy does not lead to {host}"), false)
            }
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                (format!("{host} does not take the connection"), false)
            }
            ureq::Error::Timeout(_) => (format!("{host} did not answer in time"), true),
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
                (format!("the certificate of {host} is not trusted ({error})"), false)
            }
            ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                (format!("{host} refuses the connection"), false)
            }
            // rustls reports a failed handshake so.
            ureq::Error::Io(error) if error.kind() == ErrorKind::InvalidData => {
                (format!("the certificate of {host} is not trusted ({error})"), false)
            }
            ureq::Error::Io(error) => {
                (format!("the connection to {host} broke ({})", crate::error::reason(error)), true)
            }
            _ => (format!("{host} does not speak HTTP as expected ({error})"), true),
        };
        let message = escape(self.scrub(&message).as_bytes(), 300);
        let failure = Failure::new(Why::Unreachable, message);
        let failure = failure.maybe_applied(sent && call.repeat == Repeat::Write);
        match error {
            ureq::Error::Tls(_) | ureq::Error::Rustls(_) => {
                failure.hint("if its CA is your own: --ca-file FILE")
            }
            _ => failure,
        }
    }

    fn scrub(&self, text: &str) -> String {
        self.tokens.scrub(text)
    }

    /// The server, as it stands in messages.
    pub(super) fn host(&self) -> &str {
        address::host(&self.base)
    }
}

/// A path segment or query value: everything but the unreserved characters (RFC 3986, 2.3).
pub(super) fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::answer::http_date;
    use super::*;
    use crate::model::time::WallTime;

    #[test]
    fn dates_hosts_and_words_are_read() {
        let time = http_date("Sun, 29 Nov 2026 22:25:35 GMT").map(WallTime::of).expect("date");
        assert_eq!(time.rfc3339(), "2026-11-29T22:25:35.000Z");
        assert_eq!(http_date("soon"), None);
        assert!(is_loopback("127.0.0.9") && is_loopback("localhost") && is_loopback("[::1]"));
        assert!(!is_loopback("10.0.0.1") && !is_loopback("localhost.evil.example"));
        assert_eq!(percent("a,b \"\u{fc}/"), "a%2Cb%20%22%C3%BC%2F");
        let jira = serde_json::json!({"errorMessages": ["no"], "errors": {"labels": "bad"}});
        assert_eq!(words(&jira).expect("words"), "no; labels: \"bad\"");
    }
}
