//! Converts registry errors into [`Error`]s: a reason, and one line with the next step.

use std::error::Error as StdError;

use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::reference::ArtifactRef;

/// Longest registry message that an error repeats, in characters.
const MAX_QUOTED: usize = 300;

/// The error for content with a wrong digest.
pub(crate) fn mismatch(what: &str, expected: Digest, found: Digest) -> Error {
    Error::new(Reason::DigestMismatch, format!("{what} has digest {found}; expected {expected}"))
}

/// The error for a failed request. `known`: the request had credentials.
pub(crate) fn of_request(why: &OciDistributionError, reference: &ArtifactRef, known: bool) -> Error {
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
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => denied(),
        OciDistributionError::ServerError { code: 401 | 403, .. } => denied(),
        OciDistributionError::ServerError { code: 404, .. } | OciDistributionError::ImageManifestNotFoundError(_) => {
            missing()
        }
        OciDistributionError::ServerError { code: code @ (429 | 500..), message, .. } => Error::new(
            Reason::RegistryUnreachable,
            format!("{reference}: {registry} answers {code}: {}", quoted(message)),
        ),
        OciDistributionError::RegistryError { envelope, .. } => {
            let codes = || envelope.errors.iter().map(|error| &error.code);
            let is_denied = |code: &OciErrorCode| matches!(code, OciErrorCode::Unauthorized | OciErrorCode::Denied);
            let is_missing = |code: &OciErrorCode| {
                matches!(
                    code,
                    OciErrorCode::ManifestUnknown
                        | OciErrorCode::NameUnknown
                        | OciErrorCode::BlobUnknown
                        | OciErrorCode::ManifestBlobUnknown
                        | OciErrorCode::NotFound
                )
            };
            if codes().any(is_denied) {
                denied()
            } else if codes().any(is_missing) {
                missing()
            } else {
                other(envelope.to_string())
            }
        }
        OciDistributionError::DigestError(why) => of_digest(why, reference),
        OciDistributionError::RequestError(why) => match why.status().map(|status| status.as_u16()) {
            Some(401 | 403) => denied(),
            Some(404) => missing(),
            _ => of_transport(why, reference),
        },
        OciDistributionError::IoError(why) => of_stream(why, reference),
        why => other(why.to_string()),
    }
}

/// The error for a transfer that broke off.
pub(crate) fn of_stream(why: &std::io::Error, reference: &ArtifactRef) -> Error {
    match why.get_ref().and_then(|inner| inner.downcast_ref::<DigestError>()) {
        Some(why) => of_digest(why, reference),
        None => of_transport(why.get_ref().map_or(why, |inner| inner), reference),
    }
}

/// The error for a timeout.
pub(crate) fn too_slow(reference: &ArtifactRef) -> Error {
    let registry = &reference.registry;
    Error::new(Reason::RegistryUnreachable, format!("{reference}: {registry} did not answer in time"))
}

fn of_digest(why: &DigestError, reference: &ArtifactRef) -> Error {
    let text = match why {
        DigestError::VerificationError { expected, actual } => format!("it has digest {actual}; expected {expected}"),
        why => why.to_string(),
    };
    Error::new(Reason::DigestMismatch, format!("{reference}: the registry sent other content than requested: {text}"))
}

fn of_transport(why: &(dyn StdError + 'static), reference: &ArtifactRef) -> Error {
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

    fn check(why: &OciDistributionError, known: bool) -> String {
        let reference = "oci://r.example.com/a:1".parse().unwrap();
        let why = of_request(why, &reference, known);
        format!("{}: {}", why.reason, why.message)
    }

    #[test]
    fn errors_name_the_next_step() {
        let url = || "https://r.example.com/v2/".to_owned();
        let server =
            |code, message: &str| OciDistributionError::ServerError { code, url: url(), message: message.into() };
        assert_eq!(
            check(&OciDistributionError::UnauthorizedError { url: url() }, false),
            "RegistryDenied: oci://r.example.com/a:1: r.example.com requires credentials, and docker's configuration has none for it; \
             run `docker login r.example.com`"
        );
        assert!(check(&server(403, ""), true).contains("rejected the credentials"));
        assert_eq!(
            check(&server(404, ""), true),
            "NoSuchArtifact: oci://r.example.com/a:1: r.example.com has no such artifact"
        );
        assert_eq!(
            check(&server(503, "\x1b[31mbusy\n"), true),
            "RegistryUnreachable: oci://r.example.com/a:1: r.example.com answers 503: [31mbusy"
        );
        let envelope = serde_json::from_str(r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#).unwrap();
        assert!(
            check(&OciDistributionError::RegistryError { envelope, url: url() }, true).starts_with("NoSuchArtifact")
        );
        let why = DigestError::VerificationError { expected: "sha256:aa".into(), actual: "sha256:bb".into() };
        assert!(check(&why.into(), true).ends_with("it has digest sha256:bb; expected sha256:aa"));
    }
}
