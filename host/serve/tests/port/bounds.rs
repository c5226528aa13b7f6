//! Clients that request too much, or send too little.

use std::time::Duration;

use http::StatusCode;
use pintle_serve::Server;
use pintle_serve::policy::connections::MAX_OF_PEER;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{Client, Port, tls_options};

/// Timeout for anything on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

async fn is_alive(port: &Port) -> bool {
    timeout(PATIENCE, port.get("/livez", None)).await.is_ok_and(|answer| answer == (StatusCode::OK, "ok".into()))
}

#[tokio::test]
async fn clients_that_send_nothing_keep_nobody_out() {
    let port = Port::start(tls_options()).await;
    // More than the limit of one address, half of them in the middle of a handshake.
    let mut silent = Vec::new();
    for n in 0..MAX_OF_PEER + 20 {
        let mut stream = port.tcp().await;
        if n % 2 == 0 {
            // Start of a record.
            stream.write_all(&[0x16, 0x03]).await.unwrap();
        }
        silent.push(stream);
    }
    assert!(is_alive(&port).await);
    // The first ones were closed for new connections.
    for stream in &mut silent[..20] {
        let end = timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    }
}

#[tokio::test]
async fn a_client_that_sends_one_byte_at_a_time_delays_nobody_and_is_closed() {
    let port = Port::start(tls_options()).await;
    let mut slow = Vec::new();
    for _ in 0..MAX_OF_PEER {
        let mut stream = port.connect(&Client::default()).await;
        stream.write_all(b"G").await.unwrap();
        slow.push(stream);
    }
    for _ in 0..3 {
        for stream in &mut slow {
            // Some have been closed for probes.
            let _ = stream.write_all(b"E").await;
        }
        assert!(is_alive(&port).await);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection() {
    let port = Port::start(tls_options()).await;
    for within in [Duration::from_secs(11), Duration::from_secs(21)] {
        let start = Instant::now();
        let read = if within.as_secs() < 20 {
            // Before the handshake.
            port.tcp().await.read(&mut [0]).await
        } else {
            let mut stream = port.connect(&Client::default()).await;
            stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
            stream.flush().await.unwrap();
            // 408, and the end of the connection.
            stream.read_to_end(&mut Vec::new()).await
        };
        assert!(start.elapsed() <= within, "{:?} {read:?}", start.elapsed());
        assert!(start.elapsed() >= within.mul_f64(0.8), "{:?} {read:?}", start.elapsed());
    }
}

#[tokio::test]
async fn headers_are_bounded() {
    let port = Port::start(tls_options()).await;
    let status = async |path: String, n_headers: usize| {
        let mut stream = port.connect(&Client::default()).await;
        let headers: String = (0..n_headers).map(|n| format!("h{n}: v\r\n")).collect();
        // The server may respond, and close, before it has read everything.
        let _ = stream.write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or("closed").to_owned()
    };
    let closing = "/livez?x=".to_owned();
    let fits = closing.clone() + &"a".repeat(20 << 10);
    let too_long = closing + &"a".repeat(64 << 10);
    assert_eq!(status("/livez".into(), 101).await, "431");
    assert!(["431", "414", "400", "closed"].contains(&&*status(too_long, 1).await));
    let mut stream = port.connect(&Client::default()).await;
    let request = format!("GET {fits} HTTP/1.1\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn an_http2_connection_without_credentials_ends_after_its_request() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    let http2 = || Client { http2: true, ..Client::default() };
    assert_eq!(port.send(&http2(), "GET", "/livez", None).await, (StatusCode::OK, "ok".into()));
    let requests = async |token: Option<&str>| {
        let io = hyper_util::rt::TokioIo::new(port.connect(&http2()).await);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        let mut connection = tokio::spawn(connection);
        let request = http::Request::get("https://localhost/livez");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let first = sender.send_request(request.clone()).await.unwrap().status();
        assert_eq!(first, StatusCode::OK);
        if token.is_none() {
            timeout(PATIENCE, &mut connection).await.unwrap().unwrap().unwrap();
        }
        sender.send_request(request).await.is_ok()
    };
    assert!(!requests(None).await);
    assert!(requests(Some("good")).await);
}

/// The status code of a port without TLS. `request` ends with a line break.
async fn status_of(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(format!("{request}connection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_page_whose_name_leads_to_this_machine_reads_nothing() {
    let server = Port::of_this_machine();
    let status = async |host: &str| status_of(&server, &format!("GET /livez HTTP/1.1\r\n{host}")).await;
    for host in
        ["", "127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3", "localhost", "LocalHost:1", "pintle.localhost"]
    {
        let header = if host.is_empty() { String::new() } else { format!("host: {host}\r\n") };
        let expected = if host.is_empty() { ["200", "400"] } else { ["200", "200"] };
        let found = status(&header).await;
        assert!(expected.contains(&&*found), "{host:?}: {found}");
    }
    for host in ["rebound.example.com", "rebound.example.com:8080", "localhost.example.com", "127.0.0.1.example.com"] {
        assert_eq!(status(&format!("host: {host}\r\n")).await, "403", "{host}");
    }
}

#[tokio::test]
async fn only_a_port_with_authorization_resets_metrics() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.deleters.lock().push("alice".into());
    let reset = port.send(&Client::default(), "DELETE", "/metrics/slis", Some("good")).await;
    assert_eq!(reset, (StatusCode::OK, "metrics reset\n".into()));

    let server = Port::of_this_machine();
    for (method, expected) in [("GET", "200"), ("HEAD", "200"), ("DELETE", "405"), ("POST", "405")] {
        let request = format!("{method} /metrics/slis HTTP/1.1\r\nhost: localhost\r\n");
        assert_eq!(status_of(&server, &request).await, expected, "{method}");
    }
}
