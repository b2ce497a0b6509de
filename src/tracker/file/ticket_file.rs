//! `KEY.toml`: a ticket a person can write. Comments and unknown keys survive us.

use crate::model::ticket::{Key, Ticket};
use std::path::Path;
use toml_edit::{Array, DocumentMut, Item, Value};

/// A ticket file, parsed and still as it was typed.
pub(super) struct TicketFile {
    document: DocumentMut,
}

impl TicketFile {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// What is wrong with it, one line. An empty file is wrong: an editor may be
    /// just writing it, and "no labels" would be a lie.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
        if text.trim().is_empty() {
            return Err("is empty".to_owned());
        }
        let document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}", error.message().lines().next().unwrap_or("not TOML"))
        })?;
        let file = Self { document };
        file.labels()?;
        file.closed()?;
        file.priority()?;
        file.assignees()?;
        file.texts("blocked_by")?;
        Ok(file)
    }

    /// The ticket in it.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(super) fn ticket(&self, key: &Key, path: &Path, revision: String) -> Result<Ticket, String> {
        let title = self.document.get("title").and_then(Item::as_str).unwrap_or(key.as_str());
        Ok(Ticket {
            key: key.clone(),
            title: title.to_owned(),
            closed: self.closed()?,
            labels: self.labels()?,
            priority: self.priority()?,
            link: Some(path.display().to_string()),
            revision: Some(revision),
            assignees: self.assignees()?,
            blocked_by: Some(self.texts("blocked_by")?),
        })
    }

    /// The labels on it; none when the key is missing.
    pub(super) fn labels(&self) -> Result<Vec<String>, String> {
        let Some(item) = self.document.get("labels") else { return Ok(Vec::new()) };
        let array = item.as_array().ok_or("labels is not a list")?;
        let mut labels: Vec<String> = Vec::new();
        for value in array {
            let label = value.as_str().ok_or("labels holds something that is not text")?;
            if !labels.iter().any(|known| known == label) {
                labels.push(label.to_owned());
            }
        }
        Ok(labels)
    }

    /// Closed? Open when the key is missing; any other word is an error, not "open".
    pub(super) fn closed(&self) -> Result<bool, String> {
        match self.document.get("state").map(Item::as_str) {
            None | Some(Some("open")) => Ok(false),
            Some(Some("closed")) => Ok(true),
            _ => Err("state is neither \"open\" nor \"closed\"".to_owned()),
        }
    }

    /// Whose it is: one name, or a list of them.
    fn assignees(&self) -> Result<Vec<String>, String> {
        match self.document.get("assignee").map(Item::as_str) {
            Some(Some(name)) => Ok(vec![name.to_owned()]),
            _ => self.texts("assignee"),
        }
    }

    fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        let Some(item) = self.document.get(key) else { return Ok(Vec::new()) };
        let array = item.as_array().ok_or_else(|| format!("{key} is not a list"))?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = array.iter().map(text).collect::<Option<Vec<String>>>();
        texts.ok_or_else(|| format!("{key} holds something that is not text"))
    }

    fn priority(&self) -> Result<i64, String> {
        let Some(item) = self.document.get("priority") else { return Ok(0) };
        item.as_integer().ok_or_else(|| "priority is not a whole number".to_owned())
    }

    /// Puts labels on and takes labels off.
    pub(super) fn change(&mut self, add: &[String], remove: &[String]) {
        let item = self.document.entry("labels").or_insert(Item::Value(Value::Array(Array::new())));
        let Some(array) = item.as_array_mut() else { return };
        array.retain(|value| !remove.iter().any(|label| value.as_str() == Some(label)));
        for label in add {
            if !array.iter().any(|value| value.as_str() == Some(label)) {
                array.push(label.as_str());
            }
        }
        // What stood first may be gone, and the blank before the new first with it.
        if !array.iter().any(|value| value.decor().prefix().is_some_and(has_line)) {
            array.fmt();
        }
    }

    /// The text to write back.
    pub(super) fn text(&self) -> String {
        self.document.to_string()
    }
}

fn has_line(raw: &toml_edit::RawString) -> bool {
    raw.as_str().is_some_and(|text| text.contains('\n') || text.contains('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, add: &[&str], remove: &[&str]) -> String {
        let own = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect::<Vec<_>>();
        let mut file = TicketFile::parse(text.as_bytes()).expect("parses");
        file.change(&own(add), &own(remove));
        file.text()
    }

    #[test]
    fn what_a_person_wrote_survives() {
        let text = "# mine\ntitle = \"Fix it\"   # really\nlabels = [\"bug\", \"orion-queue\"]\nweight = 3\n";
        assert_eq!(
            changed(text, &["orion-working"], &["orion-queue"]),
            "# mine\ntitle = \"Fix it\"   # really\nlabels = [\"bug\", \"orion-working\"]\nweight = 3\n"
        );
        assert_eq!(changed("labels = [\"a\", \"b\"]\n", &[], &["a"]), "labels = [\"b\"]\n");
        assert_eq!(changed("title = \"x\"\n", &["a"], &[]), "title = \"x\"\nlabels = [\"a\"]\n");
        let lines = changed("labels = [\n  \"a\", # why\n  \"b\",\n]\n", &["c"], &[]);
        assert!(lines.contains("\"a\", # why\n  \"b\""), "{lines}");
        // A table after the top level keys stays after them.
        let table = changed("title = \"x\"\n\n[mine]\nk = 1\n", &["a"], &[]);
        let reread = TicketFile::parse(table.as_bytes()).expect("parses");
        assert_eq!(reread.labels(), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn what_is_no_ticket_is_said_and_never_read_as_empty() {
        for (text, expected) in [
            ("", "empty"),
            ("  \n", "empty"),
            ("title = \"x\"\nlabels = [\n", "line"),
            ("labels = \"orion-queue\"", "list"),
            ("labels = [1]", "text"),
            ("state = \"done\"", "state"),
            ("priority = \"high\"", "priority"),
        ] {
            let error = TicketFile::parse(text.as_bytes()).err().expect(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        assert!(TicketFile::parse(b"\xff").is_err());
    }

    #[test]
    fn labels_of_any_spelling_are_kept_apart() {
        let text = changed("labels = []", &["a,b", "say \"x\"", "\u{fc}ber"], &[]);
        let labels = TicketFile::parse(text.as_bytes()).expect("parses").labels().expect("labels");
        assert_eq!(labels, ["a,b", "say \"x\"", "\u{fc}ber"]);
    }
}
