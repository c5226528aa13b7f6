//! Errors of pulling, pushing, reading and trusting components.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// An error of pulling, pushing, reading or trusting a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind of the error, for programs.
    pub reason: Reason,
    /// The message for users: one line with the component and the next step.
    pub message: String,
}

impl Error {
    /// An error with this reason and message.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A component, manifest or signature exceeds its limit.
    TooLarge,
    /// Content does not have the expected digest.
    DigestMismatch,
    /// The registry is unreachable, or a transfer broke off.
    RegistryUnreachable,
    /// The registry's response is unusable.
    RegistryFailed,
    /// The registry requires other credentials.
    RegistryDenied,
    /// The registry has no such artifact.
    NoSuchArtifact,
    /// The artifact is not a single Wasm component.
    NotWasm,
    /// A signature is required, and there is none.
    Unsigned,
    /// There are signatures, but none is by a trusted key.
    Untrusted,
    /// A file cannot be read.
    Unreadable,
}

impl Reason {
    /// All reasons.
    const ALL: [Self; 10] = [
        Self::TooLarge,
        Self::DigestMismatch,
        Self::RegistryUnreachable,
        Self::RegistryFailed,
        Self::RegistryDenied,
        Self::NoSuchArtifact,
        Self::NotWasm,
        Self::Unsigned,
        Self::Untrusted,
        Self::Unreadable,
    ];

    /// The reason as one word in CamelCase.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "TooLarge",
            Self::DigestMismatch => "DigestMismatch",
            Self::RegistryUnreachable => "RegistryUnreachable",
            Self::RegistryFailed => "RegistryFailed",
            Self::RegistryDenied => "RegistryDenied",
            Self::NoSuchArtifact => "NoSuchArtifact",
            Self::NotWasm => "NotWasm",
            Self::Unsigned => "Unsigned",
            Self::Untrusted => "Untrusted",
            Self::Unreadable => "Unreadable",
        }
    }

    /// The delay after which a retry of the same request may succeed; `None` if a retry does not help.
    pub fn retry_after(self) -> Option<Duration> {
        match self {
            Self::RegistryUnreachable => Some(Duration::from_secs(30)),
            // An operator may push, sign or log in in the meantime; no event reports it.
            Self::RegistryDenied | Self::NoSuchArtifact | Self::Unsigned | Self::Untrusted => {
                Some(Duration::from_secs(300))
            }
            Self::TooLarge | Self::DigestMismatch | Self::RegistryFailed | Self::NotWasm | Self::Unreadable => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not one of these reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown reason")]
pub struct UnknownReason;

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownReason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_parsed_from_its_text() {
        for (at, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at, "every reason is listed, in its order");
            assert_eq!(reason.to_string().parse(), Ok(reason));
        }
        assert_eq!("Busy".parse::<Reason>(), Err(UnknownReason));
    }
}
