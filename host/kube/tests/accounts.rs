//! The credentials of each request, and the handling of rejected tokens.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use pintle_core::contract::outcome::Preconditions;
use pintle_core::object::id::ObjectKey;
use pintle_core::ports::api::{
    ApiErrorClass, ApiReader, ApiResource, ApiWriter, ApiWriters, Detail, ListWatchTarget, RequestObserver,
    WriteRequest, WriteVerb, WriterIdentity, at_most,
};
use pintle_kube::{Connection, Source};
use pintle_testing::{pod, resource};
use serde_json::json;
use tokio::net::TcpListener;

#[derive(Default)]
struct State {
    /// Names of existing service accounts.
    accounts: BTreeSet<String>,
    /// Valid tokens.
    tokens: BTreeSet<String>,
    n_tokens: usize,
    /// Whether the host may not request tokens.
    forbids_tokens: bool,
    /// Whether only the host's token is valid.
    refuses_all: bool,
    /// `METHOD PATH AUTHORIZATION CODE`.
    log: Vec<String>,
}

impl State {
    fn answer(&mut self, method: &str, path: &str, authorization: &str) -> (u16, serde_json::Value) {
        let status = |code: u16, reason: &str| (code, json!({"kind": "Status", "code": code, "reason": reason}));
        let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
        let is_host = authorization == "host";
        if !is_host && (self.refuses_all || !self.tokens.contains(authorization)) {
            return status(401, "Unauthorized");
        }
        if let Some(name) = path.strip_prefix(accounts).and_then(|rest| rest.strip_suffix("/token")) {
            let name = name.trim_start_matches('/');
            assert!(is_host && method == "POST");
            return match () {
                () if self.forbids_tokens => status(403, "Forbidden"),
                () if !self.accounts.contains(name) => status(404, "NotFound"),
                () => {
                    self.n_tokens += 1;
                    let token = format!("{name}-{}", self.n_tokens);
                    self.tokens.insert(token.clone());
                    (201, json!({"spec": {"expirationSeconds": 3600}, "status": {"token": token}}))
                }
            };
        }
        if path == accounts {
            assert!(is_host && method == "POST");
            self.accounts.insert("mine".into());
            return (201, json!({"metadata": {"name": "mine"}}));
        }
        (200, json!({"metadata": {"name": "p", "resourceVersion": "7"}, "items": []}))
    }
}

#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

