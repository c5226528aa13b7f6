//! A collector of OpenTelemetry in the process of a test: OTLP over gRPC, with the types of the protocol.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::{Request, Response, Status};

/// A span that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenSpan {
    /// The trace, in hexadecimal.
    pub trace: String,
    /// Its id, in hexadecimal.
    pub id: String,
    /// The span above it, in hexadecimal; empty at the root.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// Nanoseconds since 1970: from, until.
    pub time: (u64, u64),
    /// Whether it is an error, and the text of its status.
    pub error: Option<String>,
    /// Its attributes, as text.
    pub attributes: BTreeMap<String, String>,
    /// The attributes of the process, as text.
    pub resource: BTreeMap<String, String>,
}

impl SeenSpan {
    /// An attribute; empty if it is absent.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// A running collector. Dropping it ends it, and its connections.
pub struct Collector {
    /// Where it listens.
    pub address: SocketAddr,
    spans: Arc<Mutex<Vec<SeenSpan>>>,
    _server: JoinSet<()>,
}

impl Collector {
    /// Starts a collector at this address of loopback; port 0 is a free one.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn start(address: SocketAddr) -> Result<Self> {
        Self::start_with(address, None).await
    }

    /// Starts a collector that speaks TLS on a free port.
    ///
    /// # Errors
    /// There is no port.
    pub async fn with_tls(tls: TlsAcceptor) -> Result<Self> {
        Self::start_with(SocketAddr::from(([127, 0, 0, 1], 0)), Some(tls)).await
    }

    async fn start_with(address: SocketAddr, tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = TcpListener::bind(address).await.with_context(|| format!("listen at {address}"))?;
        let address = listener.local_addr()?;
        let spans = Arc::<Mutex<Vec<SeenSpan>>>::default();
        let received = Received(spans.clone());
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (received, tls) = (received.clone(), tls.clone());
                connections.spawn(async move {
                    let Some(tls) = tls else { return serve(stream, received).await };
                    // A client that does not trust the certificate ends the handshake.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, received).await;
                    }
                });
            }
        });
        Ok(Self { address, spans, _server: server })
    }

    /// The spans so far, in the order of their arrival.
    pub fn spans(&self) -> Vec<SeenSpan> {
        self.spans.lock().clone()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, received: Received) {
    let service = TowerToHyperService::new(TraceServiceServer::new(received));
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // It ends with the client.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

#[derive(Clone)]
struct Received(Arc<Mutex<Vec<SeenSpan>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock();
        for of_resource in request.into_inner().resource_spans {
            let resource = texts(&of_resource.resource.map(|resource| resource.attributes).unwrap_or_default());
            let of_scopes = of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans);
            spans.extend(of_scopes.map(|span| seen(span, &resource)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn seen(span: Span, resource: &BTreeMap<String, String>) -> SeenSpan {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // 2 is STATUS_CODE_ERROR.
    let error = span.status.filter(|status| status.code == 2).map(|status| status.message);
    SeenSpan {
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        time: (span.start_time_unix_nano, span.end_time_unix_nano),
        error,
        attributes: texts(&span.attributes),
        resource: resource.clone(),
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    attributes.iter().map(|one| (one.key.clone(), one.value.as_ref().map_or_else(String::new, text))).collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::BoolValue(value)) => value.to_string(),
        Some(any_value::Value::IntValue(value)) => value.to_string(),
        Some(any_value::Value::DoubleValue(value)) => value.to_string(),
        Some(any_value::Value::ArrayValue(values)) => values.values.iter().map(text).collect::<Vec<_>>().join("; "),
        other => format!("{other:?}"),
    }
}
