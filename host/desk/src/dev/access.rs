//! Access to the embedded API server: only for the owner of the kubeconfig of this run, and for those to whom the owner
//! gives a certificate or a token.
//!
//! Any local user can connect to a loopback port, and every client that is accepted has all permissions. TLS
//! authenticates clients: the server accepts the certificate in the kubeconfig, and those that the signing controller
//! issues for CertificateSigningRequests. Without a certificate, it accepts the token of a ServiceAccount.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_sim::TokenKey;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tempfile::TempDir;

use super::kubeconfig::{NAME, mark};

/// Names of files, as those of kubeadm.
const CA: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const TOKEN_KEY: &str = "sa.key";

/// The certificates and keys of one run of `pintle dev`.
pub(super) struct Access {
    /// TLS configuration of the server.
    pub(super) tls: Arc<ServerConfig>,
    /// The authority of both sides, in PEM.
    pub(super) authority: String,
    /// The key of the tokens of ServiceAccounts.
    pub(super) tokens: Arc<TokenKey>,
    certificate: String,
    key: String,
    /// The authority and the keys for controllers, which read files. Removed with this value.
    folder: TempDir,
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
    /// No random numbers are available, or the files cannot be written.
    pub(super) fn new() -> anyhow::Result<Self> {
        Self::issue().context("make the certificates of the embedded API server")
    }

    fn issue() -> anyhow::Result<Self> {
        let mut params = named("pintle dev", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let key = KeyPair::generate()?;
        let authority_key = key.serialize_pem();
        let authority = CertifiedIssuer::self_signed(params, key)?;
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
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        // Without a certificate, the server requires a token.
        let clients = clients.allow_unauthenticated().build()?;
        let key = PrivateKeyDer::try_from(server.key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![server.der], key)?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let token_key = KeyPair::generate()?;
        let tokens = TokenKey::parse(&token_key.serialize_der()).map_err(anyhow::Error::msg)?;

        let folder =
            tempfile::Builder::new().prefix("pintle-dev-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        let authority = authority.pem();
        for (name, pem) in [(CA, &authority), (CA_KEY, &authority_key), (TOKEN_KEY, &token_key.serialize_pem())] {
            fs::write(folder.path().join(name), pem)?;
        }
        let (tls, tokens) = (Arc::new(tls), Arc::new(tokens));
        let (certificate, key) = (client.pem, client.key.serialize_pem());
        Ok(Self { tls, authority, tokens, certificate, key, folder })
    }

    /// The flags of kube-controller-manager for the authority that signs certificates, with their files.
    pub(super) fn authority_flags(&self) -> [(&'static str, PathBuf); 2] {
        let at = |name| self.folder.path().join(name);
        [("cluster-signing-cert-file", at(CA)), ("cluster-signing-key-file", at(CA_KEY))]
    }

    /// The flag of kube-controller-manager for the key that signs tokens, with its file.
    pub(super) fn token_flag(&self) -> (&'static str, PathBuf) {
        ("service-account-private-key-file", self.folder.path().join(TOKEN_KEY))
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
