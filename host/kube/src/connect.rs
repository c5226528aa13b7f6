//! Connections to an API server, from a kubeconfig file or the Pod's service account.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use http::{Request, Response, StatusCode, header};
use kube::client::{Body, ClientBuilder};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use parking_lot::Mutex;
use pintle_core::ports::api::{ApiError, ApiReader, READ_TIMEOUT, RequestObserver};

use crate::account::{self, Account};
use crate::error;

/// Source of the address and the credentials.
#[derive(Clone, Debug)]
pub enum Source {
    /// A kubeconfig file and the name of a context in it (default: the current context).
    File {
        /// Path of the file.
        path: PathBuf,
        /// Name of the context.
        context: Option<String>,
    },
    /// The text of a kubeconfig.
    Text(String),
    /// The service account of the Pod that this process runs in.
    InCluster,
}

/// Reasons why the API server cannot be used. Each message names the next step.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig is missing, unreadable or wrong.
    #[error("cannot use kubeconfig {path}: {why}; name another with --kubeconfig FILE")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not in a Pod, or without a service account token.
    #[error(
        "cannot use the in-cluster configuration: {0}; outside a cluster, name a kubeconfig with --kubeconfig FILE"
    )]
    InCluster(String),
    /// The HTTP client cannot be created, for example because a certificate does not parse.
    #[error("cannot create a client for {url}: {why}")]
    Client {
        /// Address of the server.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// The server rejected the credentials.
    #[error(
        "the API server at {url} does not accept these credentials ({why}); check the user of the kubeconfig's context"
    )]
    Unauthorized {
        /// Address of the server.
        url: String,
        /// The server's message.
        why: String,
    },
    /// The server sent no usable answer.
    #[error(
        "cannot reach the API server at {url}: {why}; check that it runs and that the address in the kubeconfig is right"
    )]
    Unreachable {
        /// Address of the server.
        url: String,
        /// The cause.
        why: String,
    },
}

/// Causes of a missing answer.
pub(crate) enum Unanswered {
    /// The request was not sent.
    NotSent(ApiError),
    /// The request may or may not have been carried out.
    Lost(ApiError),
}

/// A client of one API server, shared by all readers and writers.
#[derive(Clone)]
pub struct Connection {
    /// Authenticates with the host's credentials.
    client: Client,
    /// Sends no credentials.
    bare: Client,
    /// The account whose token requests carry; the host's credentials if absent.
    account: Option<Arc<Account>>,
    /// All accounts by name, so that every user of an account shares one token.
    accounts: Arc<Mutex<BTreeMap<String, Arc<Account>>>>,
    url: String,
    /// Host and port, the label of the request metrics.
    pub(crate) host: String,
    root_ca: Option<String>,
    observer: Arc<OnceLock<Arc<dyn RequestObserver>>>,
}

impl Connection {
    /// Reads the configuration and creates a client. Sends nothing to the server yet.
    ///
    /// # Errors
    /// [`ConnectError`]; a retry helps only after the files change.
    pub async fn open(source: &Source) -> Result<Self, ConnectError> {
        let mut config = load(source).await?;
        // The host has its own retry rules, and over loopback or a LAN plain JSON is cheaper than compression.
        config.default_retry = false;
        config.disable_compression = true;
        config.connect_timeout = Some(Duration::from_secs(10));
        config.read_timeout = Some(READ_TIMEOUT);
        let url = config.cluster_url.to_string();
        let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        let root_ca = root_ca(&config);
        let mut bare = config.clone();
        bare.auth_info = AuthInfo::default();
        let client = |config| match ClientBuilder::try_from(config) {
            Ok(builder) => Ok(builder.build()),
            Err(why) => Err(ConnectError::Client { url: url.clone(), why: error::chain(&why) }),
        };
        let (client, bare) = (client(config)?, client(bare)?);
        let observer = Arc::default();
        Ok(Self { client, bare, account: None, accounts: Arc::default(), url, host, root_ca, observer })
    }

    /// This connection, authenticated as a service account of `kube-system`. The first request creates the account and
    /// fetches its token.
    pub(crate) fn as_account(&self, name: &str) -> Self {
        let account =
            self.accounts.lock().entry(name.to_owned()).or_insert_with(|| Arc::new(Account::new(name))).clone();
        Self { account: Some(account), ..self.clone() }
    }

