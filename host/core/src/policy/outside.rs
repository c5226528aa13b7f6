//! Decisions about needs outside of the API server: signatures and calls.
//!
//! Not here: signing and sending (`ports::outside`).
//!
//! Source: `pkg/controller/certificates/authority/policies.go` for the validity of certificates.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::contract::outcome::{CertificateRequest, Need, NeedError};
use crate::text::cut;

/// Maximum bytes of a token's claims.
pub const MAX_CLAIMS_BYTES: usize = 64 << 10;
/// Maximum bytes of a certificate request, in PEM.
pub const MAX_REQUEST_BYTES: usize = 64 << 10;
/// Maximum usages of a certificate; `certificates.k8s.io` has fewer.
pub const MAX_USAGES: usize = 64;
/// Maximum signatures and calls of one run, over all its rounds.
pub const MAX_PER_RUN: usize = 256;
/// Default timeout of a call, which is also the longest timeout.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of an endpoint's refusal message.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Reasons that only the host uses. An endpoint cannot return them.
const OWN_REASONS: [&str; 9] =
    ["Expired", "Malformed", "NotGranted", "NotLeading", "Stopping", "Timeout", "TooLarge", "TooMany", "Transport"];

/// Whether a need is a signature or a call.
pub fn is_outside(need: &Need) -> bool {
    matches!(need, Need::SignJwt { .. } | Need::SignCertificate(_) | Need::Call { .. })
}

/// The denial of a signature or call without a binding, with the flag that the operator must add.
pub fn unbound(need: &Need, plugin: &str) -> Option<NeedError> {
    let message = match need {
        Need::SignJwt { key, .. } => {
            format!("no key is bound to setting {key:?}; start the host with --set '{}'", key_flag(plugin, key))
        }
        Need::SignCertificate(CertificateRequest { authority, .. }) => format!(
            "no authority is bound to setting {authority:?}; start the host with --set '{}'",
            authority_flag(plugin, authority)
        ),
        Need::Call { endpoint, .. } => format!(
            "nothing is bound to endpoint {endpoint:?}; start the host with --endpoint '{}'",
            endpoint_flag(plugin, endpoint)
        ),
        _ => return None,
    };
    Some(refused("NotGranted", message))
}

/// The value of `--set` that binds a key.
pub fn key_flag(plugin: &str, setting: &str) -> String {
    format!(r#"{plugin}.{setting}={{"file": "/path/of/key.pem"}}"#)
}

/// The value of `--set` that binds an authority.
pub fn authority_flag(plugin: &str, setting: &str) -> String {
    format!(r#"{plugin}.{setting}={{"certificate": "/path/of/ca.crt", "key": "/path/of/ca.key"}}"#)
}

/// The value of `--endpoint` that binds an endpoint.
pub fn endpoint_flag(plugin: &str, endpoint: &str) -> String {
    format!("{plugin}.{endpoint}=https://HOST/PATH")
}

/// Checks the sizes and texts of a signature or call. Both may come from objects, so a violation is a refusal and not a
/// fault.
///
/// # Errors
/// `TooLarge` or `Malformed`; a retry does not help.
pub fn check(need: &Need) -> Result<(), NeedError> {
    match need {
        Need::SignJwt { claims, .. } => {
            within("the claims have", claims.len(), MAX_CLAIMS_BYTES)?;
            match serde_json::from_str::<Map<String, Value>>(claims) {
                Ok(_) => Ok(()),
                Err(why) => Err(refused("Malformed", format!("the claims are not a JSON object: {why}"))),
            }
        }
        Need::SignCertificate(CertificateRequest { request, usages, .. }) => {
            within("the certificate request has", request.len(), MAX_REQUEST_BYTES)?;
            match usages.len() {
                n if n > MAX_USAGES => {
                    Err(refused("TooLarge", format!("the certificate has {n} usages, more than {MAX_USAGES}")))
                }
                _ => Ok(()),
            }
        }
        Need::Call { body, .. } => match serde_json::from_str::<&serde_json::value::RawValue>(body) {
            Ok(_) => Ok(()),
            Err(why) => Err(refused("Malformed", format!("the body of the call is not JSON: {why}"))),
        },
        _ => Ok(()),
    }
}

fn within(what: &str, n_bytes: usize, most: usize) -> Result<(), NeedError> {
    match n_bytes <= most {
        true => Ok(()),
        false => Err(refused("TooLarge", format!("{what} {n_bytes} bytes, more than {most}"))),
    }
}

/// The refusal of signatures and calls beyond the maximum of a run.
pub fn too_many() -> NeedError {
    refused(
        "TooMany",
        format!("a run may have {MAX_PER_RUN} signatures and calls; leave the rest to other keys or later runs"),
    )
}

/// A refusal without a status code.
pub fn refused(reason: &str, message: impl Into<String>) -> NeedError {
    NeedError { code: 0, reason: reason.to_owned(), message: message.into() }
}

/// Validity period of a certificate, in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: Timestamp,
    /// The last second.
    pub not_after: Timestamp,
}

impl Validity {
    /// The requested validity (in RFC 3339), cut to the end of the authority's own certificate.
    ///
    /// # Errors
    /// `Expired` if the authority has expired; `Malformed` if a text is not an RFC 3339 time. A retry does not help.
    pub fn new(
        not_before: &str,
        not_after: &str,
        authority_not_after: Timestamp,
        now: Timestamp,
    ) -> Result<Self, NeedError> {
        let parse = |name: &str, text: &str| {
            let time = text.parse::<Timestamp>().ok().filter(|time| *time >= Timestamp::UNIX_EPOCH);
            let time = time.and_then(|time| Timestamp::from_second(time.as_second()).ok());
            let wrong =
                || format!("{name} {text:?} is not a time in RFC 3339 from 1970 on, for example 2026-01-02T15:04:05Z");
            time.ok_or_else(|| refused("Malformed", wrong()))
        };
        let not_before = parse("not-before", not_before)?;
        let not_after = parse("not-after", not_after)?.min(authority_not_after);
        if now >= authority_not_after || not_before >= authority_not_after {
            return Err(refused(
                "Expired",
                format!("the authority's own certificate is valid until {authority_not_after}"),
            ));
        }
        if not_after < not_before {
            return Err(refused(
                "Malformed",
                format!("the certificate would end, at {not_after}, before {not_before}, when it begins"),
            ));
        }
        Ok(Self { not_before, not_after })
    }
}

/// The fields of a Kubernetes Status that an endpoint may return after a failure.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    reason: String,
    message: String,
}

