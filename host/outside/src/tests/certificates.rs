//! Certificates by authorities with each key type, verified by `webpki` and parsed by `x509-parser`.

use std::time::Duration;

use der::Decode as _;
use jiff::Timestamp;
use pintle_core::contract::outcome::{CertificateRequest, NeedError};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, CustomExtension, DnType, DnValue, IsCa, KeyPair, SanType};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use super::test_key;
use crate::authority::CertificateSigner;

const NOW: &str = "2026-01-01T00:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

/// An authority that is valid for thirty days.
struct TestAuthority {
    certificate: String,
    key: String,
}

impl TestAuthority {
    fn new(key: &KeyPair, is_ca: IsCa) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = is_ca;
        params.not_before = rcgen::date_time_ymd(2025, 12, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 31);
        Self { certificate: params.self_signed(key).unwrap().pem(), key: key.serialize_pem() }
    }

    fn with_key(key: &KeyPair) -> Self {
        Self::new(key, IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn signer(&self) -> Result<CertificateSigner, String> {
        CertificateSigner::parse(self.certificate.as_bytes(), self.key.as_bytes())
    }
}

fn p256() -> KeyPair {
    KeyPair::generate().unwrap()
}

/// A request with this change, signed by this key.
fn request(key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "system:node:a");
    params.distinguished_name.push(DnType::OrganizationName, DnValue::Utf8String("system:nodes".into()));
    change(&mut params);
    params.serialize_request(key).unwrap().pem().unwrap()
}

fn asked(request: String, usages: &[&str]) -> CertificateRequest {
    CertificateRequest {
        authority: "ca".into(),
        request,
        usages: usages.iter().map(|usage| (*usage).to_owned()).collect(),
        not_before: "2025-12-31T23:55:00Z".into(),
        not_after: "2026-01-08T00:00:00Z".into(),
    }
}

fn der(pem: &str) -> CertificateDer<'static> {
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n") && pem.ends_with("-----END CERTIFICATE-----\n"), "{pem}");
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn refusal(result: Result<String, NeedError>) -> String {
    result.map_or_else(|error| format!("{}: {}", error.reason, error.message), |pem| panic!("signed {pem}"))
}

#[test]
fn certificates_of_each_kind_of_authority_verify() {
    let rsa = String::from_utf8(test_key("rsa-pkcs8")).unwrap();
    let p384 = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    for key in [p256(), p384, KeyPair::from_pem(&rsa).unwrap()] {
        let authority = TestAuthority::with_key(&key);
        let pem = request(&p256(), |params| {
            params.subject_alt_names = vec![SanType::DnsName("a.example.com".try_into().unwrap())];
        });
        let signed =
            authority.signer().unwrap().sign(&asked(pem, &["client auth", "digital signature"]), now()).unwrap();
        let (signed, root) = (der(&signed), der(&authority.certificate));
        let anchors = [anchor_from_trusted_cert(&root).unwrap()];
        let verify = |usage| {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(now().as_second() as u64));
            let certificate = EndEntityCert::try_from(&signed).unwrap();
            certificate
                .verify_for_usage(webpki::ALL_VERIFICATION_ALGS, &anchors, &[], time, usage, None, None)
                .map(drop)
        };
        assert_eq!(verify(KeyUsage::client_auth()), Ok(()));
        assert!(verify(KeyUsage::server_auth()).is_err());
    }
}

