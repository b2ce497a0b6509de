//! What can go wrong with one request.

use super::{Answer, Request, World};
use std::time::Duration;

/// Something a person or another machine does at that moment.
pub(crate) type Change = Box<dyn Fn(&mut World) + Send + Sync>;

pub(crate) enum Kind {
    /// This instead; nothing is applied.
    Answer(Answer),
    /// Applied, and answered so.
    AppliedThen(Answer),
    /// Answered as if applied.
    Unchanged,
    /// No answer.
    Close,
    /// Applied, no answer.
    AppliedThenClose,
    /// Applied, and half of the answer.
    HalfBody,
    /// So many bytes.
    Huge(usize),
    /// Silence, then no answer.
    Stall(Duration),
    /// Half an answer, then silence.
    HalfThenStall(Duration),
    /// Applied, silence.
    AppliedThenStall(Duration),
    /// Somebody is faster.
    First(Change),
    /// Somebody acts between this and the next request.
    Afterwards(Change),
}

/// A fault: for requests whose `METHOD path` holds `on`, so many times.
pub(crate) struct Fault {
    on: String,
    times: usize,
    make: Box<dyn Fn() -> Kind + Send + Sync>,
}

impl Fault {
    pub(crate) fn new(on: &str, times: usize, make: impl Fn() -> Kind + Send + Sync + 'static) -> Self {
        Self { on: on.to_owned(), times, make: Box::new(make) }
    }

    /// An answer instead, with headers.
    pub(crate) fn status(on: &str, times: usize, status: u16, headers: &[(&str, &str)]) -> Self {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers: Vec<_> = headers.iter().map(own).collect();
        Self::new(on, times, move || {
            let body = "{\"message\": \"fault on purpose\"}".to_owned();
            Kind::Answer(Answer { status, headers: headers.clone(), body })
        })
    }
}

impl World {
    /// The fault for this request, if one is switched on.
    pub(super) fn fault_for(&mut self, request: &Request) -> Option<Kind> {
        let line = format!("{} {}", request.method, request.path);
        let fault = self.faults.iter_mut().find(|fault| fault.times > 0 && line.contains(&fault.on))?;
        fault.times -= 1;
        Some((fault.make)())
    }
}