/// The refusal for an answer with this HTTP status code. `retry_after` is the header; `body` the beginning of the
/// answer, which may be a Kubernetes Status with `reason` and `message`.
pub fn refusal_of(code: u16, retry_after: Option<&str>, body: &str) -> NeedError {
    let reason = match code {
        300..=399 => "Redirect",
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        408 | 504 => "Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        501 => "NotImplemented",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    };
    let status: Status = serde_json::from_str(body).unwrap_or_default();
    let is_word = |reason: &str| {
        reason.len() <= 63
            && reason.starts_with(|first: char| first.is_ascii_uppercase())
            && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_redirect = (300..=399).contains(&code);
    let reason = match status.reason.as_str() {
        named if !is_redirect && is_word(named) && !OWN_REASONS.contains(&named) => named,
        _ => reason,
    };
    let mut message = format!("the endpoint answered {code}");
    if is_redirect {
        message.push_str(", a redirect, which is not followed: bind the endpoint to its final address");
    }
    if let Some(delay) = retry_after.filter(|_| matches!(code, 429 | 503)) {
        let unit = if delay.bytes().all(|byte| byte.is_ascii_digit()) { " s" } else { "" };
        message.push_str(&format!(", retry after {}{unit}", cut(delay, 64)));
    }
    if !status.message.is_empty() {
        message.push_str(": ");
        message.push_str(&status.message);
    }
    NeedError { code, reason: reason.to_owned(), message: cut(&message, MAX_MESSAGE_BYTES).to_owned() }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn shown(result: Result<impl std::fmt::Debug, NeedError>) -> String {
        result.map_or_else(
            |NeedError { code, reason, message }| format!("{code} {reason}: {message}"),
            |ok| format!("{ok:?}"),
        )
    }

    #[test]
    fn sizes_and_texts_that_may_come_from_objects_are_refusals() {
        let check = |need: Need| shown(check(&need));
        let jwt = |claims: String| Need::SignJwt { key: "k".into(), claims };
        // The text is enclosed in six bytes.
        assert_eq!(check(jwt(format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_CLAIMS_BYTES - 8)))), "()");
        assert_eq!(
            check(jwt(format!(r#"{{"a":"{}"}}"#, "x".repeat(MAX_CLAIMS_BYTES - 7)))),
            "0 TooLarge: the claims have 65537 bytes, more than 65536"
        );
        for wrong in ["", "[]", "{", "{}x", "1"] {
            assert!(check(jwt(wrong.into())).starts_with("0 Malformed: the claims are not a JSON object"), "{wrong}");
        }
        let certificate = |n_bytes: usize, n_usages: usize| {
            Need::SignCertificate(CertificateRequest {
                authority: "a".into(),
                request: "x".repeat(n_bytes),
                usages: vec![String::new(); n_usages],
                not_before: String::new(),
                not_after: String::new(),
            })
        };
        assert_eq!(check(certificate(MAX_REQUEST_BYTES, MAX_USAGES)), "()");
        assert!(check(certificate(MAX_REQUEST_BYTES + 1, 0)).starts_with("0 TooLarge: the certificate request has"));
        assert!(check(certificate(0, MAX_USAGES + 1)).starts_with("0 TooLarge: the certificate has 65 usages"));
        let call = |body: &str| {
            let (endpoint, operation) = ("e".into(), "o".into());
            check(Need::Call { endpoint, operation, body: body.into(), timeout: None })
        };
        assert_eq!([call("{}"), call("1"), call("null")], ["()", "()", "()"]);
        assert!(call("").starts_with("0 Malformed: the body of the call is not JSON"));
        assert!(call("{} {}").starts_with("0 Malformed"));
    }

    #[test]
    fn a_certificate_ends_with_its_authority_and_an_expired_one_signs_nothing() {
        let at = |text: &str| format!("2026-01-0{text}T00:00:00Z").parse::<Timestamp>().unwrap();
        let check = |from: &str, until: &str, now: &str, expect: Expect| {
            expect.assert_eq(&shown(Validity::new(from, until, at("5"), at(now))));
        };
        check(
            "2026-01-01T00:00:00.9Z",
            "2026-01-02T00:00:00+01:00",
            "1",
            expect!["Validity { not_before: 2026-01-01T00:00:00Z, not_after: 2026-01-01T23:00:00Z }"],
        );
        check(
            "2026-01-01T00:00:00Z",
            "2030-01-01T00:00:00Z",
            "4",
            expect!["Validity { not_before: 2026-01-01T00:00:00Z, not_after: 2026-01-05T00:00:00Z }"],
        );
        check(
            "2026-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z",
            "5",
            expect!["0 Expired: the authority's own certificate is valid until 2026-01-05T00:00:00Z"],
        );
        check(
            "2026-01-05T00:00:00Z",
            "2026-01-06T00:00:00Z",
            "1",
            expect!["0 Expired: the authority's own certificate is valid until 2026-01-05T00:00:00Z"],
        );
        check(
            "2026-01-02T00:00:01Z",
            "2026-01-02T00:00:00Z",
            "1",
            expect![
                "0 Malformed: the certificate would end, at 2026-01-02T00:00:00Z, before 2026-01-02T00:00:01Z, when it begins"
            ],
        );
        for wrong in ["", "tomorrow", "2026-01-01", "1969-12-31T23:59:59Z"] {
            let why = shown(Validity::new(wrong, "2026-01-02T00:00:00Z", at("5"), at("1")));
            assert!(why.starts_with("0 Malformed: not-before"), "{why}");
        }
    }

    #[test]
    fn status_codes_have_reasons_and_an_endpoint_may_name_another_one() {
        let check = |code, retry_after, body, expect: Expect| {
            expect.assert_eq(&shown(Err::<(), _>(refusal_of(code, retry_after, body))))
        };
        check(404, None, "no", expect!["404 NotFound: the endpoint answered 404"]);
        check(501, None, "", expect!["501 NotImplemented: the endpoint answered 501"]);
        check(
            501,
            None,
            r#"{"kind":"Status","reason":"ImplementedElsewhere","message":"by the vendor"}"#,
            expect!["501 ImplementedElsewhere: the endpoint answered 501: by the vendor"],
        );
        check(429, Some("30"), "", expect!["429 TooManyRequests: the endpoint answered 429, retry after 30 s"]);
        check(
            503,
            Some("Wed, 21 Oct 2026 07:28:00 GMT"),
            "",
            expect!["503 ServiceUnavailable: the endpoint answered 503, retry after Wed, 21 Oct 2026 07:28:00 GMT"],
        );
        check(500, Some("30"), "", expect!["500 InternalError: the endpoint answered 500"]);
        check(
            302,
            None,
            r#"{"reason":"Moved"}"#,
            expect![
                "302 Redirect: the endpoint answered 302, a redirect, which is not followed: bind the endpoint to its final address"
            ],
        );
        // Endpoints cannot use the host's own reasons.
        check(403, None, r#"{"reason":"NotGranted"}"#, expect!["403 Forbidden: the endpoint answered 403"]);
        check(418, None, r#"{"reason":"two words"}"#, expect!["418 Unknown: the endpoint answered 418"]);
        let long = format!(r#"{{"message":"{}"}}"#, "é".repeat(1000));
        assert!(refusal_of(400, None, &long).message.len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn a_denial_names_what_the_operator_must_write() {
        let jwt = Need::SignJwt { key: "key".into(), claims: "{}".into() };
        let call = Need::Call { endpoint: "desk".into(), operation: "o".into(), body: "{}".into(), timeout: None };
        let text = |need: &Need| unbound(need, "errand").map(|denied| format!("{}: {}", denied.reason, denied.message));
        expect![[r#"NotGranted: no key is bound to setting "key"; start the host with --set 'errand.key={"file": "/path/of/key.pem"}'"#]].assert_eq(&text(&jwt).unwrap());
        expect![[r#"NotGranted: nothing is bound to endpoint "desk"; start the host with --endpoint 'errand.desk=https://HOST/PATH'"#]].assert_eq(&text(&call).unwrap());
        assert_eq!(text(&Need::Discovery), None);
    }
}
