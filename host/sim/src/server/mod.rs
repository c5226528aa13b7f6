//! The HTTP server: connections, dispatch of requests to verbs, fault injection.
//!
//! *Flow*:
//!
//! ```text
//! connection ─> path ─> resource ─> fault? ─> read | watch | write | delete | subresource ─> fault? ─> response
//! ```
//!
//! *Invariants*: 1. no verb holds the store's lock across an await; 2. every failure is a `Status`; 3. a killed client
//! gets no response.
//!
//! *Not here*: objects and versions (`store`), which kinds exist (`discovery`), what to break (`faults`).

mod admission;
pub mod aggregated;
mod apply;
mod bootstrap;
mod check;
mod crds;
mod delete;
mod documents;
mod objects;
mod options;
mod path;
mod query;
mod quota;
mod read;
mod reply;
mod restore;
mod reviews;
mod seam;
mod selector;
mod services;
mod shape;
pub mod status;
mod strategy;
mod subresource;
mod tokens;
mod watch;
mod write;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::{Mutex, RwLock};
use rand::distr::uniform::SampleUniform;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::aggregated::Aggregated;
pub(crate) use self::objects::has_condition;
use self::path::{ObjectPath, Path};
use self::query::Query;
use self::reply::{Accept, Body, Format, MAX_BODY_BYTES, Reply, Shape};
use self::status::ApiError;
pub use self::tokens::TokenKey;
use crate::clock::SimClock;
use crate::discovery::{Registry, Resource, documents as discovery_documents};
use crate::faults::{Failure, FaultScript, RequestFacts, When};
use crate::store::Store;
use crate::table::IncludeObject;
use pintle_core::kubernetes;
use pintle_core::object::id::Kind;

/// Configuration of an embedded cluster.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Listen address. Default: 127.0.0.1, a free port.
    pub address: SocketAddr,
    /// The clock of every timestamp. Default: the real one.
    pub clock: SimClock,
    /// Events kept per kind for watches and lists in the past; with too few, slow watches end and must list again. Default: 20,000.
    pub watch_log_events: usize,
    /// Writes kept for [`crate::SimCluster::history`], 0 for none; each holds an object's serialized states. Default: 100,000.
    pub history_writes: usize,
    /// Whether [`crate::SimCluster::requests`] has every request. Default: false, as the list grows without bound.
    pub log_requests: bool,
    /// Time between bookmarks of a watch. Default: one minute, as upstream.
    pub bookmark_interval: Duration,
    /// Whether a Pod needs an existing service account, as upstream's ServiceAccount admission. Default: false.
    pub service_account_admission: bool,
    /// Warnings for clients that create objects. Default: none.
    pub notices: Option<Arc<dyn Notices>>,
    /// APIs that are served in addition to the kinds of the cluster. Default: none.
    pub aggregated: Option<Arc<dyn Aggregated>>,
    /// Largest network latency, in whole milliseconds: each request, each response and each batch of a watch takes a
    /// random part of it. Default: none.
    pub latency: Duration,
    /// Seed of latencies, names and default lifetimes of watches. Default: random.
    pub seed: Option<u64>,
    /// TLS, which also authenticates clients: they need a certificate that it accepts, or the token of a ServiceAccount,
    /// and have all permissions. Default: none, for all clients.
    pub tls: Option<Arc<ServerConfig>>,
    /// The key of the tokens of ServiceAccounts. Default: none; no token is accepted.
    pub token_key: Option<Arc<TokenKey>>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            clock: SimClock::real(),
            watch_log_events: 20_000,
            history_writes: 100_000,
            log_requests: false,
            bookmark_interval: Duration::from_secs(60),
            service_account_admission: false,
            notices: None,
            aggregated: None,
            latency: Duration::ZERO,
            seed: None,
            tls: None,
            token_key: None,
        }
    }
}

/// Warnings from the embedding program to clients of the cluster.
pub trait Notices: std::fmt::Debug + Send + Sync {
    /// Returns the warning for the client that created this object, if any. `kind`: the kind in the request.
    fn created(&self, kind: &Kind, object: &Value) -> Option<String>;
}

/// `User-Agent` under which the server's own writes are recorded.
pub(crate) const OWN_AGENT: &str = "pintle-sim";
/// Timeout of the client's part of the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The API server without its sockets.
pub(crate) struct Api {
    pub(crate) store: Store,
    registry: RwLock<Arc<Registry>>,
    pub(crate) clock: SimClock,
    pub(crate) faults: FaultScript,
    pub(crate) config: SimConfig,
    open_api_cache: documents::OpenApiCache,
    random: Mutex<StdRng>,
    /// With [`SimConfig::log_requests`].
    pub(crate) requests: Mutex<Vec<String>>,
}

