//! A hash of JSON that is equal in every language.
//!
//! Controllers store it in annotations: for the applied state of a child, or the inputs of a Pod template. So it must
//! not depend on the order of a map, the library that wrote the JSON, or the language of the plugin's next version.

use serde::Serialize;
use serde_json::{Map, Number, Value};

use crate::error::Error;
use crate::outcome::json;

/// The largest integer that every language represents exactly: 2^53 - 1.
const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// FNV-1a with 64 bits over the [canonical text](text), as 16 hexadecimal digits. Not cryptographic.
///
/// ```
/// # use serde_json::json;
/// assert_eq!(pintle_sdk::hash(&json!({"a": 1, "b": null}))?, pintle_sdk::hash(&json!({"a": 1}))?);
/// # Ok::<(), pintle_sdk::Error>(())
/// ```
///
/// # Errors
/// Terminal: the value has a number that is not an integer, or one beyond 2^53 - 1.
pub fn hash<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let hash = text(value)?
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Ok(format!("{hash:016x}"))
}

/// The canonical text: members sorted by the UTF-8 bytes of their names, without `null` members and white space, only
/// the escapes that JSON requires, plain integers.
///
/// # Errors
/// As for [`hash`].
pub fn text<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let value = serde_json::to_value(value).map_err(|error| Error::terminal(format!("hash: {error}")))?;
    let mut text = String::new();
    write(&value, &mut text)?;
    Ok(text)
}

fn write(value: &Value, text: &mut String) -> Result<(), Error> {
    match value {
        Value::Object(members) => write_object(members, text)?,
        Value::Array(items) => {
            text.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    text.push(',');
                }
                write(item, text)?;
            }
            text.push(']');
        }
        Value::Number(number) => text.push_str(&integer(number)?.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&json(value)),
    }
    Ok(())
}

fn write_object(members: &Map<String, Value>, text: &mut String) -> Result<(), Error> {
    let mut members: Vec<_> = members.iter().filter(|(_, value)| !value.is_null()).collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    text.push('{');
    for (i, (name, value)) in members.into_iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&json(name));
        text.push(':');
        write(value, text)?;
    }
    text.push('}');
    Ok(())
}

/// `2.0` is an integer: not every language distinguishes it from `2`.
fn integer(number: &Number) -> Result<i64, Error> {
    let exact = number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.1e15)?;
        #[allow(clippy::cast_possible_truncation, reason = "it has no fraction, and is in the range")]
        Some(number as i64)
    });
    exact
        .filter(|number| (-MAX_INTEGER..=MAX_INTEGER).contains(number))
        .ok_or_else(|| Error::terminal("hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(serde::Deserialize)]
    struct Vector {
        name: String,
        value: Value,
        text: String,
        hash: String,
    }

    #[test]
    fn texts_and_hashes_are_those_of_every_language() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("../../vectors/hash.json")).unwrap();
        assert!(vectors.len() > 10);
        for Vector { name, value, text: wanted, hash: wanted_hash } in vectors {
            assert_eq!(text(&value).unwrap(), wanted, "{name}");
            assert_eq!(hash(&value).unwrap(), wanted_hash, "{name}");
        }
    }

    #[test]
    fn numbers_that_languages_write_differently_are_errors() {
        for number in [json!(0.5), json!(1e300), json!(9_007_199_254_740_992_i64), json!(u64::MAX)] {
            assert!(hash(&json!({"a": [number]})).is_err());
        }
        assert_eq!(text(&json!([2.0, -0.0, -9_007_199_254_740_991_i64])).unwrap(), "[2,0,-9007199254740991]");
    }
}
