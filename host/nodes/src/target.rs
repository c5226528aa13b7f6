//! Where the API server is and how to prove who we are, from an endpoint or a kubeconfig.
//!
//! Not here: exec and auth-provider plugins of kubeconfigs; a cluster that needs them gives a token instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde::Deserialize;

use crate::Connect;

/// An API server and the credentials for it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Scheme, host and port, without a slash at the end.
    pub base_url: String,
    /// Bearer token.
    pub token: Option<String>,
    /// TLS settings, client certificate included; absent for plain HTTP.
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

/// Why a target is of no use. None of these goes away by trying again.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A file cannot be read.
    #[error("read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The kubeconfig is not YAML of the right shape.
    #[error("parse kubeconfig: {0}")]
    Parse(String),
    /// Something that the kubeconfig refers to is not in it.
    #[error("kubeconfig has no {0}")]
    Missing(String),
    /// A certificate or key is unusable.
    #[error("{what}: {message}")]
    Credentials {
        /// Which one.
        what: &'static str,
        /// Why.
        message: String,
    },
}

#[derive(Deserialize)]
struct Kubeconfig {
    #[serde(rename = "current-context", default)]
    current_context: String,
    #[serde(default)]
    clusters: Vec<Named>,
    #[serde(default)]
    users: Vec<Named>,
    #[serde(default)]
    contexts: Vec<Named>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: String,
    cluster: Cluster,
    user: User,
    context: Context,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default, rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
    insecure_skip_tls_verify: bool,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default, rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct Context {
    cluster: String,
    user: String,
}

impl Target {
    /// Reads the endpoint or kubeconfig.
    ///
    /// # Errors
    /// When a file, an entry or a credential is missing or unusable.
    pub fn resolve(connect: &Connect) -> Result<Self, TargetError> {
        match connect {
            Connect::Endpoint(url) => {
                Ok(Self { base_url: url.trim_end_matches('/').to_owned(), token: None, tls: None })
            }
            Connect::Kubeconfig(text) => Self::from_kubeconfig(text, Path::new(".")),
            Connect::KubeconfigFile(path) => {
                let text = String::from_utf8_lossy(&read(path)?).into_owned();
                Self::from_kubeconfig(&text, path.parent().unwrap_or(Path::new(".")))
            }
        }
    }

    /// Reads the current context of a kubeconfig; relative paths in it start at `folder`.
    fn from_kubeconfig(text: &str, folder: &Path) -> Result<Self, TargetError> {
        let config: Kubeconfig = serde_norway::from_str(text).map_err(|error| TargetError::Parse(error.to_string()))?;
        let find = |list: &'_ [Named], what: &str, name: &str| {
            let found = list.iter().position(|entry| entry.name == name);
            found.ok_or_else(|| TargetError::Missing(format!("{what} {name:?}")))
        };
        let context = &config.contexts[find(&config.contexts, "context", &config.current_context)?].context;
        let cluster = &config.clusters[find(&config.clusters, "cluster", &context.cluster)?].cluster;
        let user = match context.user.as_str() {
            "" => User::default(),
            name => config.users[find(&config.users, "user", name)?].user.clone(),
        };
        let base_url = cluster.server.trim_end_matches('/').to_owned();
        let token = match (&user.token, &user.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(path)) => Some(String::from_utf8_lossy(&read(&folder.join(path))?).trim().to_owned()),
            (None, None) => None,
        };
        let tls = match base_url.starts_with("https://") {
            true => Some(Arc::new(tls_config(cluster, &user, folder)?)),
            false => None,
        };
        Ok(Self { base_url, token, tls })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TargetError> {
    std::fs::read(path).map_err(|source| TargetError::File { path: path.to_owned(), source })
}

fn bad(what: &'static str, error: impl std::fmt::Display) -> TargetError {
    TargetError::Credentials { what, message: error.to_string() }
}

/// PEM from the kubeconfig itself or from a file that it names.
fn pem(
    what: &'static str,
    data: Option<&String>,
    file: Option<&PathBuf>,
    folder: &Path,
) -> Result<Option<Vec<u8>>, TargetError> {
    match (data, file) {
        (Some(data), _) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
            decoded.map(Some).map_err(|error| bad(what, error))
        }
        (None, Some(path)) => read(&folder.join(path)).map(Some),
        (None, None) => Ok(None),
    }
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| bad(what, error))
}

fn tls_config(cluster: &Cluster, user: &User, folder: &Path) -> Result<rustls::ClientConfig, TargetError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("TLS versions", error))?;
    let what = "certificate authority";
    let authority =
        pem(what, cluster.certificate_authority_data.as_ref(), cluster.certificate_authority.as_ref(), folder)?;
    let builder = match authority {
        _ if cluster.insecure_skip_tls_verify => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        }
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            for certificate in certificates(what, &authority)? {
                roots.add(certificate).map_err(|error| bad(what, error))?;
            }
            builder.with_root_certificates(roots)
        }
        None => {
            return Err(TargetError::Missing("certificate authority for an https server".to_owned()));
        }
    };
    let what = "client certificate";
    let chain = pem(what, user.client_certificate_data.as_ref(), user.client_certificate.as_ref(), folder)?;
    let key = pem("client key", user.client_key_data.as_ref(), user.client_key.as_ref(), folder)?;
    match (chain, key) {
        (Some(chain), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| bad("client key", error))?;
            let chain = certificates(what, &chain)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| bad(what, error))
        }
        (None, None) => Ok(builder.with_no_client_auth()),
        _ => Err(TargetError::Missing("pair of client certificate and key".to_owned())),
    }
}

/// Accepts every server: `insecure-skip-tls-verify`.
#[derive(Debug)]
struct AnyServer(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig with one context and a token.
    fn kubeconfig(server: &str) -> String {
        format!(
            "clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\nusers: [{{name: a, user: {{token: secret}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
        )
    }

    #[test]
    fn a_kubeconfig_with_a_token_is_understood() {
        let text = kubeconfig("http://127.0.0.1:1234");
        let target = Target::resolve(&Connect::Kubeconfig(text)).unwrap();
        assert_eq!(target.base_url, "http://127.0.0.1:1234");
        assert!(target.tls.is_none());
        assert_eq!(target.token.as_deref(), Some("secret"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = |text: &str| Target::resolve(&Connect::Kubeconfig(text.to_owned())).unwrap_err().to_string();
        assert_eq!(error("current-context: x"), "kubeconfig has no context \"x\"");
        assert!(error("- 1").starts_with("parse kubeconfig"));
        let https = kubeconfig("https://127.0.0.1:1");
        assert_eq!(error(&https), "kubeconfig has no certificate authority for an https server");
        let absent = Target::resolve(&Connect::KubeconfigFile("no/such/file".into())).unwrap_err();
        assert!(absent.to_string().contains("no/such/file"));
    }
}
