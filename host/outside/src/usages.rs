//! Certificate usages by the names of `certificates.k8s.io`.
//!
//! *Source*: `pkg/controller/certificates/authority/policies.go` (`keyUsageDict`, `extKeyUsageDict`). The usages of
//! authorities (`cert sign`, `crl sign`) are valid there; here they are rejected, because no issued certificate is that
//! of an authority.

use der::flagset::FlagSet;
use der::oid::ObjectIdentifier;
use x509_cert::ext::pkix::KeyUsages;

const KEY_USAGES: [(&str, KeyUsages); 8] = [
    ("signing", KeyUsages::DigitalSignature),
    ("digital signature", KeyUsages::DigitalSignature),
    ("content commitment", KeyUsages::NonRepudiation),
    ("key encipherment", KeyUsages::KeyEncipherment),
    ("key agreement", KeyUsages::KeyAgreement),
    ("data encipherment", KeyUsages::DataEncipherment),
    ("encipher only", KeyUsages::EncipherOnly),
    ("decipher only", KeyUsages::DecipherOnly),
];

/// In the order of certificates, which is Go's.
const EXTENDED: [(&str, &str); 13] = [
    ("any", "2.5.29.37.0"),
    ("server auth", "1.3.6.1.5.5.7.3.1"),
    ("client auth", "1.3.6.1.5.5.7.3.2"),
    ("code signing", "1.3.6.1.5.5.7.3.3"),
    ("email protection", "1.3.6.1.5.5.7.3.4"),
    ("s/mime", "1.3.6.1.5.5.7.3.4"),
    ("ipsec end system", "1.3.6.1.5.5.7.3.5"),
    ("ipsec tunnel", "1.3.6.1.5.5.7.3.6"),
    ("ipsec user", "1.3.6.1.5.5.7.3.7"),
    ("timestamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp signing", "1.3.6.1.5.5.7.3.9"),
    ("microsoft sgc", "1.3.6.1.4.1.311.10.3.3"),
    ("netscape sgc", "2.16.840.1.113730.4.1"),
];

/// Usages of a certificate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Usages {
    pub(crate) key: FlagSet<KeyUsages>,
    pub(crate) extended: Vec<ObjectIdentifier>,
}

impl Usages {
    /// # Errors
    /// Invalid names, with the valid ones.
    pub(crate) fn parse(names: &[String]) -> Result<Self, String> {
        let mut usages = Self::default();
        let mut wrong = Vec::new();
        for name in names {
            if let Some((_, usage)) = KEY_USAGES.iter().find(|(of, _)| of == name) {
                usages.key |= *usage;
            } else if !EXTENDED.iter().any(|(of, _)| of == name) {
                wrong.push(format!("{name:?}"));
            }
        }
        if !wrong.is_empty() {
            let valid: Vec<&str> =
                KEY_USAGES.iter().map(|(name, _)| *name).chain(EXTENDED.iter().map(|(name, _)| *name)).collect();
            return Err(format!("usages that are not valid: {}; valid are {}", wrong.join(", "), valid.join(", ")));
        }
        for (name, oid) in EXTENDED {
            let oid = ObjectIdentifier::new_unwrap(oid);
            if names.iter().any(|of| of == name) && !usages.extended.contains(&oid) {
                usages.extended.push(oid);
            }
        }
        Ok(usages)
    }
}
