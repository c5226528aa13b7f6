//! Decodes bodies in Kubernetes' protobuf encoding to JSON.
//!
//! kubectl's typed commands (`create deployment`, `drain`) always send protobuf, so the server must read it; it never
//! writes it.
//!
//! *Flow*: the envelope contains the kind, `messages.txt` has the fields of its message, and walking the wire format
//! produces the JSON that Go would write.
//! *Invariants*: unknown fields are skipped; lengths past the end and nesting past [`MAX_DEPTH`] are errors.
//! *Not here*: custom kinds, which have no protobuf encoding.
//! *Source*: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf`, the `protobuf` tags in `k8s.io/api`.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

const MESSAGES: &str = include_str!("messages.txt");
/// First bytes of an encoded object.
const MAGIC: &[u8] = b"k8s\0";
/// Largest nesting of messages; the deepest built-in kind has about a dozen levels.
const MAX_DEPTH: usize = 64;

/// The reason why a body does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// Not an encoded Kubernetes object.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NotKubernetes,
    /// The bytes end too early or are not protobuf.
    #[error("proto: unexpected EOF or illegal tag")]
    Malformed,
    /// No built-in kind has this name.
    #[error("no kind {kind:?} is registered for version {api_version:?}")]
    UnknownKind {
        /// As the envelope has it.
        api_version: String,
        /// As the envelope has it.
        kind: String,
    },
}

#[derive(Debug)]
struct Field {
    number: u64,
    /// Empty when the message's fields belong to the enclosing one.
    name: &'static str,
    omit_empty: bool,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    optional: bool,
    holder: Holder,
    of: Of,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    One,
    List,
    Map,
    /// A map whose values are messages that hold a list.
    MapOfLists,
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Text,
    Integer,
    Boolean,
    Float,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    Raw,
    Message(&'static str),
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    MESSAGES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.filter_map(field).collect()))
        })
        .collect()
});

fn field(text: &'static str) -> Option<Field> {
    let mut parts = text.splitn(3, ':');
    let (number, name, shape) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (name, omit_empty) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
    let (optional, rest) = shape.strip_prefix('*').map_or((false, shape), |rest| (true, rest));
    let (holder, rest) = if let Some(rest) = rest.strip_prefix("{<") {
        (Holder::MapOfLists, rest)
    } else if let Some(rest) = rest.strip_prefix('{') {
        (Holder::Map, rest)
    } else if let Some(rest) = rest.strip_prefix('[') {
        (Holder::List, rest)
    } else {
        (Holder::One, rest)
    };
    let of = match rest {
        "s" => Of::Text,
        "i" => Of::Integer,
        "b" => Of::Boolean,
        "f" => Of::Float,
        "y" => Of::Bytes,
        "T" => Of::Time,
        "M" => Of::MicroTime,
        "D" => Of::Duration,
        "Q" => Of::Quantity,
        "I" => Of::IntOrString,
        "R" => Of::Raw,
        message => Of::Message(message),
    };
    Some(Field { number, name, omit_empty, shape: Shape { optional, holder, of } })
}