#[test]
fn a_certificate_has_what_upstream_writes_and_nothing_else_of_the_request() {
    let (key, of_request) = (p256(), p256());
    let authority = TestAuthority::with_key(&key);
    let pem = request(&of_request, |params| {
        params.subject_alt_names = vec![
            SanType::DnsName("a.example.com".try_into().unwrap()),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::Rfc822Name("a@example.com".try_into().unwrap()),
            SanType::URI("spiffe://a".try_into().unwrap()),
            SanType::OtherName((vec![1, 2, 3], "other".into())),
        ];
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0])];
    });
    let signer = authority.signer().unwrap();
    let sign =
        || der(&signer.sign(&asked(pem.clone(), &["server auth", "client auth", "key encipherment"]), now()).unwrap());
    let (first, second) = (sign(), sign());
    let (_, certificate) = X509Certificate::from_der(&first).unwrap();
    let (_, other) = X509Certificate::from_der(&second).unwrap();
    assert_eq!(certificate.version().0, 2);
    assert_ne!(certificate.raw_serial(), other.raw_serial());
    assert!((12..=17).contains(&certificate.raw_serial().len()), "{:?}", certificate.raw_serial());
    assert_eq!(certificate.issuer().to_string(), "CN=authority");
    assert_eq!(certificate.subject().to_string(), "O=system:nodes, CN=system:node:a");
    assert_eq!(
        certificate.validity().not_before.timestamp(),
        "2025-12-31T23:55:00Z".parse::<Timestamp>().unwrap().as_second()
    );
    assert_eq!(
        certificate.validity().not_after.timestamp(),
        "2026-01-08T00:00:00Z".parse::<Timestamp>().unwrap().as_second()
    );
    let extensions: Vec<String> = certificate
        .extensions()
        .iter()
        .map(|extension| match extension.parsed_extension() {
            ParsedExtension::KeyUsage(usage) => format!("{} usage {usage}", extension.critical),
            ParsedExtension::ExtendedKeyUsage(usage) => {
                format!("{} extended server={} client={}", extension.critical, usage.server_auth, usage.client_auth)
            }
            ParsedExtension::BasicConstraints(constraints) => format!("{} ca={}", extension.critical, constraints.ca),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                format!("{} authority {}", extension.critical, id.key_identifier.is_some())
            }
            ParsedExtension::SubjectAlternativeName(names) => {
                format!("{} names {}", extension.critical, names.general_names.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        extensions,
        [
            "true usage Key Encipherment",
            "false extended server=true client=true",
            "true ca=false",
            "false authority true",
            "false names 4"
        ]
    );
    let nameless = request(&of_request, |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.subject_alt_names = vec![SanType::DnsName("a.example.com".try_into().unwrap())];
    });
    let signed = der(&signer.sign(&asked(nameless, &[]), now()).unwrap());
    let (_, certificate) = X509Certificate::from_der(&signed).unwrap();
    assert!(certificate.subject_alternative_name().unwrap().unwrap().critical);
    assert!(certificate.key_usage().unwrap().is_none() && certificate.extended_key_usage().unwrap().is_none());
}

#[test]
fn a_subject_has_the_attributes_that_upstream_keeps() {
    let signer = TestAuthority::with_key(&p256()).signer().unwrap();
    let pem = request(&p256(), |params| {
        let name = &mut params.distinguished_name;
        // Another common name; the uid of a user of a client certificate; a mail address.
        name.push(DnType::CustomDnType(vec![2, 5, 4, 3]), "system:node:b");
        name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), "uid");
        name.push(DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]), "a@example.com");
        name.push(DnType::OrganizationalUnitName, "B&C");
        name.push(DnType::CountryName, "XY");
    });
    let signed = der(&signer.sign(&asked(pem, &[]), now()).unwrap());
    let (_, certificate) = X509Certificate::from_der(&signed).unwrap();
    assert_eq!(certificate.subject().to_string(), "C=XY, O=system:nodes, OU=B&C, CN=system:node:b");
    let of_another_text = request(&p256(), |params| {
        let unit = DnValue::BmpString("unit".try_into().unwrap());
        params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
    });
    assert_eq!(
        refusal(signer.sign(&asked(of_another_text, &[]), now())),
        "Malformed: the subject of the certificate request has an attribute 2.5.4.11 whose text cannot be read"
    );
}

#[test]
fn an_authority_is_an_authority_and_its_key_is_its_own() {
    let key = p256();
    let authority = TestAuthority::with_key(&key);
    let why = |authority: TestAuthority| authority.signer().err().unwrap();
    assert_eq!(
        why(TestAuthority::new(&key, IsCa::ExplicitNoCa)),
        "the certificate is not one of an authority (basicConstraints CA:TRUE)"
    );
    assert_eq!(
        why(TestAuthority::new(&key, IsCa::NoCa)),
        "the certificate is not one of an authority (basicConstraints CA:TRUE)"
    );
    let certificate = authority.certificate.clone();
    assert_eq!(
        why(TestAuthority { certificate: certificate.clone(), key: p256().serialize_pem() }),
        "the private key is not that of the certificate"
    );
    assert_eq!(
        why(TestAuthority { certificate: certificate.repeat(2), key: key.serialize_pem() }),
        "the file of the certificate must contain one certificate in PEM, not 2"
    );
    assert!(why(TestAuthority { certificate, key: "x".into() }).starts_with("it contains no private key in PEM"));
}

