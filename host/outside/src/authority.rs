//! Authorities: a certificate and its key, which sign end-entity certificates.
//!
//! *Source*: `pkg/controller/certificates/{authority,signer}`, and Go's `x509.CreateCertificate` for the extensions.

use std::path::PathBuf;
use std::sync::Arc;

use der::asn1::{BitString, GeneralizedTime, OctetString};
use der::oid::AssociatedOid;
use der::pem::LineEnding;
use der::{Decode as _, Encode, Sequence};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use pintle_core::contract::outcome::{CertificateRequest, NeedError};
use pintle_core::policy::outside::{Validity, refused};
use pintle_core::ports::outside::{Authority, OutsideAnswer};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::certificate::Version;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity as CertificateValidity};

use crate::files::{BindError, Followed};
use crate::keys::PrivateKey;
use crate::request::Request;
use crate::usages::Usages;
use crate::workers;

/// Bytes of a serial number, as upstream.
const SERIAL_BYTES: usize = 16;

/// An authority in two files that may change.
pub(crate) struct AuthorityFiles(Arc<Followed<CertificateSigner>>);

/// An authority.
pub(crate) struct CertificateSigner {
    key: PrivateKey,
    /// The subject of its certificate.
    issuer: Name,
    /// The identifier of its key, if its certificate has one.
    key_id: Option<OctetString>,
    not_after: Timestamp,
}

/// RFC 5280, 4.1.2. The library supports this structure for reading only.
#[derive(Sequence)]
struct ToBeSigned {
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    version: Version,
    serial_number: SerialNumber,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: CertificateValidity,
    subject: Name,
    subject_public_key_info: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

/// RFC 5280, 4.1.1.
#[derive(Sequence)]
struct Signed {
    certificate: ToBeSigned,
    algorithm: AlgorithmIdentifierOwned,
    signature: BitString,
}

impl CertificateSigner {
    /// Parses a certificate and its private key in PEM.
    ///
    /// # Errors
    /// The error.
    pub(crate) fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let certificates = certificates.map_err(|why| format!("the certificate is not PEM: {why}"))?;
        let [der] = certificates.as_slice() else {
            return Err(format!(
                "the file of the certificate must contain one certificate in PEM, not {}",
                certificates.len()
            ));
        };
        let not_valid = |why: &dyn std::fmt::Display| format!("the certificate is not valid X.509: {why}");
        let certificate = x509_cert::Certificate::from_der(der).map_err(|why| not_valid(&why))?;
        let tbs = certificate.tbs_certificate();
        let issuer = tbs.subject().clone();
        // The issuer in new certificates is compared byte by byte.
        if certificate.to_der().map_err(|why| not_valid(&why))? != der.as_ref() {
            return Err(not_valid(&"it is not DER"));
        }
        let constraints = tbs.get_extension::<BasicConstraints>().map_err(|why| not_valid(&why))?;
        if !constraints.is_some_and(|(_, constraints)| constraints.ca) {
            return Err("the certificate is not one of an authority (basicConstraints CA:TRUE)".to_owned());
        }
        let key = PrivateKey::parse(key)?;
        let public_key = tbs.subject_public_key_info().to_der().map_err(|why| not_valid(&why))?;
        if key.public_der()? != public_key {
            return Err("the private key is not that of the certificate".to_owned());
        }
        let key_id = tbs.get_extension::<SubjectKeyIdentifier>().map_err(|why| not_valid(&why))?.map(|(_, id)| id.0);
        let end = i64::try_from(tbs.validity().not_after.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
        let not_after = Timestamp::from_second(end).unwrap_or(Timestamp::MAX);
        Ok(Self { key, issuer, key_id, not_after })
    }