/// The object in a body.
pub fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NotKubernetes)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for part in fields(envelope) {
        match part? {
            (1, Wire::Bytes(types)) => {
                for part in fields(types) {
                    match part? {
                        (1, Wire::Bytes(text)) => api_version = String::from_utf8_lossy(text).into_owned(),
                        (2, Wire::Bytes(text)) => kind = String::from_utf8_lossy(text).into_owned(),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let message = message_name(&api_version, &kind);
    let (name, _) = TABLE
        .get_key_value(message.as_str())
        .ok_or_else(|| ProtobufError::UnknownKind { api_version: api_version.clone(), kind: kind.clone() })?;
    let mut object = Map::new();
    object.insert("kind".into(), json!(kind));
    object.insert("apiVersion".into(), json!(api_version));
    message_into(name, raw, &mut object, MAX_DEPTH)?;
    Ok(Value::Object(object))
}

fn message_name(api_version: &str, kind: &str) -> String {
    // Each group has its own name for these options, and they are equal.
    if kind == "DeleteOptions" {
        return "meta.v1.DeleteOptions".to_owned();
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
    format!("{}.{version}.{kind}", group.split('.').next().unwrap_or(group))
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first().ok_or(ProtobufError::Malformed)?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Malformed)
}

fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], ProtobufError> {
    let (taken, rest) = bytes.split_at_checked(n).ok_or(ProtobufError::Malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn fields(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, Wire<'_>), ProtobufError>> {
    let mut failed = false;
    std::iter::from_fn(move || {
        if bytes.is_empty() || failed {
            return None;
        }
        let next = one_field(&mut bytes);
        failed = next.is_err();
        Some(next)
    })
}

fn one_field<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Wire<'a>), ProtobufError> {
    let tag = varint(bytes)?;
    let little = |part: &[u8]| part.iter().rev().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
    let wire = match tag & 7 {
        0 => Wire::Number(varint(bytes)?),
        1 => Wire::Number(little(take(bytes, 8)?)),
        2 => {
            let n = usize::try_from(varint(bytes)?).map_err(|_| ProtobufError::Malformed)?;
            Wire::Bytes(take(bytes, n)?)
        }
        5 => Wire::Number(little(take(bytes, 4)?)),
        _ => return Err(ProtobufError::Malformed),
    };
    Ok((tag >> 3, wire))
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let mut out = Map::new();
    message_into(name, bytes, &mut out, depth)?;
    Ok(Value::Object(out))
}

fn message_into(name: &str, bytes: &[u8], out: &mut Map<String, Value>, depth: usize) -> Result<(), ProtobufError> {
    let depth = depth.checked_sub(1).ok_or(ProtobufError::Malformed)?;
    let Some(known) = TABLE.get(name) else { return Ok(()) };
    for part in fields(bytes) {
        let (number, wire) = part?;
        let Some(field) = known.iter().find(|field| field.number == number) else { continue };
        let shape = field.shape;
        match (shape.holder, &wire, shape.of) {
            (Holder::One, Wire::Bytes(inner), Of::Message(name)) if field.name.is_empty() => {
                message_into(name, inner, out, depth)?
            }
            (Holder::One, ..) => {
                let value = scalar(shape.of, &wire, depth)?;
                if shape.optional || !(is_empty(&value) && (field.omit_empty || value.is_null())) {
                    out.insert(field.name.to_owned(), value);
                }
            }
            (Holder::List, ..) => {
                let value = scalar(shape.of, &wire, depth)?;
                if let Some(list) = out.entry(field.name).or_insert_with(|| json!([])).as_array_mut() {
                    list.push(value);
                }
            }
            (Holder::Map | Holder::MapOfLists, Wire::Bytes(inner), _) => {
                let (key, value) = map_entry(shape, inner, depth)?;
                if let Some(map) = out.entry(field.name).or_insert_with(|| json!({})).as_object_mut() {
                    map.insert(key, value);
                }
            }
            (Holder::Map | Holder::MapOfLists, Wire::Number(_), _) => return Err(ProtobufError::Malformed),
        }
    }
    Ok(())
}

fn map_entry(shape: Shape, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    // A missing value on the wire is the empty one.
    let mut value = if shape.holder == Holder::MapOfLists {
        json!([])
    } else {
        scalar(shape.of, &Wire::Bytes(&[]), depth).unwrap_or_default()
    };
    for part in fields(bytes) {
        match part? {
            (1, Wire::Bytes(text)) => key = String::from_utf8_lossy(text).into_owned(),
            (2, Wire::Bytes(items)) if shape.holder == Holder::MapOfLists => {
                value = fields(items).map(|item| scalar(shape.of, &item?.1, depth)).collect::<Result<_, _>>()?;
            }
            (2, wire) => value = scalar(shape.of, &wire, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Whether Go's `omitempty` omits the value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn scalar(of: Of, wire: &Wire<'_>, depth: usize) -> Result<Value, ProtobufError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match (of, wire) {
        (Of::Text, Wire::Bytes(bytes)) => json!(text(bytes)),
        (Of::Integer, Wire::Number(number)) => json!(number.cast_signed()),
        (Of::Boolean, Wire::Number(number)) => json!(*number != 0),
        (Of::Float, Wire::Number(bits)) => json!(f64::from_bits(*bits)),
        (Of::Bytes, Wire::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        (Of::Time | Of::MicroTime, Wire::Bytes(bytes)) => time(of, bytes)?,
        (Of::Duration, Wire::Bytes(bytes)) => {
            let nanos = number_of(bytes, 1)?;
            json!(format!("{}s", nanos as f64 / 1e9))
        }
        (Of::Quantity, Wire::Bytes(bytes)) => json!(text(bytes_of(bytes, 1)?)),
        (Of::IntOrString, Wire::Bytes(bytes)) => match number_of(bytes, 1)? {
            0 => json!(number_of(bytes, 2)?),
            _ => json!(text(bytes_of(bytes, 3)?)),
        },
        (Of::Raw, Wire::Bytes(bytes)) => serde_json::from_slice(bytes_of(bytes, 1)?).unwrap_or_default(),
        (Of::Message(name), Wire::Bytes(bytes)) => message(name, bytes, depth)?,
        _ => return Err(ProtobufError::Malformed),
    })
}

fn number_of(bytes: &[u8], wanted: u64) -> Result<i64, ProtobufError> {
    for part in fields(bytes) {
        if let (number, Wire::Number(value)) = part?
            && number == wanted
        {
            return Ok(value.cast_signed());
        }
    }
    Ok(0)
}

fn bytes_of(bytes: &[u8], wanted: u64) -> Result<&[u8], ProtobufError> {
    for part in fields(bytes) {
        if let (number, Wire::Bytes(value)) = part?
            && number == wanted
        {
            return Ok(value);
        }
    }
    Ok(&[])
}

fn time(of: Of, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (seconds, nanos) = (number_of(bytes, 1)?, number_of(bytes, 2)?);
    if seconds == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| ProtobufError::Malformed)?;
    let time = Timestamp::new(seconds, nanos).map_err(|_| ProtobufError::Malformed)?;
    Ok(json!(match of {
        Of::MicroTime => crate::clock::rfc3339_micro(time),
        _ => crate::clock::rfc3339(time),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3) | 2, u8::try_from(inner.len()).unwrap()];
        out.extend(inner);
        out
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &types), bytes(2, raw)].concat()
    }

    #[test]
    fn a_deployment_reads_as_go_would_have_written_it() {
        let metadata = bytes(1, &[bytes(1, b"web"), bytes(2, b""), bytes(8, b"")].concat());
        // An optional zero stays, an empty struct stays, an empty string is removed.
        let spec = bytes(2, &[vec![8, 0], bytes(4, b"")].concat());
        let body = envelope("apps/v1", "Deployment", &[metadata, spec].concat());
        assert_eq!(
            decode(&body).unwrap(),
            json!({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {"replicas": 0, "strategy": {}}})
        );
    }

    #[test]
    fn maps_and_inlined_messages_are_read() {
        let entry = bytes(2, &[bytes(1, b"k"), bytes(2, b"v")].concat());
        let body = envelope("v1", "ConfigMap", &entry);
        assert_eq!(decode(&body).unwrap()["data"], json!({"k": "v"}));
        let volume =
            message("core.v1.Volume", &[bytes(1, b"tmp"), bytes(2, &bytes(2, b""))].concat(), MAX_DEPTH).unwrap();
        assert_eq!(volume, json!({"name": "tmp", "emptyDir": {}}));
    }

    #[test]
    fn hostile_bytes_are_errors() {
        assert_eq!(decode(b"{}"), Err(ProtobufError::NotKubernetes));
        assert_eq!(decode(b"k8s\0\x0a\xff\xff\xff\xff\x0f"), Err(ProtobufError::Malformed));
        assert!(matches!(decode(&envelope("v1", "Nothing", b"")), Err(ProtobufError::UnknownKind { .. })));
        assert_eq!(decode(&envelope("v1", "Pod", &[0x0a, 0x7f])), Err(ProtobufError::Malformed));
    }

    #[test]
    fn every_message_that_a_field_names_is_in_the_table() {
        for (name, fields) in TABLE.iter() {
            for field in fields {
                if let Of::Message(inner) = field.shape.of {
                    assert!(TABLE.contains_key(inner), "{name} has a field of {inner}");
                }
            }
        }
    }
}
