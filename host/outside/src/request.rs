//! Certificate requests (PKCS#10): their signature, and the parts that a certificate takes from them.
//!
//! *Source*: `ParseCSR` in `pkg/apis/certificates/helpers.go`, and Go's `CertificateRequest.CheckSignature` and
//! `pkix.Name`. Stricter than upstream: RSA keys of less than 2048 bits, signatures with SHA-1, and subjects with other
//! kinds of text than UTF8String, PrintableString, IA5String and NumericString, are rejected; RSA-PSS is not supported.

use der::asn1::{Any, ObjectIdentifier, PrintableStringRef};
use der::{Decode as _, Encode as _, Tag, Tagged as _};
use p256::ecdsa::signature::hazmat::PrehashVerifier;
use p256::pkcs8::DecodePublicKey as _;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::{Name, RelativeDistinguishedName};
use x509_cert::request::{CertReq, ExtensionReq};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::keys::{ECDSA_WITH_SHA256, ECDSA_WITH_SHA384, ECDSA_WITH_SHA512, RSA, SHA256_WITH_RSA};

const SHA384_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const SHA512_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The attributes of Go's `pkix.Name`, in the order in which it writes them: country, province, locality, street,
/// postal code, organization and organizational unit with all values, then common name and serial number with the last
/// one.
const ATTRIBUTES: [(ObjectIdentifier, bool); 9] = [
    (ObjectIdentifier::new_unwrap("2.5.4.6"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.17"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), false),
    (ObjectIdentifier::new_unwrap("2.5.4.3"), true),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), true),
];

/// The parts of a request that a certificate takes. Other parts have no effect.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) subject: Name,
    pub(crate) public_key: SubjectPublicKeyInfoOwned,
    /// DNS names, addresses, mail addresses and URIs.
    pub(crate) names: Vec<GeneralName>,
}

impl Request {
    /// Parses PEM with one request, and checks that the request is signed by its own key.
    ///
    /// # Errors
    /// The error.
    pub(crate) fn parse(pem: &str) -> Result<Self, String> {
        let requests: Result<Vec<_>, _> = CertificateSigningRequestDer::pem_slice_iter(pem.as_bytes()).collect();
        let requests = requests.map_err(|why| format!("the certificate request is not PEM: {why}"))?;
        let [der] = requests.as_slice() else {
            return Err(format!("PEM with one CERTIFICATE REQUEST is needed, not with {}", requests.len()));
        };
        let not_der = |why: &dyn std::fmt::Display| format!("the certificate request is not valid PKCS#10: {why}");
        let request = CertReq::from_der(der).map_err(|why| not_der(&why))?;
        let info = request.info.to_der().map_err(|why| not_der(&why))?;
        // The signed bytes must be the sent ones, without an alternative encoding.
        if request.to_der().map_err(|why| not_der(&why))? != der.as_ref() {
            return Err(not_der(&"it is not DER"));
        }
        let public_key = &request.info.public_key;
        verify(public_key, request.algorithm.oid, &info, request.signature.raw_bytes())?;
        let (subject, names) = (subject(&request.info.subject)?, names(&request)?);
        Ok(Self { subject, public_key: request.info.public_key, names })
    }
}

/// The subject for certificates, as upstream: only [`ATTRIBUTES`]. Others, such as the attribute from which the API
/// server takes the uid of a user, are left out.
///
/// # Errors
/// A value is not a text.
#[doc(alias = "FillFromRDNSequence")]
#[doc(alias = "ToRDNSequence")]
fn subject(requested: &Name) -> Result<Name, String> {
    let wrong = |why: der::Error| format!("the subject of the certificate request is not valid: {why}");
    let mut sets = Vec::new();
    for (oid, is_single) in ATTRIBUTES {
        let requested = requested.iter().filter(|attribute| attribute.oid == oid);
        let mut values = requested.map(text).collect::<Result<Vec<String>, String>>()?;
        if is_single {
            values = values.pop().filter(|value| !value.is_empty()).into_iter().collect();
        }
        if values.is_empty() {
            continue;
        }
        let set = values.iter().map(|value| {
            let tag = if PrintableStringRef::new(value).is_ok() { Tag::PrintableString } else { Tag::Utf8String };
            Any::new(tag, value.as_bytes()).map(|value| AttributeTypeAndValue { oid, value })
        });
        let set = set.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        sets.push(RelativeDistinguishedName::try_from(set).map_err(wrong)?);
    }
    // The library constructs names only from text and from DER.
    Name::from_der(&sets.to_der().map_err(wrong)?).map_err(wrong)
}

