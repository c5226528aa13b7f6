//! Bootstrap tokens: Secrets of the type `bootstrap.kubernetes.io/token`, with which Nodes join.
//!
//! *Source*: `util/secrets` of cluster-bootstrap.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sdk::time::Timestamp;

/// Expiration of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// It never expires.
    Never,
    /// It expires at this time.
    At(Timestamp),
    /// It has expired, or its time cannot be parsed.
    Expired,
}

/// A value of a Secret's `data`, decoded from base64; empty if it is absent.
#[doc(alias = "GetData")]
pub fn value(data: Option<&str>) -> Vec<u8> {
    data.and_then(|data| BASE64_STANDARD.decode(data).ok()).unwrap_or_default()
}

/// The expiration in the entry `expiration` of the token's `data`.
///
/// ```
/// use pintle_sdk::time::Timestamp;
/// use plugin_lib::bootstrap_token::{Expiration, expiration};
///
/// let now = Timestamp::from_micros(0);
/// assert_eq!(expiration(None, now), Expiration::Never);
/// // 1970-01-01T00:00:01Z
/// let second = Timestamp::from_micros(1_000_000);
/// assert_eq!(expiration(Some("MTk3MC0wMS0wMVQwMDowMDowMVo="), now), Expiration::At(second));
/// assert_eq!(expiration(Some("MTk3MC0wMS0wMVQwMDowMDowMVo="), second), Expiration::Expired);
/// ```
#[doc(alias = "GetExpiration")]
pub fn expiration(data: Option<&str>, now: Timestamp) -> Expiration {
    let text = value(data);
    if text.is_empty() {
        return Expiration::Never;
    }
    let time = std::str::from_utf8(&text).ok().and_then(Timestamp::parse);
    time.filter(|time| *time > now).map_or(Expiration::Expired, Expiration::At)
}