impl Server {
    async fn start() -> (Self, Connection) {
        let server = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                let service = service_fn(move |request| {
                    let answer = server.serve(&request);
                    async { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(async move {
                    // A client that disconnects is not a failure.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {"token": "host"}}],
        });
        let connection = Connection::open(&Source::Text(kubeconfig.to_string())).await.unwrap();
        (server, connection)
    }

    fn serve(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let given: Vec<&str> =
            request.headers().get_all("authorization").iter().map(|value| value.to_str().unwrap()).collect();
        let [authorization] = given[..] else { panic!("{given:?}") };
        let authorization = authorization.strip_prefix("Bearer ").unwrap();
        let mut state = self.state();
        let (method, path) = (request.method().as_str(), request.uri().path());
        let (code, body) = state.answer(method, path, authorization);
        state.log.push(format!("{method} {path} {authorization} {code}"));
        Response::builder().status(code).body(Full::new(Bytes::from(body.to_string()))).unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Entries since the last call; paths are shortened to the names of accounts and Pods.
    fn log(&self) -> Vec<String> {
        let short = |line: String| {
            line.replace("/api/v1/namespaces/kube-system/serviceaccounts", "accounts")
                .replace("/api/v1/namespaces/ns/pods", "pods")
        };
        std::mem::take(&mut self.state().log).into_iter().map(short).collect()
    }
}

fn pods() -> Arc<ApiResource> {
    resource(&pod())
}

fn identity() -> WriterIdentity {
    WriterIdentity { name: "plugin".into(), qps: None, burst: 1, account: Some("mine".into()), fence: None }
}

fn delete() -> WriteRequest {
    let verb =
        WriteVerb::Delete { preconditions: Preconditions::default(), propagation: None, grace_period_seconds: None };
    WriteRequest { resource: pods(), namespace: "ns".into(), name: "p".into(), subresource: None, verb }
}

/// Records the rate limit delays of requests.
#[derive(Default)]
struct Delays(std::sync::Mutex<Vec<Duration>>);

impl Delays {
    fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl RequestObserver for Delays {
    fn attempted(&self, _: &'static str, _: &str, _: Option<u16>, _: Option<usize>) {}

    fn delayed(&self, _: &'static str, _: &str, waited: Duration) {
        self.0.lock().unwrap().push(waited);
    }

    fn repeated(&self, _: &'static str, _: &str, _: u16) {}

    fn finished(&self, _: &'static str, _: &str, _: Duration, _: Option<usize>) {}
}

/// Advances the clock immediately.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

async fn write(writer: &Arc<dyn ApiWriter>) -> Result<(), (ApiErrorClass, String)> {
    writer.write(&delete()).await.map(|_| ()).map_err(|error| (error.class, error.message))
}

#[tokio::test]
async fn a_plugin_writes_as_its_account_and_informers_read_as_the_host() {
    let (server, connection) = Server::start().await;
    let writer = connection.client(&identity()).writer;
    assert_eq!(server.log(), [""; 0], "no token is fetched before the first write");
    write(&writer).await.unwrap();
    assert_eq!(
        server.log(),
        [
            "POST accounts/mine/token host 404",
            "POST accounts host 201",
            "POST accounts/mine/token host 201",
            "DELETE pods/p mine-1 200"
        ]
    );
    // Events and live reads have the same identity.
    write(&connection.client(&identity()).writer).await.unwrap();
    let live = connection.client(&identity()).reader.unwrap();
    live.get(&pods(), &ObjectKey::new("ns", "p"), None).await.unwrap();
    assert_eq!(server.log(), ["DELETE pods/p mine-1 200", "GET pods/p mine-1 200"]);
    let target = ListWatchTarget {
        kind: pods().kind.clone(),
        plural: "pods".into(),
        namespace: Some("ns".into()),
        label_selector: None,
        field_selector: None,
        detail: Detail::Full,
    };
    ApiReader::list(&connection, &target, 1, None).await.unwrap();
    let host = WriterIdentity { account: None, ..identity() };
    write(&connection.client(&host).writer).await.unwrap();
    let live = connection.client(&host).reader.unwrap();
    live.get(&pods(), &ObjectKey::new("ns", "p"), None).await.unwrap();
    assert_eq!(server.log(), ["GET pods host 200", "DELETE pods/p host 200", "GET pods/p host 200"]);
}

#[tokio::test]
async fn writes_and_live_reads_of_a_client_share_its_rate_limit() {
    let (_server, connection) = Server::start().await;
    let observer = Arc::new(Delays::default());
    connection.observe(observer.clone());
    // One request per 100 s, longer than this test takes.
    let slow = |burst| WriterIdentity { qps: Some(0.01), burst, account: None, ..identity() };
    let client = connection.client(&slow(4));
    let reader = client.reader.unwrap();
    write(&client.writer).await.unwrap();
    reader.get(&pods(), &ObjectKey::new("ns", "p"), None).await.unwrap();
    reader.raw("/api/v1/namespaces/ns/pods/p", &at_most(1 << 20)).await.unwrap();
    reader.turn().await;
    let delayed = |delays: Vec<Duration>| delays.iter().map(|delay| *delay > Duration::ZERO).collect::<Vec<_>>();
    assert_eq!(delayed(observer.take()), [false; 4]);
    // The burst is used up: the next request of any kind waits, but only of this client.
    let (resource, name) = (pods(), ObjectKey::new("ns", "p"));
    let mut read = reader.get(&resource, &name, None);
    assert!(futures::poll!(&mut read).is_pending());
    later(100).await;
    read.await.unwrap();
    let mut written = std::pin::pin!(write(&client.writer));
    assert!(futures::poll!(&mut written).is_pending());
    later(100).await;
    written.await.unwrap();
    write(&connection.client(&slow(1)).writer).await.unwrap();
    assert_eq!(delayed(observer.take()), [true, true, false]);
}

#[tokio::test]
async fn a_token_is_renewed_before_it_expires() {
    let (server, connection) = Server::start().await;
    server.state().accounts.insert("mine".into());
    let writer = connection.client(&identity()).writer;
    write(&writer).await.unwrap();
    later(2_700).await;
    write(&writer).await.unwrap();
    assert_eq!(
        server.log(),
        ["POST accounts/mine/token host 201", "DELETE pods/p mine-1 200", "DELETE pods/p mine-1 200"]
    );
    later(200).await;
    write(&writer).await.unwrap();
    assert_eq!(server.log(), ["POST accounts/mine/token host 201", "DELETE pods/p mine-2 200"]);
}

#[tokio::test]
async fn a_rejected_token_is_replaced_and_a_deleted_account_is_created_again() {
    let (server, connection) = Server::start().await;
    let writer = connection.client(&identity()).writer;
    write(&writer).await.unwrap();
    server.log();
    server.state().tokens.clear();
    write(&writer).await.unwrap();
    assert_eq!(
        server.log(),
        ["DELETE pods/p mine-1 401", "POST accounts/mine/token host 201", "DELETE pods/p mine-2 200"]
    );
    // Deleting the account invalidates its tokens.
    server.state().tokens.clear();
    server.state().accounts.clear();
    let live = connection.client(&identity()).reader.unwrap();
    live.get(&pods(), &ObjectKey::new("ns", "p"), None).await.unwrap();
    assert_eq!(
        server.log(),
        [
            "GET pods/p mine-2 401",
            "POST accounts/mine/token host 404",
            "POST accounts host 201",
            "POST accounts/mine/token host 201",
            "GET pods/p mine-3 200"
        ]
    );
    // The request is repeated only once; the key is retried later.
    server.state().refuses_all = true;
    assert_eq!(write(&writer).await.unwrap_err().0, ApiErrorClass::Unauthorized);
    assert_eq!(
        server.log(),
        ["DELETE pods/p mine-3 401", "POST accounts/mine/token host 201", "DELETE pods/p mine-4 401"]
    );
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_and_the_write_fails() {
    let (server, connection) = Server::start().await;
    server.state().forbids_tokens = true;
    let writer = connection.client(&identity()).writer;
    let (class, message) = write(&writer).await.unwrap_err();
    assert_eq!(class, ApiErrorClass::Unauthorized);
    assert!(
        message.starts_with("cannot get a token for service account kube-system/mine: ")
            && message.contains("the host itself needs `create` of serviceaccounts and serviceaccounts/token"),
        "{message}"
    );
    assert_eq!(server.log(), ["POST accounts/mine/token host 403"]);
}
