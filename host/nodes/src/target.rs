//! The address of the API server and an HTTP client with credentials, from an endpoint or a kubeconfig.
//!
//! Not supported: exec and auth-provider plugins of kubeconfigs; use a token for such a cluster.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, ClientBuilder, Identity};
use serde_json::Value;

use crate::Connect;

/// An API server and an HTTP client with the credentials for it.
#[derive(Debug)]
pub(crate) struct Target {
    /// Scheme, host and port, without a trailing slash.
    pub(crate) base_url: String,
    /// Trusts only this server and sends the user's credentials.
    pub(crate) http: reqwest::Client,
}

/// Reasons why a target is unusable. A retry does not help.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A file is unreadable.
    #[error("read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The kubeconfig is not YAML of the right shape.
    #[error("parse kubeconfig: {0}")]
    Parse(String),
    /// The kubeconfig lacks an entry that it refers to.
    #[error("kubeconfig has no {0}")]
    Missing(String),
    /// A certificate or key is unusable.
    #[error("{what}: {message}")]
    Credentials {
        /// The certificate or key.
        what: &'static str,
        /// The cause.
        message: String,
    },
}

/// The field `part` of the named entry in a kubeconfig's list of that kind.
fn entry<'a>(config: &'a Value, part: &str, name: &str) -> Result<&'a Value, TargetError> {
    let entries = config[format!("{part}s")].as_array().into_iter().flatten();
    let found = entries.into_iter().find(|entry| entry["name"] == name).map(|entry| &entry[part]);
    found.ok_or_else(|| TargetError::Missing(format!("{part} {name:?}")))
}

fn text<'a>(fields: &'a Value, name: &str) -> Option<&'a str> {
    fields[name].as_str().filter(|text| !text.is_empty())
}

impl Target {
    /// Reads the endpoint or kubeconfig.
    pub(crate) fn resolve(connect: &Connect) -> Result<Self, TargetError> {
        match connect {
            Connect::Endpoint(url) => Self::new(url, client()),
            Connect::Kubeconfig(text) => Self::from_kubeconfig(text, Path::new(".")),
            Connect::KubeconfigFile(path) => {
                let text = String::from_utf8_lossy(&read(path)?).into_owned();
                Self::from_kubeconfig(&text, path.parent().unwrap_or(Path::new(".")))
            }
        }
    }

    fn new(url: &str, http: ClientBuilder) -> Result<Self, TargetError> {
        let http = http.build().map_err(|error| bad("HTTP client", error))?;
        Ok(Self { base_url: url.trim_end_matches('/').to_owned(), http })
    }

    /// Reads the current context of a kubeconfig; relative paths in it are relative to `folder`.
    fn from_kubeconfig(text: &str, folder: &Path) -> Result<Self, TargetError> {
        let config: Value = serde_norway::from_str(text).map_err(|error| TargetError::Parse(error.to_string()))?;
        if !config.is_object() {
            return Err(TargetError::Parse("it is not a map".to_owned()));
        }
        let field = |fields: &Value, name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        let context = entry(&config, "context", &field(&config, "current-context"))?;
        let cluster = entry(&config, "cluster", &field(context, "cluster"))?;
        let user = match field(context, "user").as_str() {
            "" => &Value::Null,
            name => entry(&config, "user", name)?,
        };
        let server = field(cluster, "server");
        let mut http = client();
        if let Some(token) = token(user, folder)? {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| bad("token", error))?;
            value.set_sensitive(true);
            http = http.default_headers(HeaderMap::from_iter([(AUTHORIZATION, value)]));
        }
        if server.starts_with("https://") {
            http = tls(http, cluster, user, folder)?;
        }
        Self::new(&server, http)
    }
}

/// Creates a client without credentials and without trusted certificates.
fn client() -> ClientBuilder {
    // Fails if the process already has a provider, which works as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().user_agent("pintle-sim-nodes").no_proxy().tcp_nodelay(true).tls_certs_only([])
}

fn token(user: &Value, folder: &Path) -> Result<Option<String>, TargetError> {
    match (text(user, "token"), text(user, "tokenFile")) {
        (Some(token), _) => Ok(Some(token.to_owned())),
        (None, Some(path)) => Ok(Some(String::from_utf8_lossy(&read(&folder.join(path))?).trim().to_owned())),
        (None, None) => Ok(None),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TargetError> {
    std::fs::read(path).map_err(|source| TargetError::File { path: path.to_owned(), source })
}

fn bad(what: &'static str, error: impl std::fmt::Display) -> TargetError {
    TargetError::Credentials { what, message: error.to_string() }
}

/// PEM from the field `NAME-data` of a kubeconfig, or from the file that the field `NAME` names.
fn pem(fields: &Value, name: &'static str, folder: &Path) -> Result<Option<Vec<u8>>, TargetError> {
    match (text(fields, &format!("{name}-data")), text(fields, name)) {
        (Some(data), _) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
            decoded.map(Some).map_err(|error| bad(name, error))
        }
        (None, Some(path)) => read(&folder.join(path)).map(Some),
        (None, None) => Ok(None),
    }
}

/// The cluster's certificate authority, and the user's certificate.
fn tls(http: ClientBuilder, cluster: &Value, user: &Value, folder: &Path) -> Result<ClientBuilder, TargetError> {
    let what = "certificate-authority";
    let http = match pem(cluster, what, folder)? {
        _ if cluster["insecure-skip-tls-verify"] == true => http.tls_danger_accept_invalid_certs(true),
        Some(authority) => {
            http.tls_certs_only(Certificate::from_pem_bundle(&authority).map_err(|error| bad(what, error))?)
        }
        None => return Err(TargetError::Missing("certificate authority for an https server".to_owned())),
    };
    match (pem(user, "client-certificate", folder)?, pem(user, "client-key", folder)?) {
        (Some(chain), Some(key)) => {
            let both = [key, chain].join(&b"\n"[..]);
            Ok(http.identity(Identity::from_pem(&both).map_err(|error| bad("client-certificate", error))?))
        }
        (None, None) => Ok(http),
        _ => Err(TargetError::Missing("pair of client certificate and key".to_owned())),
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
    fn a_kubeconfig_with_a_token_is_accepted() {
        let text = kubeconfig("http://127.0.0.1:1234");
        let target = Target::resolve(&Connect::Kubeconfig(text)).unwrap();
        assert_eq!(target.base_url, "http://127.0.0.1:1234");
    }

    #[test]
    fn errors_name_the_missing_entry() {
        let error = |text: &str| Target::resolve(&Connect::Kubeconfig(text.to_owned())).unwrap_err().to_string();
        assert_eq!(error("current-context: x"), "kubeconfig has no context \"x\"");
        assert!(error("- 1").starts_with("parse kubeconfig"));
        let https = kubeconfig("https://127.0.0.1:1");
        assert_eq!(error(&https), "kubeconfig has no certificate authority for an https server");
        let absent = Target::resolve(&Connect::KubeconfigFile("no/such/file".into())).unwrap_err();
        assert!(absent.to_string().contains("no/such/file"));
    }
}
