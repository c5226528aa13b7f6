//! TCP, TLS and HTTP connections to the API server, and their credentials.
//!
//! ```text
//! request ──> Clients (present credentials) ──> Pool ──> hyper client (one HTTP/2 connection) ──> proxy? ──> API server
//!                └─ files changed, or 401: settings are loaded again, new clients ─┘
//! ```
//!
//! A dead peer is detected within [`Limits::ping_interval`] + [`Limits::ping_timeout`] by HTTP/2 pings, which reach the
//! API server even through load balancers that keep their side open. A peer that only supports HTTP/1.1 (without TLS,
//! or through `kubectl proxy`) is detected by TCP keepalive and by unacknowledged data, and if it is alive but silent,
//! by the read timeout.
//!
//! Invariants:
//! 1. A connection carries at most [`MAX_STREAMS`] concurrent requests; more use further connections. API servers allow
//!    100 or more.
//! 2. New credentials apply to the next request. Open watches continue on their connection until they end.
//! 3. If files cannot be read, the last credentials stay in use.
//!
//! Source: client-go `transport/cert_rotation.go`, `transport/token_source.go`, `plugin/pkg/client/auth/exec` (which
//! files rotate, and new credentials after 401); `k8s.io/apimachinery/pkg/util/net/http.go` (HTTP/2 pings).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connect, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::config::AuthInfo;
use kube::{Client, Config};
use parking_lot::{Mutex, RwLock};
use pintle_core::ports::api::READ_TIMEOUT;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder};

use crate::error;
use crate::route::Route;
use crate::settings::{ConnectError, Settings, Source};

/// Maximum requests in flight per connection.
const MAX_STREAMS: usize = 64;
/// Unread bytes per stream and per connection that HTTP/2 accepts. A stream with a slow reader must not block the
/// others.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 256 << 20;
/// Time without data before the first keepalive probe, and between its three probes.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const TCP_KEEPALIVE_RETRIES: u32 = 3;

/// Timeouts and intervals of connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time without data after which a ping is sent. Default 20 s.
    pub ping_interval: Duration,
    /// Time without an answer to a ping after which the connection is dead. Default 15 s, as in client-go. Together
    /// with the interval this is less than 45 s, client-go's sum.
    pub ping_timeout: Duration,
    /// Time to establish a connection, including name resolution, proxy and TLS. Default 10 s.
    pub connect_timeout: Duration,
    /// Interval for detecting changed files. Default 10 s.
    pub reload_interval: Duration,
    /// Minimum time between two loads after the server rejected the credentials. Default 1 s.
    pub renew_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ping_interval: Duration::from_secs(20),
            ping_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(10),
            reload_interval: Duration::from_secs(10),
            renew_pause: Duration::from_secs(1),
        }
    }
}

/// Clients with the same settings.
pub(crate) struct Clients {
    /// Authenticates with the configured credentials.
    pub(crate) host: Client,
    /// Sends no credentials.
    pub(crate) bare: Client,
    settings: Settings,
}

/// Connections with the current settings.
pub(crate) struct Transport {
    source: Source,
    limits: Limits,
    current: RwLock<Arc<Clients>>,
    /// Held while settings are loaded; contains the time of the last load.
    loaded: tokio::sync::Mutex<Instant>,
    /// Time of the next check for changed files.
    next_load: Mutex<Instant>,
}

impl Transport {
    /// Loads the settings; sends nothing yet. A program that provides credentials is run.
    pub(crate) async fn open(source: &Source, limits: Limits) -> Result<Self, ConnectError> {
        let settings = Settings::load(source).await?;
        let clients = Clients::new(settings, limits).await?;
        let now = Instant::now();
        Ok(Self {
            source: source.clone(),
            limits,
            current: RwLock::new(Arc::new(clients)),
            loaded: tokio::sync::Mutex::new(now),
            next_load: Mutex::new(now + limits.reload_interval),
        })
    }

    pub(crate) fn config(&self) -> Config {
        self.current.read().settings.config.clone()
    }

    /// The clients for the next request.
    pub(crate) async fn clients(&self) -> Arc<Clients> {
        let now = Instant::now();
        let is_due = {
            let mut next = self.next_load.lock();
            let is_due = now >= *next;
            if is_due {
                *next = now + self.limits.reload_interval;
            }
            is_due
        };
        if is_due {
            self.reload(false).await;
        }
        self.current.read().clone()
    }

    /// Handles credentials of these clients that the server rejected. Returns whether there are new ones.
    pub(crate) async fn rejected(&self, used: &Arc<Clients>) -> bool {
        let is_other = || !Arc::ptr_eq(used, &self.current.read());
        if is_other() {
            return true;
        }
        let last = *self.loaded.lock().await;
        if last.elapsed() >= self.limits.renew_pause {
            self.reload(true).await;
        }
        is_other()
    }

    /// Replaces the clients if the settings have changed. `rejected`: the server rejected the current credentials.
    async fn reload(&self, rejected: bool) {
        if matches!(self.source, Source::Text(_) | Source::InProcess { .. }) && !rejected {
            return;
        }
        // Another task is loading already: the next request uses the result.
        let Ok(mut loaded) = self.loaded.try_lock() else { return };
        *loaded = Instant::now();
        let before = self.current.read().clone();
        let settings = match Settings::load(&self.source).await {
            Ok(settings) => settings,
            Err(why) => {
                tracing::warn!(%why, "the configuration of the connection cannot be read again; the last one stays in use");
                return;
            }
        };
        let runs_program = rejected && settings.has_program();
        if settings.is_same(&before.settings, rejected) && !runs_program {
            return;
        }
        if settings.config.cluster_url != before.settings.config.cluster_url {
            tracing::error!(
                before = %before.settings.config.cluster_url, now = %settings.config.cluster_url,
                "the kubeconfig names another API server; restart the host to use it"
            );
            return;
        }
        match Clients::new(settings, self.limits).await {
            Ok(clients) => {
                tracing::info!("credentials or certificates of the connection have changed; new ones are in use");
                *self.current.write() = Arc::new(clients);
            }
            Err(why) => tracing::warn!(%why, "the changed configuration cannot be used; the last one stays in use"),
        }
    }
}

