//! The write half of an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use pintle_core::ports::api::{
    ApiClient, ApiError, ApiWriter, ApiWriters, WriteFence, WriteRequest, WriteVerb, WriterIdentity, Written,
};
use tokio::sync::watch;

use crate::FakeServer;

type Answer = dyn Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync;

/// A fake API server for writes: a closure may reject them, the others succeed with versions that count up from 101.
pub struct FakeWriter {
    answer: Box<Answer>,
    /// Requests, in order, one line each.
    log: Mutex<Vec<String>>,
    bodies: Mutex<Vec<String>>,
    version: AtomicU64,
    n_generated: AtomicU64,
    /// Shows created and deleted objects.
    server: Option<Arc<FakeServer>>,
    /// Writes wait while this is true.
    pub paused: watch::Sender<bool>,
    /// Writes in flight: current number, and maximum so far.
    pub n_open: Mutex<(usize, usize)>,
}

impl FakeWriter {
    /// A server that rejects writes with a closure, which gets the log line and the request.
    pub fn new(answer: impl Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync + 'static) -> Arc<Self> {
        Self::with(None, answer)
    }

    /// As [`FakeWriter::new`]; the server shows created and deleted objects, except Events, and provides the versions.
    pub fn onto(
        server: &Arc<FakeServer>,
        answer: impl Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with(Some(server.clone()), answer)
    }

    fn with(
        server: Option<Arc<FakeServer>>,
        answer: impl Fn(&str, &WriteRequest) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            log: Mutex::default(),
            bodies: Mutex::default(),
            version: AtomicU64::new(100),
            n_generated: AtomicU64::new(0),
            server,
            paused: watch::Sender::new(false),
            n_open: Mutex::default(),
        })
    }

    /// A server that accepts everything.
    pub fn agreeable() -> Arc<Self> {
        Self::new(|_, _| Ok(()))
    }

    /// Requests, in order: `VERB PLURAL NAMESPACE/NAME`.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().clone()
    }

    /// The bodies of the requests, in order.
    pub fn bodies(&self) -> Vec<serde_json::Value> {
        self.bodies.lock().iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }
}

impl ApiWriter for FakeWriter {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        Box::pin(async move {
            let preconditions_text;
            let (verb, body) = match &request.verb {
                WriteVerb::Create { body } => ("create", body.as_str()),
                WriteVerb::Update { body } => ("update", body.as_str()),
                WriteVerb::Patch { body, .. } => ("patch", body.as_str()),
                WriteVerb::Delete { preconditions, .. } => {
                    preconditions_text = serde_json::json!({"uid": preconditions.uid}).to_string();
                    ("delete", preconditions_text.as_str())
                }
                WriteVerb::DeleteCollection { .. } => ("deletecollection", "{}"),
            };
            let parsed: serde_json::Value = serde_json::from_str(body).unwrap();
            let name = match request.name.as_str() {
                "" => parsed["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                name => name.to_owned(),
            };
            let line = format!("{verb} {} {}/{name}", request.resource.plural, request.namespace);
            {
                let mut open = self.n_open.lock();
                open.0 += 1;
                open.1 = open.1.max(open.0);
            }
            self.bodies.lock().push(body.to_owned());
            self.log.lock().push(line.clone());
            let _ = self.paused.subscribe().wait_for(|paused| !paused).await;
            tokio::task::yield_now().await;
            self.n_open.lock().0 -= 1;
            (self.answer)(&line, request)?;
            let n = self.version.fetch_add(1, Ordering::Relaxed) + 1;
            let plural = request.resource.plural.as_str();
            let labels = serde_json::from_value(parsed["metadata"]["labels"].clone()).unwrap_or_default();
            let (name, version) = match (&self.server, verb) {
                (Some(server), "create") if plural != "events" => {
                    let prefix = parsed["metadata"]["generateName"].as_str().filter(|_| name.is_empty());
                    let generated = |prefix| format!("{prefix}{}", self.n_generated.fetch_add(1, Ordering::Relaxed));
                    let name = prefix.map_or(name, generated);
                    let version = server.put(plural, &request.namespace, &name, parsed);
                    (name, version)
                }
                (Some(server), "delete") => {
                    let version = server.delete(plural, &request.namespace, &name);
                    (name, version)
                }
                _ => (name, n),
            };
            let resource_version = version.to_string();
            Ok(Written { name, uid: String::new(), resource_version, removed: false, labels: Some(labels) })
        })
    }
}

/// Returns the same writer for every identity.
pub struct FakeWriters(pub Arc<FakeWriter>);

impl ApiWriters for FakeWriters {
    fn client(&self, identity: &WriterIdentity) -> ApiClient {
        let writer: Arc<dyn ApiWriter> = match &identity.fence {
            Some(fence) => Arc::new(Fenced { writer: self.0.clone(), fence: fence.clone() }),
            None => self.0.clone(),
        };
        ApiClient { writer, reader: None }
    }
}

/// Writes only while the fence is open, as an adapter does.
struct Fenced {
    writer: Arc<FakeWriter>,
    fence: Arc<dyn WriteFence>,
}

impl ApiWriter for Fenced {
    fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, ApiError>> {
        Box::pin(async move {
            if !self.fence.is_open() {
                return Err(ApiError::not_leading());
            }
            tokio::select! {
                biased;
                () = self.fence.closed() => Err(ApiError::transport("abandoned")),
                written = self.writer.write(request) => written,
            }
        })
    }
}