/// The text of an attribute of a subject.
fn text(attribute: &AttributeTypeAndValue) -> Result<String, String> {
    let bytes = attribute.value.value();
    let text = match attribute.value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            String::from_utf8(bytes.to_vec()).ok()
        }
        _ => None,
    };
    let oid = attribute.oid;
    text.ok_or_else(|| {
        format!("the subject of the certificate request has an attribute {oid} whose text cannot be read")
    })
}

/// The subject alternative names for certificates, as upstream: other types, such as directory names, are left out.
fn names(request: &CertReq) -> Result<Vec<GeneralName>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("the extensions of the certificate request are not valid: {why}");
    let mut found: Option<SubjectAltName> = None;
    let requested = request.info.attributes.iter().filter(|attribute| attribute.oid == EXTENSION_REQUEST);
    for value in requested.flat_map(|attribute| attribute.values.iter()) {
        let extensions: ExtensionReq = value.decode_as().map_err(|why| wrong(&why))?;
        for extension in extensions.0.iter().filter(|extension| extension.extn_id == SUBJECT_ALT_NAME) {
            let names = SubjectAltName::from_der(extension.extn_value.as_bytes()).map_err(|why| wrong(&why))?;
            if found.replace(names).is_some() {
                return Err(wrong(&"there is more than one list of subject alternative names"));
            }
        }
    }
    let mut names = found.map(|found| found.0).unwrap_or_default();
    names.retain(|name| {
        matches!(
            name,
            GeneralName::DnsName(_)
                | GeneralName::IpAddress(_)
                | GeneralName::Rfc822Name(_)
                | GeneralName::UniformResourceIdentifier(_)
        )
    });
    let is_wrong =
        |name: &GeneralName| matches!(name, GeneralName::IpAddress(ip) if ![4, 16].contains(&ip.as_bytes().len()));
    if names.iter().any(is_wrong) {
        return Err(wrong(&"an address has neither 4 nor 16 bytes"));
    }
    Ok(names)
}

/// Checks a signature with the key.
fn verify(
    key: &SubjectPublicKeyInfoOwned,
    algorithm: ObjectIdentifier,
    message: &[u8],
    signature: &[u8],
) -> Result<(), String> {
    let wrong = || "the certificate request is not signed by its own key".to_owned();
    let with_ring = |of_key: ObjectIdentifier, verification: &'static dyn VerificationAlgorithm| {
        if key.algorithm.oid != of_key {
            return Err(wrong());
        }
        let key = UnparsedPublicKey::new(verification, key.subject_public_key.raw_bytes());
        key.verify(message, signature).map_err(|_| wrong())
    };
    match algorithm {
        SHA256_WITH_RSA => with_ring(RSA, &signature::RSA_PKCS1_2048_8192_SHA256),
        SHA384_WITH_RSA => with_ring(RSA, &signature::RSA_PKCS1_2048_8192_SHA384),
        SHA512_WITH_RSA => with_ring(RSA, &signature::RSA_PKCS1_2048_8192_SHA512),
        ED25519 => with_ring(ED25519, &signature::ED25519),
        ECDSA_WITH_SHA256 => verify_ecdsa(key, &Sha256::digest(message), signature).ok_or_else(wrong),
        ECDSA_WITH_SHA384 => verify_ecdsa(key, &Sha384::digest(message), signature).ok_or_else(wrong),
        ECDSA_WITH_SHA512 => verify_ecdsa(key, &Sha512::digest(message), signature).ok_or_else(wrong),
        other => Err(format!(
            "the certificate request is signed with {other}; RSA (PKCS#1 v1.5) and ECDSA with SHA-256, SHA-384 or SHA-512, and Ed25519 are supported"
        )),
    }
}

/// Whether the signature over this hash was made with the key, which is on one of the curves.
fn verify_ecdsa(key: &SubjectPublicKeyInfoOwned, hash: &[u8], signature: &[u8]) -> Option<()> {
    let key = key.to_der().ok()?;
    if let Ok(key) = p256::ecdsa::VerifyingKey::from_public_key_der(&key) {
        return verify_on_curve(&key, hash, p256::ecdsa::DerSignature::from_bytes(signature).ok()?);
    }
    if let Ok(key) = p384::ecdsa::VerifyingKey::from_public_key_der(&key) {
        return verify_on_curve(&key, hash, p384::ecdsa::DerSignature::from_bytes(signature).ok()?);
    }
    let key = p521::ecdsa::VerifyingKey::from_public_key_der(&key).ok()?;
    verify_on_curve(&key, hash, p521::ecdsa::DerSignature::from_bytes(signature).ok()?)
}

fn verify_on_curve<S>(key: &impl PrehashVerifier<S>, hash: &[u8], signature: S) -> Option<()> {
    key.verify_prehash(hash, &signature).ok()
}
