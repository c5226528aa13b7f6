//! A reverse proxy before a real API server that makes watches late or silent, or everything worse ([`Trouble`]).
//!
//! It stands for an API server whose watch cache is behind (events come late, everything else is prompt), for one whose
//! watches are open and send nothing (the connection is alive and answers pings), and for one that is down or overloaded.
//! It notes what it is asked for.
//!
//! Not here: connections that are dead (`pintle_testing::Gate`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Client;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use crate::{ApiClient, ControlPlane, tls};

/// Frames of one watch that wait for their time.
const MAX_WAITING: usize = 100_000;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Body = UnsyncBoxBody<Bytes, Failure>;

/// What is wrong with the API server as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// Connections end, and new ones are closed.
    Down,
    /// Requests are carried out; each answer is late by this time.
    Slow(Duration),
    /// Each request is answered 429, with this time in `Retry-After`, in seconds.
    Throttled(u64),
    /// Each request is answered 500.
    Broken,
    /// Each watch ends this long after it was opened.
    ShortWatches(Duration),
}

/// What a client has asked for.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// When.
    pub at: Instant,
    /// `watch pods`, `GET pods`, `POST pods`, or `connect` for a connection that was closed.
    pub what: String,
}

/// A write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST.
    Create,
    /// PUT or PATCH.
    Change,
    /// DELETE, of one object or of many.
    Delete,
}

/// Writes that are refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Those in this namespace, and of objects without a namespace whose names begin with it.
    pub namespace: String,
    /// With this verb.
    pub verb: Verb,
    /// The plural, or the plural and the subresource: `jobs/status`.
    pub resource: String,
    /// With this code. For 429, `Retry-After` is one second, as kube-apiserver says.
    pub code: StatusCode,
}

/// What was asked for about a namespace while writes were refused there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Writes that were refused.
    pub n_refused: usize,
    /// All requests but those about events.
    pub n_requests: usize,
}

/// What happens to the watches of each resource, by plural, and to all requests.
#[derive(Clone, Debug, Default)]
struct Rules {
    trouble: Trouble,
    refusals: Vec<Refusal>,
    late: BTreeMap<String, Duration>,
    /// How often the watches that were open became silent.
    n_silences: BTreeMap<String, u64>,
}

/// The proxy. Dropping it closes its port.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    attempts: Attempts,
    counts: Counts,
    _accepting: JoinSet<()>,
}

type Attempts = Arc<Mutex<Vec<Attempt>>>;

/// By namespace.
type Counts = Arc<Mutex<BTreeMap<String, Count>>>;

/// What the requests of a proxy share.
#[derive(Clone)]
struct Shared {
    /// Adds no credentials to those of a request.
    upstream: Client,
    rules: watch::Receiver<Rules>,
    attempts: Attempts,
    counts: Counts,
}

