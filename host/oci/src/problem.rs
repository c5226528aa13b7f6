//! What goes wrong with registries, as a refusal: one word, and one line that says what to do.

use std::error::Error as StdError;

use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};

use crate::digest::Digest;
use crate::error::{Error, Reason};
use crate::reference::ArtifactRef;

/// Longest message of a registry that is repeated, in characters.
const MAX_QUOTED: usize = 300;

/// What something was, and what it had to be.
pub(crate) fn mismatch(what: &str, expected: Digest, found: Digest) -> Error {
    Error::new(Reason::DigestMismatch, format!("{what} has digest {found}, not {expected}"))
}

/// Why a request to a registry failed. `known` says whether there were credentials to show.
pub(crate) fn of_request(why: &OciDistributionError, reference: &ArtifactRef, known: bool) -> Error {
    let registry = &reference.registry;
    let denied = || {
        let text = if known {
            format!(
                "{reference}: {registry} refuses the credentials of docker's configuration: `docker login {registry}`"
            )
        } else {
            format!(
                "{reference}: {registry} wants credentials, and docker's configuration has none for it: `docker login {registry}`"
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

/// Why what a registry sends broke off.
pub(crate) fn of_stream(why: &std::io::Error, reference: &ArtifactRef) -> Error {
    match why.get_ref().and_then(|inner| inner.downcast_ref::<DigestError>()) {
        Some(why) => of_digest(why, reference),
        None => of_transport(why.get_ref().map_or(why, |inner| inner), reference),
    }
}

/// It took longer than it may.
pub(crate) fn too_slow(reference: &ArtifactRef) -> Error {
    let registry = &reference.registry;
    Error::new(Reason::RegistryUnreachable, format!("{reference}: {registry} takes too long to answer"))
}

fn of_digest(why: &DigestError, reference: &ArtifactRef) -> Error {
    let text = match why {
        DigestError::VerificationError { expected, actual } => format!("it has digest {actual}, not {expected}"),
        why => why.to_string(),
    };
    Error::new(
        Reason::DigestMismatch,
        format!("{reference}: what the registry sends is not what it was asked for: {text}"),
    )
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
        format!("no host is called {registry}: {}", quoted(&cause))
    } else if all.contains("invalid peer certificate: UnknownIssuer")
        || all.contains("invalid peer certificate: BadSignature")
    {
        format!(
            "nobody known vouches for the certificate of {registry}; name its authority with --registry-ca-file FILE"
        )
    } else if all.contains("InvalidContentType") || all.contains("wrong version number") {
        format!("{registry} does not speak TLS; if that is meant to be so, say --plain-http {registry}")
    } else if all.contains("timed out") {
        format!("{registry} takes too long to answer")
    } else {
        format!("cannot talk to {registry}: {}", quoted(&cause))
    };
    Error::new(Reason::RegistryUnreachable, format!("{reference}: {text}"))
}

/// In one line, of bounded length, without what a terminal would obey: it is from outside.
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
    fn a_refusal_says_what_to_do() {
        let url = || "https://r.example.com/v2/".to_owned();
        let server =
            |code, message: &str| OciDistributionError::ServerError { code, url: url(), message: message.into() };
        assert_eq!(
            check(&OciDistributionError::UnauthorizedError { url: url() }, false),
            "RegistryDenied: oci://r.example.com/a:1: r.example.com wants credentials, and docker's configuration has none for it: \
             `docker login r.example.com`"
        );
        assert!(check(&server(403, ""), true).contains("refuses the credentials"));
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
        assert!(check(&why.into(), true).ends_with("it has digest sha256:bb, not sha256:aa"));
    }
}
