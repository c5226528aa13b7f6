//! Converts registry errors into [`Error`]s: a reason, and one line with the next step.

use std::error::Error as StdError;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::reference::ArtifactRef;
use crate::transport::Failure;

/// Most characters of a registry message in an error.
const MAX_QUOTED: usize = 300;

/// The error for content with a wrong digest.
pub(crate) fn mismatch(what: &str, expected: Digest, found: Digest) -> Error {
    Error::new(Reason::DigestMismatch, format!("{what} has digest {found}; expected {expected}"))
}

/// The error for a failed request. `known`: the request had credentials.
pub(crate) fn of_request(why: &Failure, reference: &ArtifactRef, known: bool) -> Error {
    let registry = &reference.registry;
    let denied = || {
        let text = if known {
            format!(
                "{reference}: {registry} rejected the credentials of docker's configuration; run `docker login {registry}`"
            )
        } else {
            format!(
                "{reference}: {registry} requires credentials, and docker's configuration has none for it; run `docker login {registry}`"
            )
        };
        Error::new(Reason::RegistryDenied, text)
    };
    let missing = || Error::new(Reason::NoSuchArtifact, format!("{reference}: {registry} has no such artifact"));
    let other = |text: String| Error::new(Reason::RegistryFailed, format!("{reference}: {}", quoted(&text)));
    match why {
        Failure::Denied | Failure::Status(401 | 403, _) => denied(),
        Failure::Status(404, _) => missing(),
        Failure::Status(code @ (429 | 500..), text) => Error::new(
            Reason::RegistryUnreachable,
            format!("{reference}: {registry} answers {code}: {}", quoted(&errors(text).1)),
        ),
        Failure::Status(code, text) => {
            let (codes, message) = errors(text);
            let is_any = |of: &[&str]| codes.iter().any(|code| of.contains(&code.as_str()));
            if is_any(&["UNAUTHORIZED", "DENIED"]) {
                denied()
            } else if is_any(&["MANIFEST_UNKNOWN", "NAME_UNKNOWN", "BLOB_UNKNOWN", "MANIFEST_BLOB_UNKNOWN"]) {
                missing()
            } else {
                other(format!("{registry} answers {code}: {message}"))
            }
        }
        Failure::TooLong(limit) => {
            let text =
                format!("{reference}: {registry} sends more than the {limit} bytes that such an answer may have");
            Error::new(Reason::TooLarge, text)
        }
        Failure::Unusable(why) => other(format!("{registry}: {why}")),
        Failure::Elsewhere(why) => Error::new(
            Reason::RegistryUnreachable,
            format!("{reference}: {registry}: {why}; the log has the cause at level debug"),
        ),
        Failure::Transport(why) => of_transport(why, reference),
    }
}

/// The error codes of a response, as in the distribution specification, with their messages; else the text itself.
fn errors(text: &str) -> (Vec<String>, String) {
    #[derive(Deserialize)]
    struct Envelope {
        errors: Vec<Item>,
    }
    #[derive(Deserialize)]
    #[serde(default)]
    #[derive(Default)]
    struct Item {
        code: String,
        message: String,
    }
    match serde_json::from_str::<Envelope>(text) {
        Ok(Envelope { errors }) => {
            let texts: Vec<String> = errors.iter().map(|item| format!("{} {}", item.code, item.message)).collect();
            (errors.into_iter().map(|item| item.code).collect(), texts.join(", "))
        }
        Err(_) => (Vec::new(), text.to_owned()),
    }
}

/// The error for a timeout.
pub(crate) fn too_slow(reference: &ArtifactRef) -> Error {
    let registry = &reference.registry;
    Error::new(Reason::RegistryUnreachable, format!("{reference}: {registry} did not answer in time"))
}

/// The error for a request without a response, or an interrupted transfer.
pub(crate) fn of_transport(why: &(dyn StdError + 'static), reference: &ArtifactRef) -> Error {
    let registry = &reference.registry;
    let mut cause = why.to_string();
    let mut all = cause.clone();
    let mut next = why.source();
    while let Some(inner) = next {
        cause = inner.to_string();
        all = format!("{all}: {cause}");
        next = inner.source();
    }
    let text = if all.contains("failed to lookup address") || all.contains("dns error") {
        format!("unknown host {registry}: {}", quoted(&cause))
    } else if all.contains("invalid peer certificate: UnknownIssuer")
        || all.contains("invalid peer certificate: BadSignature")
    {
        format!(
            "the certificate of {registry} is signed by an unknown authority; name the authority with --registry-ca-file FILE"
        )
    } else if all.contains("InvalidContentType") || all.contains("wrong version number") {
        format!("{registry} does not speak TLS; if that is intended, use --plain-http {registry}")
    } else if all.contains("timed out") {
        format!("{registry} did not answer in time")
    } else {
        format!("cannot connect to {registry}: {}", quoted(&cause))
    };
    Error::new(Reason::RegistryUnreachable, format!("{reference}: {text}"))
}

/// Escapes and shortens untrusted text to one line without terminal control characters.
fn quoted(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(MAX_QUOTED).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(why: &Failure, known: bool) -> String {
        let reference = "oci://r.example.com/a:1".parse().unwrap();
        let why = of_request(why, &reference, known);
        format!("{}: {}", why.reason, why.message)
    }

    #[test]
    fn errors_name_the_next_step() {
        let answer = |code, text: &str| Failure::Status(code, text.to_owned());
        assert_eq!(
            check(&answer(401, ""), false),
            "RegistryDenied: oci://r.example.com/a:1: r.example.com requires credentials, and docker's configuration has none for it; \
             run `docker login r.example.com`"
        );
        assert!(check(&answer(403, ""), true).contains("rejected the credentials"));
        assert!(check(&Failure::Denied, true).contains("rejected the credentials"));
        assert_eq!(
            check(&answer(404, ""), true),
            "NoSuchArtifact: oci://r.example.com/a:1: r.example.com has no such artifact"
        );
        assert_eq!(
            check(&answer(503, "\x1b[31mbusy\n"), true),
            "RegistryUnreachable: oci://r.example.com/a:1: r.example.com answers 503: [31mbusy"
        );
        let unknown = r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#;
        assert!(check(&answer(400, unknown), true).starts_with("NoSuchArtifact"));
        let denied = r#"{"errors":[{"code":"DENIED", "message": "no"}]}"#;
        assert!(check(&answer(400, denied), true).starts_with("RegistryDenied"));
        let size = r#"{"errors":[{"code":"SIZE_INVALID", "message": "too small", "detail": {}}]}"#;
        assert_eq!(
            check(&answer(400, size), true),
            "RegistryFailed: oci://r.example.com/a:1: r.example.com answers 400: SIZE_INVALID too small"
        );
        assert_eq!(
            check(&Failure::Unusable("it redirects to nowhere".to_owned()), true),
            "RegistryFailed: oci://r.example.com/a:1: r.example.com: it redirects to nowhere"
        );
        assert!(
            check(&Failure::TooLong(7), true)
                .starts_with("TooLarge: oci://r.example.com/a:1: r.example.com sends more")
        );
    }
}