impl Proxy {
    /// Starts a proxy before this control plane. It has the certificate of the API server.
    ///
    /// # Errors
    /// The certificates cannot be read.
    pub async fn start(plane: &ControlPlane) -> Result<Proxy> {
        let acceptor = server_tls(plane)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (rules, attempts, counts) = (watch::Sender::new(Rules::default()), Attempts::default(), Counts::default());
        let shared = Shared {
            upstream: ApiClient::new(&plane.base_url(), None, Some(plane.authority())).http,
            rules: rules.subscribe(),
            attempts: attempts.clone(),
            counts: counts.clone(),
        };
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                if shared.trouble() == Trouble::Down {
                    shared.note("connect".to_owned());
                    continue;
                }
                let (acceptor, shared) = (acceptor.clone(), shared.clone());
                connections.spawn(async move {
                    let mut rules = shared.rules.clone();
                    let is_down = rules.wait_for(|rules| rules.trouble == Trouble::Down);
                    tokio::select! {
                        _ = is_down => {}
                        () = serve(acceptor, shared, stream) => {}
                    }
                });
            }
        });
        Ok(Proxy { address, rules, attempts, counts, _accepting: accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Events of watches of a resource come late by this time from now on; zero ends that.
    pub fn delay(&self, plural: &str, late: Duration) {
        self.rules.send_modify(|rules| *rules.late.entry(plural.to_owned()).or_default() = late);
    }

    /// What is wrong from now on.
    pub fn suffer(&self, trouble: Trouble) {
        self.rules.send_modify(|rules| rules.trouble = trouble);
    }

    /// Refuses these writes from now on.
    pub fn refuse(&self, refusal: Refusal) {
        self.rules.send_modify(|rules| rules.refusals.push(refusal));
    }

    /// Refuses nothing of a namespace any more. Returns what was asked for there.
    pub fn allow(&self, namespace: &str) -> Count {
        self.rules.send_modify(|rules| rules.refusals.retain(|refusal| refusal.namespace != namespace));
        self.counts.lock().remove(namespace).unwrap_or_default()
    }

    /// What clients have asked for since the last call.
    pub fn attempts(&self) -> Vec<Attempt> {
        std::mem::take(&mut *self.attempts.lock())
    }

    /// The watches of a resource that are open stay open and send nothing any more. New ones work.
    pub fn silence(&self, plural: &str) {
        self.rules.send_modify(|rules| *rules.n_silences.entry(plural.to_owned()).or_default() += 1);
    }
}

impl Rules {
    fn late(&self, plural: &str) -> Duration {
        self.late.get(plural).copied().unwrap_or_default()
    }

    fn n_silences(&self, plural: &str) -> u64 {
        self.n_silences.get(plural).copied().unwrap_or_default()
    }
}

impl Refusal {
    /// Whether it is about a request.
    fn is_of(&self, method: &Method, path: &str) -> bool {
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT | Method::PATCH => Verb::Change,
            Method::DELETE => Verb::Delete,
            _ => return false,
        };
        verb == self.verb && self.is_near(path) && resource_and_part(path) == self.resource
    }

    /// Whether a path leads into its namespace, or to an object whose name begins with that.
    fn is_near(&self, path: &str) -> bool {
        let is_near = |part: &str| {
            part.strip_prefix(&*self.namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        path.split('/').any(is_near)
    }

    fn answer(&self) -> Result<Response<Body>, Failure> {
        let reason = match (self.code, self.verb) {
            (StatusCode::FORBIDDEN, _) => "Forbidden",
            (StatusCode::CONFLICT, Verb::Create) => "AlreadyExists",
            (StatusCode::CONFLICT, _) => "Conflict",
            (StatusCode::UNPROCESSABLE_ENTITY, _) => "Invalid",
            (StatusCode::TOO_MANY_REQUESTS, _) => "TooManyRequests",
            _ => "InternalError",
        };
        let mut answer = refusal(self.code, reason)?;
        if self.code == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(header::RETRY_AFTER, 1.into());
        }
        Ok(answer)
    }
}

fn server_tls(plane: &ControlPlane) -> Result<TlsAcceptor> {
    let (certificate, key) = plane.serving();
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    tls::acceptor(chain, PrivateKeyDer::from_pem_file(key)?, &["h2"])
}

/// The plural that a request watches.
fn watched(uri: &Uri) -> Option<String> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1")).then_some(())?;
    uri.path().rsplit('/').next().map(str::to_owned)
}

impl Shared {
    fn trouble(&self) -> Trouble {
        self.rules.borrow().trouble
    }

    /// Counts a request in the namespaces where writes are refused. Returns the refusal that is about it.
    fn refusal(&self, request: &Request<Incoming>) -> Option<Refusal> {
        let (method, path) = (request.method(), request.uri().path());
        let rules = self.rules.borrow();
        let refusal = rules.refusals.iter().find(|refusal| refusal.is_near(path) && resource(path) != "events")?;
        let is_refused = refusal.is_of(method, path);
        let mut counts = self.counts.lock();
        let count = counts.entry(refusal.namespace.clone()).or_default();
        count.n_requests += 1;
        count.n_refused += usize::from(is_refused);
        is_refused.then(|| refusal.clone())
    }

    fn note(&self, what: String) {
        self.attempts.lock().push(Attempt { at: Instant::now(), what });
    }
}

async fn serve(acceptor: TlsAcceptor, shared: Shared, stream: TcpStream) {
    // A client that goes away is not a failure.
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| pass(shared.clone(), request));
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    drop(server.serve_connection(TokioIo::new(stream), service).await);
}

/// The plural in a path; empty for discovery.
fn resource(path: &str) -> &str {
    match after_group(path).as_slice() {
        ["namespaces", _, plural, ..] | [plural, ..] => plural,
        [] => "",
    }
}

/// The plural in a path, with the subresource if there is one.
fn resource_and_part(path: &str) -> String {
    match after_group(path).as_slice() {
        ["namespaces", _, part @ ("finalize" | "status")] => format!("namespaces/{part}"),
        ["namespaces", _, plural, _, part] => format!("{plural}/{part}"),
        ["namespaces", _, plural, ..] => (*plural).to_owned(),
        [plural, _, part] => format!("{plural}/{part}"),
        [plural, ..] => (*plural).to_owned(),
        [] => String::new(),
    }
}

/// What follows the group and the version in a path; nothing for discovery.
fn after_group(path: &str) -> Vec<&str> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest.to_vec(),
        _ => Vec::new(),
    }
}

