//! Client certificates: accepted in the handshake from any client with the key, and verified for each request against
//! the current authorities.
//!
//! Failing in the handshake would prevent a 401 response, and would lock out clients that send a certificate to every
//! server.
//!
//! Source: k8s.io/apiserver/pkg/authentication/request/x509 (`CommonNameUserConversion`, `Verifier`); TLS with `RequestClientCert`.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256};
use x509_parser::x509::X509Name;

use crate::certificates;
use crate::policy::identity::UserInfo;

/// The subject attribute with the user's uid: 1.3.6.1.4.1.57683.2.
const UID: &str = "1.3.6.1.4.1.57683.2";
/// The key of the credential id, in `extra`.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Certificate authorities of clients.
#[derive(Clone, Debug)]
pub(crate) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
    subjects: Vec<DistinguishedName>,
}

impl Authorities {
    /// Reads certificates in PEM.
    pub(crate) fn new(pem: &[u8], provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates::certificates(pem)? {
            roots.add(certificate).map_err(|why| format!("it contains a certificate that cannot be used: {why}"))?;
        }
        let subjects = roots.subjects();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        Ok(Self { verifier: verifier.build().map_err(|why| why.to_string())?, subjects })
    }

    /// Verifies that one of them has signed this chain, which starts with the client's certificate.
    fn verify(&self, chain: &[CertificateDer<'static>]) -> Result<(), String> {
        let (first, rest) = chain.split_first().ok_or("there is no certificate")?;
        let verified = self.verifier.verify_client_cert(first, rest, UnixTime::now());
        verified.map(drop).map_err(|why| format!("the client's certificate is not accepted: {why}"))
    }

    /// The user of a chain; `None` if the certificate contains no user.
    pub(crate) fn user(&self, chain: &[CertificateDer<'static>]) -> Result<Option<UserInfo>, String> {
        self.verify(chain)?;
        let first = chain.first().ok_or("there is no certificate")?;
        with_subject(first, |subject| {
            let Some(name) = common_name(subject)? else { return Ok(None) };
            let groups = subject.iter_organization().map(|attribute| text(attribute)).collect::<Result<_, _>>()?;
            let uids: Vec<String> = subject
                .iter_attributes()
                .filter(|attribute| attribute.attr_type().to_id_string() == UID)
                .map(text)
                .collect::<Result<_, _>>()?;
            let uid = match &uids[..] {
                [] => String::new(),
                [uid] if !uid.is_empty() => uid.clone(),
                _ => return Err("the client's certificate has an empty uid, or several".to_owned()),
            };
            let hash: String = Sha256::digest(first).iter().map(|byte| format!("{byte:02x}")).collect();
            let extra = [(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")])];
            Ok(Some(UserInfo { name, uid, groups, extra: extra.into() }.authenticated()))
        })
    }

    /// The verified common name of a chain; empty if it has none.
    pub(crate) fn common_name(&self, chain: &[CertificateDer<'static>]) -> Result<String, String> {
        self.verify(chain)?;
        let first = chain.first().ok_or("there is no certificate")?;
        with_subject(first, |subject| Ok(common_name(subject)?.unwrap_or_default()))
    }
}

fn with_subject<T>(
    certificate: &CertificateDer<'_>,
    read: impl FnOnce(&X509Name<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
        .map_err(|why| format!("the client's certificate does not parse: {why}"))?;
    read(parsed.subject())
}

/// The last one is used, as in Go.
fn common_name(subject: &X509Name<'_>) -> Result<Option<String>, String> {
    let name = subject.iter_common_name().last().map(text).transpose()?;
    Ok(name.filter(|name| !name.is_empty()))
}

fn text(attribute: &x509_parser::x509::AttributeTypeAndValue<'_>) -> Result<String, String> {
    let text =
        attribute.as_str().map_err(|why| format!("the subject of the client's certificate does not parse: {why}"))?;
    Ok(text.to_owned())
}

/// Accepts every certificate for which the client has the key.
#[derive(Debug)]
pub(crate) struct AnyCertificate {
    subjects: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    /// `authorities` are sent to clients, so that they can choose a certificate.
    pub(crate) fn new<'a>(authorities: impl Iterator<Item = &'a Authorities>, provider: &CryptoProvider) -> Self {
        let subjects = authorities.flat_map(|authorities| authorities.subjects.clone()).collect();
        Self { subjects, algorithms: provider.signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

    use super::*;

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(rustls::crypto::ring::default_provider())
    }

    fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (Issuer::new(params, key), pem)
    }

    fn client(
        issuer: &Issuer<'_, KeyPair>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        vec![params.signed_by(&key, issuer).unwrap().der().clone()]
    }

    fn named(name: &str) -> impl FnOnce(&mut CertificateParams) {
        move |params| params.distinguished_name.push(DnType::CommonName, name)
    }

    #[test]
    fn a_user_is_the_subject_of_a_certificate() {
        let (issuer, pem) = authority("clients");
        let authorities = Authorities::new(pem.as_bytes(), &provider()).unwrap();
        let chain = client(&issuer, |params| {
            params.distinguished_name.push(DnType::CommonName, "prometheus");
            params.distinguished_name.push(DnType::OrganizationName, "monitoring");
            params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "uid-1");
        });
        let user = authorities.user(&chain).unwrap().unwrap();
        assert_eq!((&*user.name, &*user.uid), ("prometheus", "uid-1"));
        assert_eq!(user.groups, ["monitoring", "system:authenticated"]);
        let id = &user.extra[CREDENTIAL_ID][0];
        assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
        assert_eq!(authorities.common_name(&chain).unwrap(), "prometheus");
        let nobody =
            client(&issuer, |params| params.distinguished_name.push(DnType::OrganizationName, "system:masters"));
        assert_eq!(authorities.user(&nobody), Ok(None));
    }

    #[test]
    fn only_valid_certificates_for_clients_of_these_authorities_are_accepted() {
        let (issuer, pem) = authority("clients");
        let authorities = Authorities::new(pem.as_bytes(), &provider()).unwrap();
        assert!(authorities.user(&client(&issuer, named("a"))).unwrap().is_some());
        let (other, _) = authority("others");
        let expired = client(&issuer, |params| {
            named("a")(params);
            params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        });
        let server = client(&issuer, |params| {
            named("a")(params);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        for chain in [client(&other, named("a")), expired, server, Vec::new(), vec![CertificateDer::from(vec![0])]] {
            assert!(authorities.user(&chain).is_err());
            assert!(authorities.common_name(&chain).is_err());
        }
        assert!(Authorities::new(b"", &provider()).is_err());
    }
}