    /// The server's answer, or the error of the connection.
    pub(crate) async fn answer(&self, mut request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        let Some(account) = &self.account else {
            return self.client.send(request).await.map_err(|why| Unanswered::Lost(error::from_client(&why)));
        };
        let host = Self { account: None, ..self.clone() };
        // Boxed, because fetching a token is itself a request.
        let authorization = Box::pin(account.authorization(&host)).await.map_err(Unanswered::NotSent)?;
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        let response = self.bare.send(request).await.map_err(|why| Unanswered::Lost(error::from_client(&why)))?;
        if response.status() == StatusCode::UNAUTHORIZED {
            account.refused(&authorization).await;
        }
        Ok(response)
    }

    /// Whether the same request may succeed with a new token: the server rejected the token that it carried.
    pub(crate) fn may_renew(&self, error: &ApiError) -> bool {
        self.account.is_some() && error.code == 401 && error.reason != account::NO_TOKEN
    }

    /// Address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Certificates of the server's certificate authorities, in PEM; absent for plain HTTP and when the system's authorities
    /// apply.
    pub fn root_ca(&self) -> Option<String> {
        self.root_ca.clone()
    }

    /// Requests the server's version, to detect a wrong address or wrong credentials early.
    ///
    /// # Errors
    /// [`ConnectError::Unauthorized`] (a retry does not help) or [`ConnectError::Unreachable`] (a retry may help).
    ///
    /// # Cancel safety
    /// Safe: the request only reads.
    pub async fn check(&self) -> Result<(), ConnectError> {
        // Anonymous requests get 401 or 403 here, whereas /version may be public.
        match self.raw("/api", 1 << 20).await {
            Ok(_) => Ok(()),
            Err(ApiError { code: 401 | 403, message, .. }) => {
                Err(ConnectError::Unauthorized { url: self.url.clone(), why: message })
            }
            Err(why) => Err(ConnectError::Unreachable { url: self.url.clone(), why: why.message }),
        }
    }

    /// Reports every later request of all clones of this connection to an observer. Only the first observer is used.
    pub fn observe(&self, observer: Arc<dyn RequestObserver>) {
        // A second observer would count every request twice.
        let _ = self.observer.set(observer);
    }

    pub(crate) fn report(&self, what: impl FnOnce(&dyn RequestObserver)) {
        if let Some(observer) = self.observer.get() {
            what(&**observer);
        }
    }

    /// This connection as the runtime's port.
    pub fn reader(&self) -> Arc<dyn ApiReader> {
        Arc::new(self.clone())
    }
}

async fn load(source: &Source) -> Result<Config, ConnectError> {
    match source {
        Source::File { path, context } => {
            let shown = path.display().to_string();
            // A parser may print the position in several lines; the first one names the problem.
            let fail = |why: String| ConnectError::Kubeconfig {
                path: shown.clone(),
                why: why.lines().next().unwrap_or_default().to_owned(),
            };
            std::fs::metadata(path).map_err(|why| fail(why.to_string()))?;
            let kubeconfig = Kubeconfig::read_from(path).map_err(|why| fail(error::chain(&why)))?;
            let options = KubeConfigOptions { context: context.clone(), ..Default::default() };
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|why| fail(error::chain(&why)))
        }
        Source::Text(text) => {
            let fail = |why: String| ConnectError::Kubeconfig { path: "(given as text)".into(), why };
            let kubeconfig = Kubeconfig::from_yaml(text).map_err(|why| fail(error::chain(&why)))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|why| fail(error::chain(&why)))
        }
        Source::InCluster => Config::incluster().map_err(|why| ConnectError::InCluster(error::chain(&why))),
    }
}

fn root_ca(config: &Config) -> Option<String> {
    if let Some(file) = &config.root_cert_file {
        return std::fs::read_to_string(file).ok();
    }
    let certificates = config.root_cert.as_ref().filter(|certificates| !certificates.is_empty())?;
    Some(certificates.iter().map(|der| pem(der)).collect())
}

/// A certificate in the form of RFC 7468: lines of 64 characters.
fn pem(der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so every index is a character boundary.
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_become_pem_with_lines_of_64_characters() {
        let text = pem(&[0xff; 49]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.first(), Some(&"-----BEGIN CERTIFICATE-----"));
        assert_eq!(lines[1..lines.len() - 1].iter().map(|line| line.len()).collect::<Vec<_>>(), [64, 4]);
    }
}
