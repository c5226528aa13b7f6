//! Access to the embedded API server: only for the owner of the kubeconfig of this run.
//!
//! Any local user can connect to a loopback port, and every connected client has all permissions. TLS authenticates
//! clients: the server accepts one client certificate, whose key is in the kubeconfig. A bearer token is not an option,
//! because kubectl sends none without TLS.

use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;

use super::kubeconfig::{NAME, mark};

/// The certificates of one run of `pintle dev`.
pub(super) struct Access {
    /// TLS configuration of the server.
    pub(super) tls: Arc<ServerConfig>,
    /// The authority of both sides, in PEM. Its key is discarded: it signs these two certificates only.
    pub(super) authority: String,
    certificate: String,
    key: String,
}

/// A certificate and its key.
struct Issued {
    pem: String,
    der: CertificateDer<'static>,
    key: KeyPair,
}

impl Access {
    /// Generates new keys and certificates.
    ///
    /// # Errors
    /// No random numbers are available.
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::issue().context("make the certificates of the embedded API server")
    }

    fn issue() -> anyhow::Result<Self> {
        let mut params = named("pintle dev", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let issue = |name, addresses: &[&str], usage| -> anyhow::Result<Issued> {
            let mut params = named(name, addresses)?;
            params.extended_key_usages = vec![usage];
            let key = KeyPair::generate()?;
            let issued = params.signed_by(&key, &authority)?;
            Ok(Issued { pem: issued.pem(), der: issued.der().clone(), key })
        };
        let server = issue("pintle-sim", &["127.0.0.1", "localhost"], ExtendedKeyUsagePurpose::ServerAuth)?;
        let client = issue("pintle", &[], ExtendedKeyUsagePurpose::ClientAuth)?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
        let key = PrivateKeyDer::try_from(server.key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![server.der], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let (certificate, key) = (client.pem, client.key.serialize_pem());
        Ok(Self { tls: Arc::new(tls), authority: authority.pem(), certificate, key })
    }

    /// The kubeconfig of this run for the server at this URL, in YAML.
    pub(super) fn kubeconfig(&self, server: &str) -> anyhow::Result<String> {
        let data = |pem: &str| STANDARD.encode(pem);
        let cluster = json!({"server": server, "certificate-authority-data": data(&self.authority)});
        let user = json!({"client-certificate-data": data(&self.certificate), "client-key-data": data(&self.key)});
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": NAME, "cluster": cluster}],
            "users": [{"name": NAME, "user": user}],
            "contexts": [{"name": "pintle", "context": {"cluster": NAME, "user": NAME}}],
            "current-context": "pintle",
            "extensions": mark(),
        });
        serde_norway::to_string(&config).context("write the kubeconfig")
    }
}

fn named(name: &str, addresses: &[&str]) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(addresses.iter().map(|address| (*address).to_owned()).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