async fn pass(shared: Shared, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
    let watched = watched(request.uri());
    shared.note(match &watched {
        Some(plural) => format!("watch {plural}"),
        None => format!("{} {}", request.method(), resource(request.uri().path())),
    });
    if let Some(refusal) = shared.refusal(&request) {
        return refusal.answer();
    }
    let delay = match shared.trouble() {
        Trouble::Throttled(seconds) => {
            let mut refusal = refusal(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests")?;
            refusal.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            return Ok(refusal);
        }
        Trouble::Broken => return refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Trouble::Slow(delay) => delay,
        Trouble::None | Trouble::Down | Trouble::ShortWatches(_) => Duration::ZERO,
    };
    let (mut parts, body) = request.into_parts();
    parts.version = Version::HTTP_11;
    let body = body.collect().await?.to_bytes();
    let response = shared.upstream.send(Request::from_parts(parts, body.into())).await?;
    sleep(delay).await;
    let (mut parts, body) = response.into_parts();
    for of_connection in [header::CONNECTION, header::TRANSFER_ENCODING] {
        parts.headers.remove(of_connection);
    }
    parts.version = Version::HTTP_2;
    let body = match watched {
        Some(plural) => {
            let frames = delayed(body, plural, shared.rules.clone());
            StreamBody::new(frames.take_until(Box::pin(ends(shared.rules)))).boxed_unsync()
        }
        None => body.map_err(Failure::from).boxed_unsync(),
    };
    Ok(Response::from_parts(parts, body))
}

/// The frames of a watch, each at its time.
fn delayed(
    mut body: kube::client::Body,
    plural: String,
    rules: watch::Receiver<Rules>,
) -> impl Stream<Item = Result<Frame<Bytes>, Failure>> + Send {
    let n_silences = rules.borrow().n_silences(&plural);
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = sender.closed() => return,
                frame = body.frame() => {
                    let Some(frame) = frame else { return };
                    if sender.send((Instant::now(), frame)).await.is_err() {
                        return;
                    }
                }
            }
        }
    });
    let frames =
        stream::unfold(receiver, async |mut receiver: mpsc::Receiver<_>| Some((receiver.recv().await?, receiver)));
    frames.then(move |(arrived, frame)| {
        let (plural, rules) = (plural.clone(), rules.clone());
        async move {
            let late = rules.borrow().late(&plural);
            sleep_until(arrived + late).await;
            let is_silent = rules.borrow().n_silences(&plural) != n_silences;
            if is_silent {
                std::future::pending::<()>().await;
            }
            frame.map_err(Failure::from)
        }
    })
}

/// The end of a watch that is opened now, if watches are short now or later.
async fn ends(mut rules: watch::Receiver<Rules>) {
    loop {
        let Trouble::ShortWatches(after) = rules.borrow_and_update().trouble else {
            if rules.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            () = sleep(after) => return,
            _ = rules.changed() => {}
        }
    }
}

fn refusal(code: StatusCode, reason: &str) -> Result<Response<Body>, Failure> {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": reason, "code": code.as_u16(),
        "message": "the API server is in trouble",
    });
    let body = Full::from(status.to_string()).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::builder().status(code).header(header::CONTENT_TYPE, "application/json").body(body)?)
}

/// The text of a user's kubeconfig with another address instead of the API server's.
///
/// # Errors
/// There is no such user.
pub fn kubeconfig_through(plane: &ControlPlane, user: &str, address: SocketAddr) -> Result<String> {
    let text = std::fs::read_to_string(plane.kubeconfig_for(user)).context("read the kubeconfig")?;
    anyhow::ensure!(text.contains(&plane.base_url()), "the kubeconfig does not contain {}", plane.base_url());
    Ok(text.replace(&plane.base_url(), &format!("https://{address}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_of_writes_of_its_kind_in_its_namespace() {
        let refusal = |verb, resource: &str| Refusal {
            namespace: "one".to_owned(),
            verb,
            resource: resource.to_owned(),
            code: StatusCode::FORBIDDEN,
        };
        let (create, delete) = (refusal(Verb::Create, "pods"), refusal(Verb::Delete, "pods"));
        assert!(create.is_of(&Method::POST, "/api/v1/namespaces/one/pods"));
        assert!(!create.is_of(&Method::POST, "/api/v1/namespaces/two/pods"));
        assert!(!create.is_of(&Method::POST, "/api/v1/namespaces/one/pods/a/binding"));
        assert!(!create.is_of(&Method::GET, "/api/v1/namespaces/one/pods"));
        assert!(delete.is_of(&Method::DELETE, "/api/v1/namespaces/one/pods/a"));
        assert!(delete.is_of(&Method::DELETE, "/api/v1/namespaces/one/pods"));
        let status = refusal(Verb::Change, "jobs/status");
        assert!(status.is_of(&Method::PUT, "/apis/batch/v1/namespaces/one/jobs/a/status"));
        assert!(status.is_of(&Method::PATCH, "/apis/batch/v1/namespaces/one/jobs/a/status"));
        assert!(!status.is_of(&Method::PUT, "/apis/batch/v1/namespaces/one/jobs/a"));
        let volumes = refusal(Verb::Change, "persistentvolumes");
        assert!(volumes.is_of(&Method::PATCH, "/api/v1/persistentvolumes/one-a"));
        assert!(!volumes.is_of(&Method::PATCH, "/api/v1/persistentvolumes/oneself"));
        assert!(refusal(Verb::Change, "namespaces/finalize").is_of(&Method::PUT, "/api/v1/namespaces/one/finalize"));
    }
}
