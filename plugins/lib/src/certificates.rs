//! Certificate requests (PKCS#10), and the end of certificates.
//!
//! *Invariant*: a certificate contains what this module returns for the request. The host signs with the same library
//! (`host/outside/src/request.rs`), so both parse the same bytes alike. A part that cannot be parsed is an error, and
//! is never omitted.
//!
//! *Source*: `pkg/apis/certificates/helpers.go`, and Go's `crypto/x509`. The API server accepts only requests and
//! certificates that Go can parse.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sdk::time::Timestamp;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// Part of the API: the group and the prefix of the names of kubelets.
const NODES: &str = "system:nodes";
const NODE: &str = "system:node:";

const KEY_ENCIPHERMENT: &str = "key encipherment";

/// Decodes a base64 field of the API; `None` if it is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

/// Encodes a base64 field of the API.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// The fields of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The common name of the subject; the last one of several, as in Go.
    pub common_name: String,
    /// The organizations of the subject.
    pub organizations: Vec<String>,
    /// Whether the subject alternative names contain a DNS name.
    pub has_dns: bool,
    /// Whether they contain a mail address.
    pub has_email: bool,
    /// Whether they contain an IP address.
    pub has_ip: bool,
    /// Whether they contain a URI.
    pub has_uri: bool,
}

impl Request {
    /// Parses a request in PEM.
    ///
    /// # Errors
    /// It is not a request, or a part cannot be parsed.
    #[doc(alias = "ParseCSR")]
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem)
            .map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
        let request = CertReq::from_der(&der).map_err(|why| why.to_string())?;
        let mut parsed = Self::default();
        for attribute in request.info.subject.iter() {
            match attribute.oid {
                COMMON_NAME => parsed.common_name = text(attribute)?,
                ORGANIZATION => parsed.organizations.push(text(attribute)?),
                _ => {}
            }
        }
        for name in alternative_names(&request)? {
            match name {
                GeneralName::DnsName(_) => parsed.has_dns = true,
                GeneralName::Rfc822Name(_) => parsed.has_email = true,
                GeneralName::IpAddress(_) => parsed.has_ip = true,
                GeneralName::UniformResourceIdentifier(_) => parsed.has_uri = true,
                // Certificates do not contain them.
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// Checks a request of a kubelet for a client certificate.
    ///
    /// # Errors
    /// The problem, in upstream's words.
    #[doc(alias = "ValidateKubeletClientCSR")]
    #[doc(alias = "IsKubeletClientCSR")]
    pub fn validate_kubelet_client(&self, usages: &[String]) -> Result<(), String> {
        self.is_of_nodes()?;
        for (has, kind) in
            [(self.has_dns, "DNS"), (self.has_email, "Email"), (self.has_ip, "IP"), (self.has_uri, "URI")]
        {
            not_allowed(has, kind)?;
        }
        self.is_of_node()?;
        has_usages(usages, ["client auth", "digital signature", KEY_ENCIPHERMENT])
    }

    /// Checks a request of a kubelet for a serving certificate.
    ///
    /// # Errors
    /// The problem, in upstream's words.
    #[doc(alias = "ValidateKubeletServingCSR")]
    pub fn validate_kubelet_serving(&self, usages: &[String]) -> Result<(), String> {
        self.is_of_nodes()?;
        if !self.has_dns && !self.has_ip {
            return Err("DNS or IP subjectAltName is required".to_owned());
        }
        not_allowed(self.has_email, "Email")?;
        not_allowed(self.has_uri, "URI")?;
        has_usages(usages, ["digital signature", KEY_ENCIPHERMENT, "server auth"])?;
        self.is_of_node()
    }

    fn is_of_nodes(&self) -> Result<(), String> {
        let is_so = self.organizations == [NODES];
        is_so.then_some(()).ok_or_else(|| format!("subject organization is not {NODES}"))
    }

    fn is_of_node(&self) -> Result<(), String> {
        let is_so = self.common_name.starts_with(NODE);
        is_so.then_some(()).ok_or_else(|| format!("subject common name does not begin with {NODE}"))
    }
}

fn not_allowed(has: bool, kind: &str) -> Result<(), String> {
    if has { Err(format!("{kind} subjectAltNames are not allowed")) } else { Ok(()) }
}

/// Checks that these are the required usages; `key encipherment`, for RSA keys, is optional.
fn has_usages(usages: &[String], required: [&str; 3]) -> Result<(), String> {
    let is_required = usages.iter().all(|usage| required.contains(&usage.as_str()));
    let mut needed = required.iter().filter(|usage| **usage != KEY_ENCIPHERMENT);
    match is_required && needed.all(|needed| usages.iter().any(|usage| usage == needed)) {
        true => Ok(()),
        false => Err(format!("usages did not match [{}]", required.join(" "))),
    }
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
    text.ok_or_else(|| format!("the subject has an attribute {} whose text cannot be read", attribute.oid))
}

fn alternative_names(request: &CertReq) -> Result<Vec<GeneralName>, String> {
    let mut found: Option<SubjectAltName> = None;
    let requested = request.info.attributes.iter().filter(|attribute| attribute.oid == EXTENSION_REQUEST);
    for value in requested.flat_map(|attribute| attribute.values.iter()) {
        let extensions = value.decode_as::<ExtensionReq>().map_err(|why| why.to_string())?;
        for extension in extensions.0.iter().filter(|extension| extension.extn_id == SUBJECT_ALT_NAME) {
            let names = SubjectAltName::from_der(extension.extn_value.as_bytes()).map_err(|why| why.to_string())?;
            if found.replace(names).is_some() {
                return Err("the request has more than one list of subject alternative names".to_owned());
            }
        }
    }
    Ok(found.map(|found| found.0).unwrap_or_default())
}

/// The end of the first certificate in PEM; `None` if none can be parsed.
pub fn not_after(pem: &[u8]) -> Option<Timestamp> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let certificate = Certificate::from_der(&der).ok()?;
    let end = certificate.tbs_certificate().validity().not_after.to_unix_duration();
    i64::try_from(end.as_micros()).ok().map(Timestamp::from_micros)
}
