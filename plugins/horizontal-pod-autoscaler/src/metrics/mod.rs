//! The metrics APIs: requests, answers and errors.
//!
//! *Source*: upstream's `metrics/client.go`, the clients of `k8s.io/metrics`, and for the texts of errors `NewGenericServerResponse` of
//! apimachinery.

mod answer;
mod custom;
mod external;
mod resource;

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_sdk::time::Timestamp;
use pintle_sdk::{ApiError, Error, Lister, Need};

use crate::context::Stop;

pub(crate) use custom::{object, pods};
pub(crate) use external::external;
pub(crate) use resource::resource;

/// A value of a Pod, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) value: i64,
    pub(crate) time: Option<Timestamp>,
    pub(crate) window: Duration,
}

/// By the name of the Pod.
pub(crate) type Samples = BTreeMap<String, Sample>;

/// Why there is no value.
#[derive(Debug, PartialEq)]
pub(crate) enum Missing {
    /// It is not read yet.
    Needs(Vec<Need>),
    /// The text of the error.
    Error(String),
}

impl Missing {
    /// Puts a text before that of an error.
    pub(crate) fn within(self, text: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Error(error) => Self::Error(text(&error)),
            other => other,
        }
    }
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Needs(needs) => Error::Needs(needs).into(),
            Missing::Error(error) => error.into(),
        }
    }
}

impl From<String> for Missing {
    fn from(error: String) -> Self {
        Self::Error(error)
    }
}

/// What a GET is for, as errors name it.
pub(crate) struct Request<'a> {
    pub(crate) resource: &'a str,
    pub(crate) group: &'a str,
    /// Empty for lists.
    pub(crate) name: &'a str,
}

impl Request<'_> {
    fn what(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let space = if self.name.is_empty() { "" } else { " " };
        format!("(get {}{dot}{}{space}{})", self.resource, self.group, self.name)
    }

    fn not_found(&self) -> String {
        format!("the server could not find the requested resource {}", self.what())
    }
}

/// The text of a refusal. One without a reason is not a Status, so that its text is only part of the message.
pub(crate) fn refusal(error: &ApiError, request: &Request<'_>) -> String {
    if error.code == 0 || !error.reason.is_empty() {
        return error.message.clone();
    }
    let text = match error.code {
        404 => return request.not_found(),
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 | 406 | 415 => error.message.clone(),
        405 => "the server does not allow this method on the requested resource".into(),
        409 => "the server reported a conflict".into(),
        422 => "the server rejected our request due to an error in our request".into(),
        429 => "the server has received too many requests and has asked us to try again later".into(),
        503 => "the server is currently unable to handle the request".into(),
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .into()
        }
        500.. => format!("an error on the server ({:?}) has prevented the request from succeeding", error.message),
        code => format!("the server responded with the status code {code} but did not return more information"),
    };
    format!("{text} {}", request.what())
}

/// Path segments that the host rejects, because they give access to Pods.
const INTO_PODS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Segments of a path as they are; the host asks for no path that needs escapes.
///
/// # Errors
/// One of the segments cannot be part of such a path.
fn route(segments: &[&str]) -> Result<String, Missing> {
    let is_plain = |segment: &&&str| {
        !matches!(**segment, "" | "." | "..")
            && !INTO_PODS.contains(segment)
            && segment.bytes().all(|byte| byte.is_ascii_graphic() && !b"#%/?\\".contains(&byte))
    };
    match segments.iter().find(|segment| !is_plain(segment)) {
        Some(segment) => Err(Missing::Error(format!("{segment:?} cannot be part of the path of a metric"))),
        None => Ok(format!("/{}", segments.join("/"))),
    }
}

/// The query of a path, without parameters that are empty, in the order of their names.
fn query(parameters: &[(&str, String)]) -> String {
    let given = parameters.iter().filter(|(_, value)| !value.is_empty());
    let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    if given.is_empty() { String::new() } else { format!("?{}", given.join("&")) }
}

/// Go's `url.QueryEscape`.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(byte.into()),
            b' ' => escaped.push('+'),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// # Errors
/// The path is not read yet, or refused.
fn get(lister: &impl Lister, path: String, request: &Request<'_>) -> Result<String, Missing> {
    let need = Need::RawPath(path);
    match lister.answer(&need) {
        None => Err(Missing::Needs(vec![need])),
        Some(Ok(text)) => Ok(text),
        Some(Err(error)) => Err(Missing::Error(refusal(&error, request))),
    }
}
