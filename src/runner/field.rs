//! Answers of programs as JSON, read strictly: a key that stands there twice, or a value of another type
//! than was promised, is not an answer. `null` in an optional field is as if it were absent.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Parses one JSON document.
///
/// # Errors
/// What is wrong with it, for people: not JSON, or a key twice in one object.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice::<Strict>(bytes) {
        Ok(Strict(value)) => Ok(value),
        Err(error) if error.is_data() => {
            let text = error.to_string();
            Err(text.split(" at line").next().unwrap_or_default().to_owned())
        }
        Err(_) => Err("it is not one JSON document".to_owned()),
    }
}

/// What a value is, for messages.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn wrong<T>(key: &str, value: &Value, wanted: &str) -> Result<T, String> {
    Err(format!("{key:?} is {}, not {wanted}", kind(value)))
}

/// An optional field; absent and null are `None`.
fn field<'v>(item: &'v Value, key: &str) -> Result<Option<&'v Value>, String> {
    match item {
        Value::Object(fields) => Ok(fields.get(key).filter(|value| !value.is_null())),
        other => Err(format!("it is {}, not an object", kind(other))),
    }
}

/// # Errors
/// The key with what stands there instead.
pub(super) fn string<'v>(item: &'v Value, key: &str) -> Result<Option<&'v str>, String> {
    match field(item, key)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => wrong(key, other, "a string"),
    }
}

/// # Errors
/// As [`string`].
pub(super) fn boolean(item: &Value, key: &str) -> Result<Option<bool>, String> {
    match field(item, key)? {
        None => Ok(None),
        Some(Value::Bool(yes)) => Ok(Some(*yes)),
        Some(other) => wrong(key, other, "true or false"),
    }
}

/// A whole number that is not negative.
///
/// # Errors
/// As [`string`].
pub(super) fn whole(item: &Value, key: &str) -> Result<Option<u64>, String> {
    match field(item, key)? {
        None => Ok(None),
        Some(value) => value.as_u64().map_or_else(|| wrong(key, value, "a whole number"), |n| Ok(Some(n))),
    }
}

/// A number within `range`.
///
/// # Errors
/// As [`string`].
pub(super) fn number(item: &Value, key: &str, range: std::ops::Range<f64>) -> Result<Option<f64>, String> {
    match field(item, key)? {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) if range.contains(&number) => Ok(Some(number)),
            Some(number) => Err(format!("{key:?} is {number}, which is not a time")),
            None => wrong(key, value, "a number"),
        },
    }
}

/// A JSON value in which no object has a key twice: the last one would win, and a veto be lost.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, yes: bool) -> Result<Value, E> {
        Ok(Value::Bool(yes))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let Strict(value) = fields.next_value()?;
            if object.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("{key:?} stands in one object twice")));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_that_stands_there_twice_is_no_answer() {
        let text = br#"{"a":[1,-2,3.5,null,true,"x",{"b":{}}],"c":18446744073709551615}"#;
        assert_eq!(parse(text), Ok(serde_json::from_slice(text).expect("JSON")));
        assert_eq!(
            parse(br#"{"busy":true,"busy":false}"#),
            Err("\"busy\" stands in one object twice".into())
        );
        assert!(parse(br#"{"a":[{"b":1,"b":1}]}"#).is_err());
        for bad in ["", "{", "{} {}", "yes", "[1,]"] {
            assert_eq!(parse(bad.as_bytes()), Err("it is not one JSON document".into()), "{bad}");
        }
    }

    #[test]
    fn every_other_type_is_named() {
        let item = json!({"n": null, "b": true, "i": 7, "f": 7.5, "neg": -1, "s": "x", "a": [], "o": {}});
        for absent in ["n", "missing"] {
            assert_eq!((string(&item, absent), boolean(&item, absent)), (Ok(None), Ok(None)));
            assert_eq!((whole(&item, absent), number(&item, absent, 0.0..9.0)), (Ok(None), Ok(None)));
        }
        assert_eq!(
            (string(&item, "s"), boolean(&item, "b"), whole(&item, "i"), number(&item, "f", 0.0..9.0)),
            (Ok(Some("x")), Ok(Some(true)), Ok(Some(7)), Ok(Some(7.5)))
        );
        for key in ["b", "i", "f", "neg", "a", "o"] {
            assert!(string(&item, key).is_err(), "{key}");
        }
        for key in ["i", "f", "neg", "s", "a", "o"] {
            assert!(boolean(&item, key).is_err(), "{key}");
        }
        for key in ["b", "f", "neg", "s", "a", "o"] {
            assert!(whole(&item, key).is_err(), "{key}");
        }
        for key in ["b", "neg", "s", "a", "o"] {
            assert!(number(&item, key, 0.0..9.0).is_err(), "{key}");
        }
        assert!(number(&item, "f", 0.0..7.0).is_err(), "out of range");
        assert!(string(&json!([]), "s").is_err() && boolean(&json!("x"), "b").is_err());
    }
}