/// One request on a resource.
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ObjectPath,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) accept: Accept,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

impl Call {
    /// A write of the server itself.
    pub(crate) fn own(
        resource: Arc<Resource>,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Self {
        let path = ObjectPath {
            api_version: resource.api_version(),
            namespace: namespace.map(str::to_owned),
            plural: resource.plural.clone(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
            watch: false,
        };
        Self {
            resource,
            path,
            query: Query::default(),
            headers: HeaderMap::new(),
            accept: Accept { shape: Shape::Native, format: Format::Json },
            user_agent: OWN_AGENT.to_owned(),
            body: Bytes::new(),
        }
    }

    /// A write of the server for this call, on another object.
    pub(crate) fn derived(
        &self,
        resource: Arc<Resource>,
        namespace: Option<&str>,
        name: Option<&str>,
        subresource: Option<&str>,
    ) -> Self {
        let mut call = Self::own(resource, namespace, name, subresource);
        call.user_agent.clone_from(&self.user_agent);
        call.query = self.query.clone();
        call.accept = self.accept;
        call
    }

    /// The name in the path, which verbs on one object always have.
    pub(crate) fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or("")
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        self.path.subresource.as_deref()
    }

    pub(crate) fn key(&self) -> String {
        crate::store::object_key(self.namespace(), self.name())
    }

    /// The field manager of this write.
    pub(crate) fn field_manager(&self) -> &str {
        self.query.get("fieldManager").unwrap_or_else(|| {
            let agent = self.user_agent.split('/').next().unwrap_or("");
            match agent {
                "" => "unknown",
                OWN_AGENT => "kube-apiserver",
                agent => agent,
            }
        })
    }
}

impl Api {
    pub(crate) fn new(config: SimConfig, clock: SimClock) -> Self {
        let registry = Registry::builtin();
        let store = Store::new(crate::store::StoreLimits {
            log_events: config.watch_log_events.max(1),
            history_writes: config.history_writes,
        });
        for resource in registry.resources().iter().filter(|resource| resource.is_stored()) {
            store.open_table(&resource.storage);
        }
        let seed = config.seed.unwrap_or_else(rand::random);
        Self {
            store,
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            requests: Mutex::default(),
            registry: RwLock::new(Arc::new(registry)),
            clock,
            faults: FaultScript::default(),
            config,
            open_api_cache: documents::OpenApiCache::default(),
        }
    }

    /// A random number within a range.
    pub(crate) fn random<T: SampleUniform + PartialOrd>(&self, range: std::ops::Range<T>) -> T {
        self.random.lock().random_range(range)
    }

    /// Waits for the network latency of a message.
    pub(crate) async fn travel(&self) {
        let longest = u64::try_from(self.config.latency.as_millis()).unwrap_or(u64::MAX);
        if longest > 0 {
            let milliseconds = self.random(0..longest.saturating_add(1));
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        }
    }

    /// The uid of a new object.
    pub(crate) fn uid(&self) -> String {
        uuid::Builder::from_random_bytes(self.random.lock().random()).into_uuid().to_string()
    }

