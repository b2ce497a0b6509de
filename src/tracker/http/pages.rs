//! Lists that are asked for by the number of the page.

use super::{Http, HttpAnswer, HttpCall, Repeat};
use crate::tracker::failure::{Failure, Why};
use serde_json::Value;
use ureq::http::Method;

/// Ten thousand tickets, or as many events of one: beyond that something is wrong.
const PAGES: usize = 200;

/// How a list says that there is more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tracker) enum MorePages {
    /// By a header: `x-next-page`, or a link with `rel="next"`. Without any, a page
    /// of this size has a next one.
    Told(usize),
    /// Not at all: until a page is empty.
    UntilEmpty,
    /// There is one page.
    Never,
}

impl Http {
    /// Every item of a list. `first` has a query already. The number of the page is
    /// ours: a link of the server may carry another name of its host.
    ///
    /// # Errors
    /// What `refused` makes of an answer that is not 200; [`Why::Protocol`] for
    /// something that is not a list, or a list without an end.
    pub(in crate::tracker) fn pages(
        &self,
        first: &str,
        more: MorePages,
        refused: impl Fn(&str, &HttpAnswer) -> Failure,
    ) -> Result<Vec<Value>, Failure> {
        let mut items = Vec::new();
        for page in 1..=PAGES {
            let path = format!("{first}&page={page}");
            let call = HttpCall { method: Method::GET, path: &path, body: None, repeat: Repeat::Read };
            let answer = self.call(&call)?;
            if answer.status != 200 {
                return Err(refused(&path, &answer));
            }
            let mut found = match answer.json("a list")? {
                Value::Array(found) => found,
                // An empty list of Go.
                Value::Null => Vec::new(),
                _ => {
                    let message = format!("{} answered with something that is not a list", self.host());
                    return Err(Failure::new(Why::Protocol, message));
                }
            };
            let goes_on = match more {
                MorePages::Never => false,
                MorePages::UntilEmpty => !found.is_empty(),
                MorePages::Told(size) => match (answer.header("x-next-page"), answer.header("link")) {
                    (Some(next), _) if !next.is_empty() => true,
                    (_, Some(links)) => links.contains("rel=\"next\""),
                    (Some(_), None) => false,
                    (None, None) => found.len() >= size,
                },
            };
            items.append(&mut found);
            if !goes_on {
                return Ok(items);
            }
        }
        Err(Failure::new(Why::Protocol, format!("{} sends more than {PAGES} pages", self.host())))
    }
}
