//! Detached JWS signatures.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Signs content with a token: [RFC 7515](https://www.rfc-editor.org/rfc/rfc7515#appendix-F), with HMAC-SHA256.
///
/// *Source*: `token/jws/jws.go` of cluster-bootstrap.
#[doc(alias = "ComputeDetachedSignature")]
pub(crate) fn detached_signature(content: &str, id: &str, secret: &[u8]) -> String {
    // An id consists of letters and digits.
    let header = BASE64_URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let signed = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(content));
    #[expect(clippy::expect_used, reason = "HMAC has keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
    mac.update(signed.as_bytes());
    format!("{header}..{}", BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}