    /// The currently served kinds.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    /// `has_certificate`: whether TLS has authenticated the client.
    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        has_certificate: bool,
    ) -> Result<Response<Body>, io::Error> {
        let (mut parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query());
        let accept = Accept::parse(&parts.headers, query.flag("pretty"));
        let format = accept.as_ref().map_or(Format::Json, |accept| accept.format);
        if has_certificate {
            // As upstream, it takes precedence over a token.
            parts.headers.remove(http::header::AUTHORIZATION);
        } else if self.config.tls.is_some() && self.bearer(&parts.headers).is_none() {
            let error = ApiError::new(401, "Unauthorized", "Unauthorized");
            return Ok(Reply::error(&error, format).into_response());
        }
        let body = match Limited::new(body, MAX_BODY_BYTES).collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => {
                let error = ApiError::new(
                    413,
                    "RequestEntityTooLarge",
                    format!("Request entity too large: limit is {MAX_BODY_BYTES}"),
                );
                return Ok(Reply::error(&error, Format::Json).into_response());
            }
        };
        if let Some(reply) = self.aggregated(&parts.method, parts.uri.path(), &query, format) {
            return Ok(reply.into_response());
        }
        let reply = match (path::parse(parts.uri.path()), accept) {
            // These have their own media types.
            (Path::Other(path), _) => Ok(self.other(&path, format)),
            (Path::Object(path), Err(error)) => Err(match self.registry().by_plural(&path.api_version, &path.plural) {
                Some(resource) if resource.crd.is_none() => {
                    let lists = parts.method == Method::GET && path.name.is_none();
                    ApiError::no_representation(lists && resource.verbs.contains(&"watch"))
                }
                _ => error,
            }),
            (_, Err(error)) => Err(error),
            (Path::Object(path), Ok(accept)) => {
                self.object(parts.method, path, query, parts.headers, accept, body).await
            }
            (document, Ok(accept)) => Ok(self.document(&document, accept, &parts.headers)),
        };
        match reply {
            Ok(reply) => Ok(reply.into_response()),
            Err(error) if error.drop_connection => Err(io::Error::other("a fault script drops the connection")),
            Err(error) => Ok(Reply::error(&error, format).into_response()),
        }
    }

    async fn object(
        self: &Arc<Self>,
        method: Method,
        path: ObjectPath,
        query: Query,
        headers: HeaderMap,
        accept: Accept,
        body: Bytes,
    ) -> Result<Reply, ApiError> {
        let registry = self.registry();
        let Some(resource) = registry.by_plural(&path.api_version, &path.plural).cloned() else {
            return no_such_resource(&registry, &path.api_version);
        };
        if path.namespace.is_some() && !resource.namespaced {
            return Ok(Reply::text(404, "404 page not found\n"));
        }
        let user_agent =
            headers.get(http::header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        let call = Call { resource, path, query, headers, accept, user_agent, body };
        let include = call.query.get("includeObject");
        if call.accept.shape == Shape::Table && IncludeObject::parse(include).is_none() {
            return Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {:?}: must be 'Metadata', 'Object', 'None', or empty",
                include.unwrap_or_default()
            )));
        }
        let verb = verb(&method, &call);
        let facts = RequestFacts {
            verb,
            resource: &call.resource.plural,
            kind: &call.resource.kind,
            subresource: call.subresource().unwrap_or(""),
            namespace: call.namespace().unwrap_or(""),
            name: call.name(),
            user_agent: &call.user_agent,
        };
        if self.config.log_requests {
            self.requests.lock().push(format!("{} {facts}", self.clock.now()));
        }
        self.travel().await;
        let fault = self.faults.decide(&facts);
        if let Some((When::Before, failure)) = &fault {
            fail(failure, &facts).await?;
        }
        let warning = call.resource.crd.as_ref().and_then(|crd| crd.warning.clone());
        let mut reply = self.verb(verb, &call)?;
        reply.warnings.extend(warning);
        self.travel().await;
        if let Some((When::After, failure)) = &fault {
            fail(failure, &facts).await?;
        }
        if self.faults.is_killed(&call.user_agent) {
            return Err(ApiError::dropped());
        }
        Ok(reply)
    }

    fn verb(self: &Arc<Self>, verb: &str, call: &Call) -> Result<Reply, ApiError> {
        if let Some(name) = call.subresource() {
            let Some(sub) = call.resource.subresource(name) else {
                return match call.resource.crd {
                    None => Err(ApiError::unknown_path()),
                    Some(_) => Ok(Reply::text(404, "404 page not found\n")),
                };
            };
            if !sub.verbs.contains(&verb) {
                return Err(ApiError::method_not_allowed());
            }
            return self.subresource(verb, name, call);
        }
        // Creating without a namespace is possible for cluster-scoped kinds only.
        let scoped = call.resource.namespaced == call.path.namespace.is_some();
        if !call.resource.verbs.contains(&verb) || (!scoped && !matches!(verb, "list" | "watch")) {
            return Err(ApiError::method_not_allowed());
        }
        if !call.resource.is_stored() {
            return self.review(verb, call);
        }
        match verb {
            "get" => self.get(call),
            "list" => self.list(call),
            "watch" => self.watch(call),
            "create" => self.create(call),
            "update" => self.update(call),
            "patch" => self.patch(call),
            "delete" => self.delete(call),
            "deletecollection" => self.delete_collection(call),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn document(&self, path: &Path, accept: Accept, headers: &HeaderMap) -> Reply {
        let registry = self.documented();
        let aggregated = |core: bool| match accept.shape {
            Shape::Discovery(version) => {
                let content_type = match version {
                    "v2" => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                    _ => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
                };
                Some(Reply::bytes(
                    200,
                    content_type,
                    discovery_documents::aggregated(&registry, core, version).to_string().into(),
                ))
            }
            _ => None,
        };
        let found = match path {
            Path::CoreVersions => {
                return aggregated(true).unwrap_or_else(|| {
                    let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
                    Reply::json(200, accept.format, &discovery_documents::core_versions(host))
                });
            }
            Path::Groups => {
                return aggregated(false)
                    .unwrap_or_else(|| Reply::json(200, accept.format, &discovery_documents::groups(&registry)));
            }
            Path::Group(group) => discovery_documents::group(&registry, group),
            Path::Version(version) => match discovery_documents::resources(&registry, version) {
                None => {
                    return no_such_resource(&registry, version)
                        .unwrap_or_else(|error| Reply::error(&error, accept.format));
                }
                found => found,
            },
            Path::Other(_) | Path::Object(_) => None,
        };
        found.map_or_else(
            || Reply::text(404, "404 page not found\n"),
            |document| Reply::json(200, accept.format, &document),
        )
    }

    fn other(&self, path: &str, format: Format) -> Reply {
        let path = path.trim_end_matches('/');
        match path {
            "" => Reply::json(
                200,
                format,
                &json!({"paths": ["/api", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v3", "/version"]}),
            ),
            "/version" => {
                let (major, minor) = kubernetes::minor().split_once('.').unwrap_or_default();
                let version = json!({
                    "major": major, "minor": minor, "gitVersion": format!("v{}+pintle-sim-{}", kubernetes::VERSION, env!("CARGO_PKG_VERSION")),
                    "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
                    "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
                });
                Reply::json(200, format, &version)
            }
            _ if ["/healthz", "/livez", "/readyz"]
                .iter()
                .any(|health| path == *health || path.starts_with(&format!("{health}/"))) =>
            {
                Reply::text(200, "ok")
            }
            _ => self.open_api(path).unwrap_or_else(|| Reply::text(404, "404 page not found\n")),
        }
    }
}

/// The response for an unknown resource of a version: upstream, a built-in group returns a `Status`, any other plain
/// text.
fn no_such_resource(registry: &Registry, api_version: &str) -> Result<Reply, ApiError> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let built_in = registry.resources().iter().any(|one| one.group == group && one.crd.is_none());
    if built_in { Err(ApiError::unknown_path()) } else { Ok(Reply::text(404, "404 page not found\n")) }
}

fn verb(method: &Method, call: &Call) -> &'static str {
    let named = call.path.name.is_some();
    match *method {
        Method::GET | Method::HEAD if call.path.watch || call.query.flag("watch") => "watch",
        Method::GET | Method::HEAD if named => "get",
        Method::GET | Method::HEAD => "list",
        Method::POST if !named || call.path.subresource.is_some() => "create",
        Method::PUT if named => "update",
        Method::PATCH if named => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "unknown",
    }
}

async fn fail(failure: &Failure, facts: &RequestFacts<'_>) -> Result<(), ApiError> {
    if let Failure::Delay(delay) = failure {
        tokio::time::sleep(*delay).await;
    }
    failure.error(facts).map_or(Ok(()), Err)
}

/// The open connections of a cluster. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Connections {
    /// Ends them all.
    pub(crate) stop: CancellationToken,
    open: TaskTracker,
}

impl Connections {
    /// Connections that can be closed separately, and are closed with these.
    pub(crate) fn child(&self) -> Self {
        Self { stop: self.stop.child_token(), open: self.open.clone() }
    }

    /// Serves a connection until its end.
    pub(crate) fn serve(&self, api: Arc<Api>, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        self.open.spawn(connection(api, stream, self.stop.clone()));
    }

    /// Runs the transport of a connection until it ends, or all are stopped.
    pub(crate) fn carry(&self, carrying: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.open.spawn(stop.run_until_cancelled_owned(carrying));
    }

    /// Waits for the end of all connections after `stop`.
    pub(crate) async fn end(&self) {
        self.open.close();
        self.open.wait().await;
    }
}

/// Accepts connections until they are stopped.
pub(crate) async fn serve(api: Arc<Api>, listener: TcpListener, connections: Connections) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = connections.stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Nagle's algorithm would hold back each small watch event for the client's delayed acknowledgement.
                if stream.set_nodelay(true).is_ok() {
                    connections.serve(Arc::clone(&api), stream);
                }
            }
            Err(error) => {
                // Out of file handles: open connections must continue, and another accept would fail immediately again.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(
    api: Arc<Api>,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) {
    let mut down = api.faults.subscribe_down();
    if *down.borrow() {
        return;
    }
    let tls = api.config.tls.clone().map(TlsAcceptor::from);
    let service = |has_certificate: bool| {
        let api = Arc::clone(&api);
        service_fn(move |request| Arc::clone(&api).respond(request, has_certificate))
    };
    let builder = auto::Builder::new(TokioExecutor::new());
    let serving = async {
        let Some(tls) = tls else { return builder.serve_connection(TokioIo::new(stream), service(false)).await };
        let stream = tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await??;
        let has_certificate = stream.get_ref().1.peer_certificates().is_some();
        builder.serve_connection(TokioIo::new(stream), service(has_certificate)).await
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        _ = down.wait_for(|down| *down) => {}
        result = serving => if let Err(error) = result {
            tracing::debug!(%error, "connection ended");
        },
    }
}
