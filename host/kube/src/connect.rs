//! Connections to an API server, from a kubeconfig file or the Pod's service account.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use http::{HeaderValue, Request, Response, StatusCode, header};
use kube::Config;
use kube::client::Body;
use parking_lot::Mutex;
use pintle_core::ports::api::{ApiError, ApiReader, RequestObserver, WriteFence, WriterIdentity, at_most};
use pintle_core::ports::trace::SpanRef;

use crate::account::Account;
use crate::error;
use crate::limit::Limit;
use crate::settings::{ConnectError, Source};
use crate::transport::{Limits, Transport};

/// Extension of a 401 answer: the same request may succeed now, with new credentials.
#[derive(Clone, Copy)]
pub(crate) struct Renewed;

/// Reasons for a missing answer.
pub(crate) enum Unanswered {
    /// The request was not sent.
    NotSent(ApiError),
    /// The request may or may not have been executed.
    Lost(ApiError),
}

/// A client of one API server, shared by all readers and writers.
#[derive(Clone)]
pub struct Connection {
    transport: Arc<Transport>,
    /// The account whose token is used; the host's credentials if absent.
    account: Option<Arc<Account>>,
    /// All accounts by name, so that every user of an account shares one token.
    accounts: Arc<Mutex<BTreeMap<String, Arc<Account>>>>,
    /// Rate limit of all requests. The host's own requests have no limit.
    limit: Arc<Limit>,
    /// Bounds requests in time; only writers have a fence.
    fence: Option<Arc<dyn WriteFence>>,
    /// The `traceparent` header of requests that belong to a span.
    pub(crate) traceparent: Option<HeaderValue>,
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
        Self::open_with(source, Limits::default()).await
    }

    /// Like [`Connection::open`], with other times.
    ///
    /// # Errors
    /// [`ConnectError`]; a retry helps only after the files change.
    pub async fn open_with(source: &Source, limits: Limits) -> Result<Self, ConnectError> {
        let transport = Arc::new(Transport::open(source, limits).await?);
        let config = transport.config();
        let url = config.cluster_url.to_string();
        let host = config.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
        let root_ca = root_ca(&config);
        let observer = Arc::default();
        let (accounts, limit) = (Arc::default(), Arc::default());
        Ok(Self {
            transport,
            account: None,
            accounts,
            limit,
            fence: None,
            traceparent: None,
            url,
            host,
            root_ca,
            observer,
        })
    }

    /// Connects to the cluster of a kubeconfig, and checks that it answers and accepts the credentials. Without a
    /// context, the current one is used.
    ///
    /// # Errors
    /// [`ConnectError`]; a retry helps only if the server is [unreachable](ConnectError::Unreachable).
    pub async fn to(kubeconfig: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let source = Source::File { path: kubeconfig.to_owned(), context: context.map(str::to_owned) };
        let connection = Self::open(&source).await?;
        connection.check().await?;
        Ok(connection)
    }

    /// This connection with its own rate limit, and, if the identity has an account, authenticated as that service
    /// account in `kube-system`. The first request creates the account and fetches its token.
    pub(crate) fn of(&self, identity: &WriterIdentity) -> Self {
        let account = identity.account.as_deref().map(|name| {
            self.accounts.lock().entry(name.to_owned()).or_insert_with(|| Arc::new(Account::new(name))).clone()
        });
        Self { account, limit: Arc::new(Limit::of(identity)), ..self.clone() }
    }

    /// This connection for requests that may be sent only while the fence is open.
    pub(crate) fn fenced(&self, fence: Option<Arc<dyn WriteFence>>) -> Self {
        Self { fence, ..self.clone() }
    }

    /// This connection for requests that belong to a span. Everything else is shared, including the rate limit.
    pub(crate) fn traced(&self, span: SpanRef) -> Self {
        Self { traceparent: HeaderValue::try_from(span.to_string()).ok(), ..self.clone() }
    }

    /// Waits until the rate limit admits a request, and reports the delay.
    pub(crate) async fn wait_for_turn(&self, method: &'static str) {
        if let Some(delay) = self.limit.wait().await {
            self.report(|observer| observer.delayed(method, &self.host, delay));
        }
    }

    /// The server's answer, or the connection error.
    pub(crate) async fn answer(&self, mut request: Request<Body>) -> Result<Response<Body>, Unanswered> {
        let lost = |why: kube::Error| Unanswered::Lost(error::from_client(&why));
        // Before an account or a token is created for the request.
        self.check_fence()?;
        let clients = self.transport.clients().await;
        let Some(account) = &self.account else {
            let mut response = self.while_open(clients.host.send(request)).await?.map_err(lost)?;
            if response.status() == StatusCode::UNAUTHORIZED && self.transport.rejected(&clients).await {
                response.extensions_mut().insert(Renewed);
            }
            return Ok(response);
        };
        let host = Self { account: None, limit: Arc::default(), fence: None, ..self.clone() };
        // Boxed, because fetching a token is itself a request.
        let authorization = Box::pin(account.authorization(&host)).await.map_err(Unanswered::NotSent)?;
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        let mut response = self.while_open(clients.bare.send(request)).await?.map_err(lost)?;
        if response.status() == StatusCode::UNAUTHORIZED {
            account.refused(&authorization).await;
            response.extensions_mut().insert(Renewed);
        }
        Ok(response)
    }

    fn check_fence(&self) -> Result<(), Unanswered> {
        match &self.fence {
            Some(fence) if !fence.is_open() => Err(Unanswered::NotSent(ApiError::not_leading())),
            _ => Ok(()),
        }
    }

    /// Sends a request if the fence is open, and abandons it when the fence closes.
    async fn while_open<T>(&self, sent: impl Future<Output = T>) -> Result<T, Unanswered> {
        let Some(fence) = &self.fence else { return Ok(sent.await) };
        self.check_fence()?;
        let lost = || ApiError::transport("abandoned: the host lost the Lease of its leader election meanwhile");
        tokio::select! {
            biased;
            () = fence.closed() => Err(Unanswered::Lost(lost())),
            answer = sent => Ok(answer),
        }
    }

    /// A client with the host's current credentials, for other requests than the host's own.
    pub async fn http_client(&self) -> kube::Client {
        self.transport.clients().await.host.clone()
    }

    /// Address of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Certificates of the server's certificate authorities, in PEM; absent for plain HTTP and when the system's
    /// authorities apply.
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
        match self.raw("/api", &at_most(1 << 20)).await {
            Ok(_) => Ok(()),
            Err(ApiError { code: 401 | 403, message, .. }) => {
                Err(ConnectError::Unauthorized { url: self.url.clone(), why: message })
            }
            Err(why) => Err(ConnectError::Unreachable { url: self.url.clone(), why: why.message }),
        }
    }

    /// Version of the API server, such as `v1.36.3`; `None` if it does not answer.
    ///
    /// # Cancel safety
    /// Safe: the request only reads.
    pub async fn server_version(&self) -> Option<String> {
        let text = self.raw("/version", &at_most(1 << 20)).await.ok()?;
        let version: serde_json::Value = serde_json::from_str(&text).ok()?;
        version["gitVersion"].as_str().map(str::to_owned)
    }

    /// Reports every later request of all clones of this connection to an observer. Only the first observer is used.
    pub fn observe(&self, observer: Arc<dyn RequestObserver>) {
        // A second observer would count every request twice.
        let _ = self.observer.set(observer);
    }

    /// Reports that a request is sent again with new credentials.
    pub(crate) fn renewed(&self, method: &'static str) {
        self.report(|observer| observer.repeated(method, &self.host, StatusCode::UNAUTHORIZED.as_u16()));
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

fn root_ca(config: &Config) -> Option<String> {
    if let Some(file) = &config.root_cert_file {
        return std::fs::read_to_string(file).ok();
    }
    let certificates = config.root_cert.as_ref().filter(|certificates| !certificates.is_empty())?;
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    Some(certificates.iter().map(|der| pem::encode_config(&pem::Pem::new("CERTIFICATE", &**der), lines)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_become_pem() {
        let mut config = Config::new(http::Uri::default());
        config.root_cert = Some(vec![vec![0xff; 49]; 2]);
        let one = format!("-----BEGIN CERTIFICATE-----\n{}\n/w==\n-----END CERTIFICATE-----\n", "/".repeat(64));
        assert_eq!(root_ca(&config), Some(one.repeat(2)));
    }
}
