//! Values of TLS flags, with Go's names as in kube-controller-manager.
//!
//! Source: k8s.io/component-base/cli/flag/ciphersuites_flag.go; crypto/tls.

use rustls::crypto::{SupportedKxGroup, ring as crypto};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};

const SUITES: [(&str, SupportedCipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", crypto::cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", crypto::cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", crypto::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", crypto::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", crypto::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", crypto::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        crypto::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", crypto::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", crypto::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", crypto::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", crypto::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Go's numbers of key exchanges, which are those of TLS.
const CURVES: [(u16, &dyn SupportedKxGroup); 3] =
    [(23, crypto::kx_group::SECP256R1), (24, crypto::kx_group::SECP384R1), (29, crypto::kx_group::X25519)];

static NEWEST: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

/// A suite by its name (`--tls-cipher-suites`).
///
/// # Errors
/// It does not exist; the message has the valid names.
pub fn cipher_suites(name: &str) -> Result<SupportedCipherSuite, String> {
    let found = SUITES.iter().find(|(known, _)| *known == name);
    let known = || SUITES.map(|(name, _)| name).join(", ");
    found.map(|(_, suite)| *suite).ok_or_else(|| format!("write some of {}", known()))
}

/// A key exchange by its number (`--tls-curve-preferences`).
///
/// # Errors
/// It does not exist; the message has the valid numbers.
pub fn curves(number: &str) -> Result<&'static dyn SupportedKxGroup, String> {
    let found = number.parse().ok().and_then(|number: u16| CURVES.iter().find(|(known, _)| *known == number));
    found.map(|(_, group)| *group).ok_or_else(|| "write some of 23 (P-256), 24 (P-384), 29 (X25519)".to_owned())
}

/// The versions from this one on (`--tls-min-version`).
///
/// # Errors
/// It does not exist; the message has the valid names.
pub fn min_version(name: &str) -> Result<&'static [&'static SupportedProtocolVersion], String> {
    match name {
        "VersionTLS12" => Ok(rustls::ALL_VERSIONS),
        "VersionTLS13" => Ok(&NEWEST),
        _ => Err("write VersionTLS12 or VersionTLS13; older versions are not secure".to_owned()),
    }
}

/// The suites that a server offers: all of TLS 1.3, as in Go; for TLS 1.2 the chosen ones, or all.
pub(crate) fn offered(chosen: &[SupportedCipherSuite]) -> Vec<SupportedCipherSuite> {
    let all = crypto::ALL_CIPHER_SUITES.iter().copied();
    let is_new = |suite: &SupportedCipherSuite| suite.version().version == ProtocolVersion::TLSv1_3;
    all.filter(|suite| is_new(suite) || chosen.is_empty() || chosen.contains(suite)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_go() {
        let suite = cipher_suites("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap();
        assert_eq!(suite.suite(), rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);
        let why = cipher_suites("TLS_RSA_WITH_RC4_128_SHA").unwrap_err();
        assert!(why.starts_with("write some of TLS_AES_128_GCM_SHA256, "), "{why}");
        // Go's names are those of the registry, except two that it also accepts without their hash.
        for (name, suite) in SUITES {
            let registered = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
            assert!(registered == name || registered == format!("{name}_SHA256"), "{name} {registered}");
        }
        assert_eq!(curves("29").unwrap().name(), rustls::NamedGroup::X25519);
        for wrong in ["4588", "", "x", "-1"] {
            assert!(curves(wrong).is_err(), "{wrong}");
        }
        assert_eq!(min_version("VersionTLS12").unwrap().len(), 2);
        assert_eq!(min_version("VersionTLS13").unwrap().len(), 1);
        assert!(min_version("VersionTLS11").is_err());
    }

    #[test]
    fn the_choice_of_suites_concerns_tls_1_2() {
        let one = cipher_suites("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256").unwrap();
        let offered_with = offered(&[one]);
        assert_eq!(offered_with.len(), 4, "{offered_with:?}");
        assert!(offered_with.contains(&one));
        assert_eq!(offered(&[]).len(), crypto::ALL_CIPHER_SUITES.len());
    }
}
