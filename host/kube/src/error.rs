//! Classification of API failures. Every failure is classified here, once.
//!
//! *Source*: `k8s.io/apimachinery/pkg/api/errors` (reasons and codes of a Status).

use std::error::Error;
use std::io;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use pintle_core::ports::api::{ApiError, ApiErrorClass};
use pintle_core::text::{cut, without_tokens};
use serde::Deserialize;

/// Reason of a host error: an answer exceeds its maximum size.
pub(crate) const TOO_LARGE: &str = "TooLarge";

/// Maximum bytes kept of the texts of a Status, and maximum causes. An aggregated API server may send texts of any
/// length.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
const MAX_REASON_BYTES: usize = 256;
const MAX_CAUSES: usize = 256;

/// The parts of a `metav1.Status` that classification uses.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: Option<u16>,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Details {
    causes: Vec<Cause>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    field: String,
}

/// The error for an answer whose status code is not 2xx.
pub(crate) fn from_response(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiError {
    let status: Status = serde_json::from_slice(body).unwrap_or_else(|_| Status {
        // The body is not a Status: it comes from a proxy, or from a handler that answers in plain text.
        message: Some(String::from_utf8_lossy(&body[..body.len().min(512)]).trim().to_owned())
            .filter(|s| !s.is_empty()),
        ..Status::default()
    });
    let retry_after =
        headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    from_status(status, code.as_u16(), retry_after)
}

/// The error for a Status in an answer or in an `ERROR` frame of a watch.
pub(crate) fn from_status(status: Status, http_code: u16, retry_after: Option<Duration>) -> ApiError {
    let code = status.code.filter(|code| *code != 0).unwrap_or(http_code);
    let reason = shortened(status.reason.unwrap_or_default(), MAX_REASON_BYTES);
    let details = status.details.unwrap_or_default();
    let retry_after = retry_after.or(details.retry_after_seconds.filter(|s| *s > 0).map(Duration::from_secs));
    // A patch with the uid of another object: the API server answers Conflict only for updates and deletes, because a
    // uid is immutable.
    let is_of_other = code == 422 && details.causes.iter().any(|cause| cause.field == "metadata.uid");
    let reason = if is_of_other { "Conflict".to_owned() } else { reason };
    let class = match (code, reason.as_str()) {
        _ if is_of_other => ApiErrorClass::Conflict,
        (404, _) => ApiErrorClass::NotFound,
        (409, "AlreadyExists") => ApiErrorClass::AlreadyExists,
        (409, _) => ApiErrorClass::Conflict,
        (410, _) | (_, "Expired" | "Gone") => ApiErrorClass::Gone,
        (401, _) => ApiErrorClass::Unauthorized,
        (403, _) => ApiErrorClass::Forbidden,
        (429, _) => ApiErrorClass::Throttled(retry_after),
        (503, _) => ApiErrorClass::Throttled(retry_after),
        (504, _) => ApiErrorClass::Timeout,
        (500..=599, _) => ApiErrorClass::Server,
        (400..=499, _) => ApiErrorClass::Invalid,
        _ => ApiErrorClass::Malformed,
    };
    let message = match status
        .message
        .map(|message| shortened(message, MAX_MESSAGE_BYTES))
        .filter(|message| !message.is_empty())
    {
        Some(message) => message,
        None => format!("the server answered {code} {}", if reason.is_empty() { "without a reason" } else { &reason }),
    };
    let causes = details.causes.into_iter().take(MAX_CAUSES);
    let causes = causes.map(|cause| shortened(cause.reason, MAX_REASON_BYTES)).collect();
    ApiError { class, code, reason, message, causes }
}

/// Cuts a text and removes tokens, which a server may have copied from the request.
fn shortened(text: String, max_bytes: usize) -> String {
    without_tokens(cut(&text, max_bytes)).into_owned()
}

/// The error for an answer, or a part of one, that exceeds its maximum size.
pub(crate) fn too_large(what: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError { reason: TOO_LARGE.into(), ..malformed(what, why) }
}

/// The error for a request without an answer.
pub(crate) fn from_client(error: &kube::Error) -> ApiError {
    // The outer layers contain no detail.
    let message = match error {
        kube::Error::Service(why) => chain(why.source().unwrap_or(why.as_ref())),
        other => chain(other),
    };
    broken(error, message)
}

/// The error for a body that ends early.
pub(crate) fn from_body(error: &(dyn Error + 'static)) -> ApiError {
    broken(error, chain(error))
}

fn broken(error: &(dyn Error + 'static), message: String) -> ApiError {
    let failure = ApiError::transport(message);
    match is_timeout(error) {
        true => ApiError { class: ApiErrorClass::Timeout, ..failure },
        false => failure,
    }
}

/// Whether the cause is a timeout. The client's own timeouts and those of the operating system are I/O errors.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<tokio::time::error::Elapsed>() {
            return true;
        }
        cause = match error.downcast_ref::<io::Error>() {
            Some(error) if error.kind() == io::ErrorKind::TimedOut => return true,
            // The source of an I/O error is the source of the error that it wraps.
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    false
}

/// The error for an answer that cannot be parsed.
pub(crate) fn malformed(what: &str, why: impl std::fmt::Display) -> ApiError {
    ApiError {
        class: ApiErrorClass::Malformed,
        code: 0,
        reason: "Malformed".into(),
        message: format!("cannot read the server's {what}: {why}"),
        causes: Vec::new(),
    }
}

/// An error and its causes in one line, without causes that the text already contains.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_refusal_are_bounded() {
        let long = "x".repeat(100_000);
        let causes = vec![serde_json::json!({"reason": long}); 300];
        let status = serde_json::json!({"code": 422, "reason": long, "message": long, "details": {"causes": causes}});
        let error = from_response(StatusCode::UNPROCESSABLE_ENTITY, &HeaderMap::new(), status.to_string().as_bytes());
        assert_eq!((error.reason.len(), error.message.len()), (MAX_REASON_BYTES, MAX_MESSAGE_BYTES));
        assert!(error.causes.len() == MAX_CAUSES && error.causes.iter().all(|cause| cause.len() == MAX_REASON_BYTES));
    }

    #[test]
    fn failures_are_classified_by_code_and_reason() {
        let table = [
            (404, "NotFound", ApiErrorClass::NotFound),
            (409, "AlreadyExists", ApiErrorClass::AlreadyExists),
            (409, "Conflict", ApiErrorClass::Conflict),
            (410, "Expired", ApiErrorClass::Gone),
            (422, "Invalid", ApiErrorClass::Invalid),
            (403, "Forbidden", ApiErrorClass::Forbidden),
            (429, "TooManyRequests", ApiErrorClass::Throttled(Some(Duration::from_secs(3)))),
            (500, "InternalError", ApiErrorClass::Server),
            (504, "Timeout", ApiErrorClass::Timeout),
        ];
        for (code, reason, class) in table {
            let body = format!(
                r#"{{"kind":"Status","code":{code},"reason":"{reason}","message":"no","details":{{"retryAfterSeconds":3,"causes":[{{"reason":"Why"}}]}}}}"#
            );
            let error = from_response(StatusCode::from_u16(code).unwrap(), &HeaderMap::new(), body.as_bytes());
            assert_eq!(error.class, class, "{code} {reason}");
            assert_eq!((error.message.as_str(), error.causes.as_slice()), ("no", &["Why".to_owned()][..]));
        }
    }

    #[test]
    fn a_patch_of_another_object_is_a_conflict() {
        let class = |code, field: &str| {
            let cause = serde_json::json!({"reason": "FieldValueInvalid", "field": field});
            let status =
                serde_json::json!({"code": code, "reason": "Invalid", "message": "no", "details": {"causes": [cause]}});
            let error = from_response(StatusCode::OK, &HeaderMap::new(), status.to_string().as_bytes());
            (error.class, error.reason)
        };
        assert_eq!(class(422, "metadata.uid"), (ApiErrorClass::Conflict, "Conflict".to_owned()));
        assert_eq!(class(422, "spec.replicas"), (ApiErrorClass::Invalid, "Invalid".to_owned()));
        assert_eq!(class(403, "metadata.uid").0, ApiErrorClass::Forbidden);
    }

    #[test]
    fn timeouts_are_recognized_by_their_type() {
        let of = |kind, text: &'static str| {
            let inner = io::Error::new(kind, text);
            from_client(&kube::Error::Service(Box::new(io::Error::other(inner))))
        };
        let late = of(io::ErrorKind::TimedOut, "deadline");
        assert_eq!((late.class, late.message.as_str()), (ApiErrorClass::Timeout, "deadline"));
        assert_eq!(of(io::ErrorKind::ConnectionRefused, "refused").class, ApiErrorClass::Transport);
        // The server's text is arbitrary.
        assert_eq!(of(io::ErrorKind::Other, "webhook timed out").class, ApiErrorClass::Transport);
    }

    #[test]
    fn an_answer_that_is_not_a_status_keeps_its_text() {
        let error = from_response(StatusCode::BAD_GATEWAY, &HeaderMap::new(), b"upstream is away\n");
        assert_eq!((error.class, error.message.as_str()), (ApiErrorClass::Server, "upstream is away"));
        let error = from_response(StatusCode::SERVICE_UNAVAILABLE, &HeaderMap::new(), b"");
        assert_eq!(error.message, "the server answered 503 without a reason");
    }
}
