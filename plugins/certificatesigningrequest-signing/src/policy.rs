//! The policy of signers: allowed requests, and the duration of certificates.

use std::time::Duration;

use pintle_sdk::time::Timestamp;
use plugin_lib::certificates::Request;

use crate::authority::Signer;

/// Certificates start earlier by this time, because clocks differ.
#[doc(alias = "Backdate")]
const BACKDATE: Duration = Duration::from_secs(5 * 60);

/// A certificate with a shorter duration keeps it in full after the present, despite the earlier start.
#[doc(alias = "Short")]
const SHORT: Duration = Duration::from_secs(8 * 3600);

/// Shortest duration that a request can have, unless the signer's is shorter.
const SHORTEST: Duration = Duration::from_secs(10 * 60);

impl Signer {
    /// Checks that the signer allows the request.
    ///
    /// # Errors
    /// The problem, in upstream's words.
    #[doc(alias = "isKubeletServing")]
    #[doc(alias = "isKubeletClient")]
    #[doc(alias = "isKubeAPIServerClient")]
    #[doc(alias = "isLegacyUnknown")]
    pub(crate) fn validate(self, request: &Request, usages: &[String]) -> Result<(), String> {
        match self {
            Self::KubeletServing => request.validate_kubelet_serving(usages),
            Self::KubeletClient => request.validate_kubelet_client(usages),
            Self::KubeApiserverClient => valid_client_usages(usages),
            Self::LegacyUnknown => Ok(()),
        }
    }
}

#[doc(alias = "validAPIServerClientUsages")]
fn valid_client_usages(usages: &[String]) -> Result<(), String> {
    const CLIENT_AUTH: &str = "client auth";
    let is_valid = |usage: &&String| ["digital signature", "key encipherment", CLIENT_AUTH].contains(&usage.as_str());
    if let Some(other) = usages.iter().find(|usage| !is_valid(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    let has_client_auth = usages.iter().any(|usage| usage == CLIENT_AUTH);
    has_client_auth.then_some(()).ok_or_else(|| format!("missing required usage for client certificate: {CLIENT_AUTH}"))
}

/// The duration of a certificate: that of the request, within the signer's limits.
pub(crate) fn duration(asked_seconds: Option<i32>, longest: Duration) -> Duration {
    let Some(asked) = asked_seconds else { return longest };
    // The API server rejects a negative number.
    let asked = Duration::from_secs(asked.try_into().unwrap_or_default());
    if asked > longest { longest } else { asked.max(SHORTEST) }
}

/// The start and the end. The host limits the end to that of the authority.
#[doc(alias = "PermissiveSigningPolicy")]
pub(crate) fn validity(duration: Duration, now: Timestamp) -> (Timestamp, Timestamp) {
    let from = now.minus(BACKDATE);
    (from, if duration < SHORT { now.plus(duration) } else { from.plus(duration) })
}
