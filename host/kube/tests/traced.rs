//! Requests that belong to a span carry it, and others do not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use pintle_core::object::id::ObjectKey;
use pintle_core::ports::api::{ApiWriters as _, WriteRequest, WriteVerb, WriterIdentity};
use pintle_core::ports::trace::SpanRef;
use pintle_kube::{Connection, Source};
use pintle_testing::{PATIENCE, pod, resource};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// Answers requests one connection at a time; returns the `traceparent` header of each.
async fn serve(listener: TcpListener, n: usize) -> Vec<Option<String>> {
    let answer = r#"{"metadata":{"name":"p","resourceVersion":"7"}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let mut seen = Vec::new();
    for _ in 0..n {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 65_536];
        let n = stream.read(&mut request).await.unwrap();
        stream.write_all(format!("{head}{answer}").as_bytes()).await.unwrap();
        let request = String::from_utf8_lossy(&request[..n]).to_lowercase();
        seen.push(request.lines().find_map(|line| line.strip_prefix("traceparent: ")).map(str::to_owned));
    }
    seen
}

#[tokio::test]
async fn requests_of_a_span_carry_traceparent_and_others_do_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", listener.local_addr().unwrap())}}],
        "users": [{"name": "u", "user": {"token": "host"}}],
    });
    let connection = Connection::open(&Source::Text(kubeconfig.to_string())).await.unwrap();
    let served = tokio::spawn(serve(listener, 4));
    let identity = WriterIdentity { name: "plugin".into(), qps: None, burst: 1, account: None, fence: None };
    let client = connection.client(&identity);
    let span = SpanRef { trace_id: 0xa, span_id: 0xb };
    let verb = WriteVerb::Create { body: json!({"metadata": {"name": "p"}}).to_string() };
    let pods = resource(&pod());
    let create =
        WriteRequest { resource: pods.clone(), namespace: "ns".into(), name: String::new(), subresource: None, verb };
    let requests = async {
        client.writer.write(&create).await.unwrap();
        client.writer.traced(span).unwrap().write(&create).await.unwrap();
        let reader = client.reader.unwrap();
        reader.traced(span.with_span(0xc)).unwrap().get(&pods, &ObjectKey::new("ns", "p"), None).await.unwrap();
        reader.get(&pods, &ObjectKey::new("ns", "p"), None).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, requests).await.unwrap();
    let parent = |span: &str| Some(format!("00-0000000000000000000000000000000a-000000000000000{span}-01"));
    assert_eq!(served.await.unwrap(), [None, parent("b"), parent("c"), None]);
}
