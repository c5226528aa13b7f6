//! No write is sent while its fence is closed, and a write in flight is abandoned.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use futures::future::BoxFuture;
use pintle_core::object::id::ObjectKey;
use pintle_core::ports::api::{
    ApiErrorClass, ApiResource, ApiWriters as _, WriteFence, WriteRequest, WriteVerb, WriterIdentity,
};
use pintle_kube::{Connection, Source};
use pintle_testing::{PATIENCE, pod, resource};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A fence that a test opens and closes.
struct Gate(watch::Sender<bool>);

impl WriteFence for Gate {
    fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    fn closed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.0.subscribe().wait_for(|open| !open).await) })
    }
}

fn pods() -> Arc<ApiResource> {
    resource(&pod())
}

fn create() -> WriteRequest {
    let verb = WriteVerb::Create { body: json!({"metadata": {"name": "p"}}).to_string() };
    WriteRequest { resource: pods(), namespace: "ns".into(), name: String::new(), subresource: None, verb }
}

async fn connection(listener: &TcpListener) -> Connection {
    let server = format!("http://{}", listener.local_addr().unwrap());
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "host"}}],
    });
    Connection::open(&Source::Text(kubeconfig.to_string())).await.unwrap()
}

/// Reads a request, and sends the answer, if any.
async fn serve(stream: &mut TcpStream, answer: Option<&str>) -> String {
    let mut request = vec![0; 65_536];
    let n = stream.read(&mut request).await.unwrap();
    if let Some(body) = answer {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
    String::from_utf8_lossy(&request[..n]).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn writes_are_sent_while_the_fence_is_open_alone_and_reads_always() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = connection(&listener).await;
    let gate = Arc::new(Gate(watch::Sender::new(false)));
    let identity = |account: Option<&str>| WriterIdentity {
        name: "plugin".into(),
        qps: None,
        burst: 1,
        account: account.map(str::to_owned),
        fence: Some(gate.clone()),
    };
    let client = connection.client(&identity(None));
    // The server does not answer yet.
    let error = tokio::time::timeout(PATIENCE, client.writer.write(&create())).await.unwrap().unwrap_err();
    assert_eq!((error.class, error.code), (ApiErrorClass::NotLeading, 0));
    // No account or token is created for it.
    let error = connection.client(&identity(Some("mine"))).writer.write(&create()).await.unwrap_err();
    assert_eq!(error.class, ApiErrorClass::NotLeading);

    // The first request that arrives is a read, the second the write after the fence was opened.
    let object = r#"{"metadata":{"name":"p","resourceVersion":"7"}}"#;
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let first = serve(&mut stream, Some(object)).await;
        [first, serve(&mut stream, Some(object)).await]
    });
    let (resource, name) = (pods(), ObjectKey::new("ns", "p"));
    client.reader.as_ref().unwrap().get(&resource, &name, None).await.unwrap();
    gate.0.send_replace(true);
    client.writer.write(&create()).await.unwrap();
    let served = served.await.unwrap();
    assert!(served[0].starts_with("GET ") && served[1].starts_with("POST "), "{served:?}");
}

#[tokio::test]
async fn a_write_under_way_is_abandoned_when_the_fence_closes_and_may_have_happened() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connection = connection(&listener).await;
    let gate = Arc::new(Gate(watch::Sender::new(true)));
    let fence: Arc<dyn WriteFence> = gate.clone();
    let identity = WriterIdentity { name: "plugin".into(), qps: None, burst: 1, account: None, fence: Some(fence) };
    let writer = connection.client(&identity).writer;
    let hanging = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        serve(&mut stream, None).await;
        gate.0.send_replace(false);
        // The connection stays open: only the fence ends the request.
        std::future::pending::<()>().await;
    };
    let request = create();
    let error = tokio::select! {
        result = writer.write(&request) => result.unwrap_err(),
        () = hanging => unreachable!(),
        () = tokio::time::sleep(PATIENCE) => panic!("the request is not abandoned"),
    };
    assert_eq!((error.class, error.code), (ApiErrorClass::Transport, 0));
    assert!(error.message.starts_with("abandoned: the host lost the Lease"), "{error}");
}