    /// Signs a certificate; returns PEM.
    ///
    /// # Errors
    /// The reasons `Malformed` and `Expired`; a retry does not help.
    pub(crate) fn sign(&self, asked: &CertificateRequest, now: Timestamp) -> Result<String, NeedError> {
        let malformed = |why: String| refused("Malformed", why);
        let usages = Usages::parse(&asked.usages).map_err(malformed)?;
        let validity = Validity::new(&asked.not_before, &asked.not_after, self.not_after, now)?;
        let request = Request::parse(&asked.request).map_err(malformed)?;
        let der = self.certificate(request, usages, validity).map_err(|why| refused("InternalError", why))?;
        der::pem::encode_string("CERTIFICATE", LineEnding::LF, &der)
            .map_err(|why| refused("InternalError", format!("write the certificate: {why}")))
    }

    fn certificate(&self, request: Request, usages: Usages, validity: Validity) -> Result<Vec<u8>, String> {
        let failed = |why: &dyn std::fmt::Display| format!("write the certificate: {why}");
        let Request { subject, public_key, names } = request;
        let mut extensions = Vec::new();
        if !usages.key.is_empty() {
            extensions.push(extension(true, &KeyUsage(usages.key))?);
        }
        if !usages.extended.is_empty() {
            extensions.push(extension(false, &ExtendedKeyUsage(usages.extended))?);
        }
        extensions.push(extension(true, &BasicConstraints { ca: false, path_len_constraint: None })?);
        if let Some(key_id) = self.key_id.clone().filter(|_| self.issuer != subject) {
            let identifier =
                AuthorityKeyIdentifier { key_identifier: Some(key_id), ..AuthorityKeyIdentifier::default() };
            extensions.push(extension(false, &identifier)?);
        }
        if !names.is_empty() {
            // Without a subject, only the names identify the owner.
            extensions.push(extension(subject.is_empty(), &SubjectAltName(names))?);
        }
        let time = |time: Timestamp| {
            let seconds = u64::try_from(time.as_second()).map_err(|why| failed(&why))?;
            let time = GeneralizedTime::from_unix_duration(std::time::Duration::from_secs(seconds));
            time.map(Time::GeneralTime).map_err(|why| failed(&why))
        };
        let algorithm = self.key.certificate_algorithm();
        let certificate = ToBeSigned {
            version: Version::V3,
            serial_number: serial_number()?,
            signature: algorithm.clone(),
            issuer: self.issuer.clone(),
            // Encoding selects the time format.
            validity: CertificateValidity::new(time(validity.not_before)?, time(validity.not_after)?),
            subject,
            subject_public_key_info: public_key,
            extensions,
        };
        let signature = self.key.sign_certificate(&certificate.to_der().map_err(|why| failed(&why))?)?;
        let signature = BitString::from_bytes(&signature).map_err(|why| failed(&why))?;
        Signed { certificate, algorithm, signature }.to_der().map_err(|why| failed(&why))
    }
}

fn extension<E: Encode + AssociatedOid>(critical: bool, value: &E) -> Result<Extension, String> {
    let failed = |why: der::Error| format!("write the certificate: {why}");
    let extn_value = OctetString::new(value.to_der().map_err(failed)?).map_err(failed)?;
    Ok(Extension { extn_id: E::OID, critical, extn_value })
}

/// A random positive number.
fn serial_number() -> Result<SerialNumber, String> {
    let mut bytes = [0; SERIAL_BYTES];
    while bytes == [0; SERIAL_BYTES] {
        SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no random numbers".to_owned())?;
    }
    SerialNumber::new(&bytes).map_err(|why| format!("write the serial number: {why}"))
}

impl AuthorityFiles {
    pub(crate) fn open(certificate: PathBuf, key: PathBuf) -> Result<Self, BindError> {
        let followed = Followed::open(vec![certificate, key], |contents| match contents {
            [certificate, key] => CertificateSigner::parse(certificate, key),
            _ => Err("a certificate and a key are needed".to_owned()),
        })?;
        Ok(Self(Arc::new(followed)))
    }

    pub(crate) fn shown(&self) -> String {
        self.0.shown()
    }
}

impl Authority for AuthorityFiles {
    fn sign(&self, request: CertificateRequest) -> BoxFuture<'static, OutsideAnswer> {
        let files = self.0.clone();
        workers::run(move || files.current().sign(&request, Timestamp::now())).boxed()
    }
}
