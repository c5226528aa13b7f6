//! Errors of a run.

use std::fmt;
use std::time::Duration;

use crate::need::Need;

/// The reason why a run has no outcome. `?` converts every error of the SDK.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A possibly temporary error: the key is retried after the queue's backoff, or after `after`.
    Retry {
        /// Message for the log.
        message: String,
        /// Replaces the queue's own backoff.
        after: Option<Duration>,
    },
    /// A retry does not help until the cluster changes.
    Terminal(String),
    /// The run needs live reads. The host does them and calls again, so this is not a failure; it is an `Error` so that
    /// `?` ends the run.
    Needs(Vec<Need>),
}

impl Error {
    /// A possibly temporary error.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::Retry { message: message.into(), after: None }
    }

    /// A possibly temporary error, retried after `after`.
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
    /// Terminal: an object that does not fit its type stays so until it changes.
    fn from(error: serde_json::Error) -> Self {
        Self::Terminal(format!("decode: {error}"))
    }
}