#[test]
fn what_cannot_be_signed_is_a_refusal() {
    let key = p256();
    let signer = TestAuthority::with_key(&key).signer().unwrap();
    let pem = request(&p256(), |_| {});
    let sign = |request: &str, usages: &[&str]| refusal(signer.sign(&asked(request.to_owned(), usages), now()));
    for usage in ["", "Client Auth", "cert sign", "crl sign"] {
        assert!(
            sign(&pem, &[usage])
                .starts_with(&format!("Malformed: usages that are not valid: {usage:?}; valid are signing"))
        );
    }
    assert_eq!(sign("", &[]), "Malformed: PEM with one CERTIFICATE REQUEST is needed, not with 0");
    assert_eq!(sign(&pem.repeat(2), &[]), "Malformed: PEM with one CERTIFICATE REQUEST is needed, not with 2");
    let broken = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
    assert!(sign(broken, &[]).starts_with("Malformed: the certificate request is not valid PKCS#10"));
    // Another request's signature.
    let mut bytes = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
    let name = bytes.windows(13).position(|part| part == b"system:node:a").unwrap();
    bytes[name + 12] = b'b';
    let forged = der::pem::encode_string("CERTIFICATE REQUEST", der::pem::LineEnding::LF, &bytes).unwrap();
    assert_eq!(sign(&forged, &[]), "Malformed: the certificate request is not signed by its own key");
    let late = signer.sign(&asked(pem.clone(), &[]), "2026-02-01T00:00:00Z".parse().unwrap());
    assert_eq!(refusal(late), "Expired: the authority's own certificate is valid until 2026-01-31T00:00:00Z");
    let long = CertificateRequest { not_after: "2030-01-01T00:00:00Z".into(), ..asked(pem, &[]) };
    let signed = der(&signer.sign(&long, now()).unwrap());
    let end = X509Certificate::from_der(&signed).unwrap().1.validity().not_after.timestamp();
    assert_eq!(end, "2026-01-31T00:00:00Z".parse::<Timestamp>().unwrap().as_second());
}

/// Extensions of an authority, and others, with possibly valid contents.
fn extensions() -> impl Strategy<Value = Vec<(Vec<u64>, Vec<u8>)>> {
    let oid = prop::sample::select(vec![
        vec![2, 5, 29, 19],
        vec![2, 5, 29, 15],
        vec![2, 5, 29, 37],
        vec![2, 5, 29, 30],
        vec![2, 5, 29, 35],
        vec![1, 2, 3],
    ]);
    let content = prop_oneof![
        // CA:TRUE, without and with a path length; keyCertSign and cRLSign; anything.
        Just(vec![0x30, 3, 1, 1, 0xff]),
        Just(vec![0x30, 6, 1, 1, 0xff, 2, 1, 9]),
        Just(vec![3, 2, 1, 6]),
        prop::collection::vec(any::<u8>(), 0..16),
    ];
    prop::collection::vec((oid, content), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_certificate_is_one_of_an_authority_whatever_the_request_contains(asked_for in extensions()) {
        let key = p256();
        let signer = TestAuthority::with_key(&key).signer().unwrap();
        let pem = request(&p256(), |params| {
            params.custom_extensions =
                asked_for.iter().map(|(oid, content)| CustomExtension::from_oid_content(oid, content.clone())).collect();
        });
        let usages = ["any", "signing", "key agreement"];
        let signed = der(&signer.sign(&asked(pem, &usages), now()).unwrap());
        let (_, certificate) = X509Certificate::from_der(&signed).unwrap();
        let constraints = certificate.basic_constraints().unwrap().unwrap();
        prop_assert!(constraints.critical && !constraints.value.ca && constraints.value.path_len_constraint.is_none());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        prop_assert!(!usage.key_cert_sign() && !usage.crl_sign());
        // Usages, constraints and the authority's identifier.
        prop_assert_eq!(certificate.extensions().len(), 4);
    }

    #[test]
    fn a_request_with_other_bytes_is_refused_or_asks_for_the_same(at in any::<prop::sample::Index>(), with in 1..=u8::MAX) {
        let key = p256();
        let signer = TestAuthority::with_key(&key).signer().unwrap();
        let pem = request(&p256(), |_| {});
        let mut bytes = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
        let info = |bytes: &[u8]| x509_cert::request::CertReq::from_der(bytes).map(|request| request.info);
        let original = info(&bytes);
        let at = at.index(bytes.len());
        bytes[at] ^= with;
        let changed = der::pem::encode_string("CERTIFICATE REQUEST", der::pem::LineEnding::LF, &bytes).unwrap();
        match signer.sign(&asked(changed, &[]), now()) {
            Err(error) => prop_assert_eq!(error.reason, "Malformed"),
            // The parameters next to the signature's algorithm are not signed, and not used.
            Ok(_) => prop_assert_eq!(info(&bytes), original),
        }
    }
}

/// The tests above would not detect authorities if their requests could not ask for one.
#[test]
fn the_requests_of_the_property_ask_for_an_authority() {
    let pem = request(&p256(), |params| {
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[2, 5, 29, 19], vec![0x30, 3, 1, 1, 0xff])];
    });
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
    let request = x509_cert::request::CertReq::from_der(&der).unwrap();
    let extensions: x509_cert::request::ExtensionReq =
        request.info.attributes.iter().next().unwrap().values.iter().next().unwrap().decode_as().unwrap();
    let constraints = extensions.0.iter().find(|extension| extension.extn_id.to_string() == "2.5.29.19").unwrap();
    let constraints = x509_cert::ext::pkix::BasicConstraints::from_der(constraints.extn_value.as_bytes()).unwrap();
    assert!(constraints.ca);
}