impl Clients {
    async fn new(settings: Settings, limits: Limits) -> Result<Self, ConnectError> {
        let url = settings.config.cluster_url.to_string();
        // The route within this process has neither programs nor files, and a simulation must not wait for another
        // thread.
        let is_inside = settings.dial.is_some();
        let build = move || Self::build(settings, limits);
        // On a blocking thread, because a program may provide the credentials.
        let built = if is_inside { Ok(build()) } else { tokio::task::spawn_blocking(build).await };
        match built {
            Ok(clients) => clients.map_err(|why| ConnectError::Client { url, why: error::chain(&why) }),
            Err(why) => Err(ConnectError::Client { url, why: why.to_string() }),
        }
    }

    fn build(settings: Settings, limits: Limits) -> Result<Self, kube::Error> {
        let mut bare = settings.config.clone();
        bare.auth_info = AuthInfo::default();
        let host = client(&settings.config, &settings, limits)?;
        Ok(Self { host, bare: client(&bare, &settings, limits)?, settings })
    }
}

/// A client with these credentials.
fn client(config: &Config, settings: &Settings, limits: Limits) -> Result<Client, kube::Error> {
    let tcp = route(settings);
    let Some(proxy) = &settings.proxy else { return over(config, tcp, limits) };
    let uri = proxy.uri().clone();
    match uri.scheme_str() {
        Some("https") => {
            let tls = hyper_rustls::HttpsConnectorBuilder::new()
                .with_tls_config(config.rustls_client_config()?)
                .https_or_http()
                .enable_http1();
            over(config, with_auth(Tunnel::new(uri, tls.wrap_connector(tcp)), proxy.basic_auth()), limits)
        }
        Some("http") => over(config, with_auth(Tunnel::new(uri, tcp), proxy.basic_auth()), limits),
        _ => {
            let socks = SocksV5::new(uri, tcp);
            match proxy.raw_auth() {
                Some((user, password)) => over(config, socks.with_auth(user.to_owned(), password.to_owned()), limits),
                None => over(config, socks, limits),
            }
        }
    }
}

fn with_auth<C>(tunnel: Tunnel<C>, auth: Option<&http::HeaderValue>) -> Tunnel<C> {
    match auth {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

/// The route to the API server or the proxy.
fn route(settings: &Settings) -> Route {
    if let Some(dial) = &settings.dial {
        return Route::InProcess(dial.clone());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
    // For unacknowledged data, which keepalive does not detect.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(TCP_KEEPALIVE + TCP_KEEPALIVE_INTERVAL * TCP_KEEPALIVE_RETRIES));
    Route::Tcp(tcp)
}

/// A client over a connector that reaches the API server, with TLS if the address requires it.
fn over<C>(config: &Config, connector: C, limits: Limits) -> Result<Client, kube::Error>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + Send + Sync + std::error::Error + 'static,
{
    let mut tls =
        hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name
            .clone()
            .try_into()
            .map_err(|why| kube::Error::RustlsTls(kube::client::RustlsTlsError::InvalidServerName(why)))?;
        tls = tls.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    let mut timed = TimeoutConnector::new(tls.enable_all_versions().wrap_connector(connector));
    timed.set_connect_timeout(Some(limits.connect_timeout));
    timed.set_read_timeout(Some(READ_TIMEOUT));
    timed.set_reset_reader_on_write(true);
    let mut builder = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(limits.ping_interval)
        .http2_keep_alive_timeout(limits.ping_timeout)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW);
    let pool = Pool::new(move || builder.build(timed.clone()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(pool);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

type HyperClient<C> = hyper_util::client::legacy::Client<C, Body>;

/// Clients of the same server, each with its own connections, so that no connection has too many streams.
struct Pool<C> {
    clients: Arc<Mutex<Vec<Pooled<C>>>>,
    new: Arc<dyn Fn() -> HyperClient<C> + Send + Sync>,
}

struct Pooled<C> {
    client: HyperClient<C>,
    n_open: Arc<AtomicUsize>,
}

/// A request in flight, until its answer is read.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self { clients: self.clients.clone(), new: self.new.clone() }
    }
}

impl<C: Clone> Pool<C> {
    fn new(new: impl Fn() -> HyperClient<C> + Send + Sync + 'static) -> Self {
        Self { clients: Arc::default(), new: Arc::new(new) }
    }

    /// The first client with room for a request.
    fn enter(&self) -> (HyperClient<C>, Open) {
        let mut clients = self.clients.lock();
        let with_room = clients.iter().position(|pooled| pooled.n_open.load(Ordering::Acquire) < MAX_STREAMS);
        let at = with_room.unwrap_or_else(|| {
            clients.push(Pooled { client: (self.new)(), n_open: Arc::default() });
            clients.len() - 1
        });
        let pooled = &clients[at];
        pooled.n_open.fetch_add(1, Ordering::AcqRel);
        (pooled.client.clone(), Open(pooled.n_open.clone()))
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Service<Request<Body>> for Pool<C> {
    type Response = Response<CountedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, open) = self.enter();
        Box::pin(async move {
            let response = client.request(request).await?;
            Ok(response.map(|body| CountedBody { body, _open: open }))
        })
    }
}

/// The body of an answer; the request counts as in flight until it is dropped.
struct CountedBody {
    body: Incoming,
    _open: Open,
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
