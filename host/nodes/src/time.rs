//! Timestamps in the text formats of the Kubernetes API.

use jiff::Timestamp;

/// A time as `metav1.Time`: UTC in whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A time as `metav1.MicroTime`.
pub(crate) fn rfc3339_micro(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
