//! Why a run has no outcome.

use std::fmt;
use std::time::Duration;

use crate::need::Need;

/// Why a run has no outcome. `?` works on everything that the SDK returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// Something that may pass: the key is tried again after the queue's backoff, or after `after`.
    Retry {
        /// For the log.
        message: String,
        /// Replaces the queue's own backoff.
        after: Option<Duration>,
    },
    /// A retry is useless until the cluster changes.
    Terminal(String),
    /// The run needs reads from the API server itself. The host does them and calls again, so this is not a failure;
    /// it is an `Error` so that `?` ends the run.
    Needs(Vec<Need>),
}

impl Error {
    /// An error that may pass.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry { message: message.into(), after: None }
    }

    /// An error that may pass within `after`.
    pub fn retry_after(message: impl Into<String>, after: Duration) -> Self {
        Self::Retry { message: message.into(), after: Some(after) }
    }

    /// An error that only a change in the cluster can resolve.
    pub fn terminal(message: impl Into<String>) -> Self {
        Self::Terminal(message.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retry { message, .. } | Self::Terminal(message) => f.write_str(message),
            Self::Needs(needs) => write!(f, "{} reads from the API server are needed", needs.len()),
        }
    }
}

impl std::error::Error for Error {}

impl From<serde_json::Error> for Error {
    /// An object that does not fit its type stays so until it changes.
    fn from(error: serde_json::Error) -> Self {
        Self::Terminal(format!("decode: {error}"))
    }
}
