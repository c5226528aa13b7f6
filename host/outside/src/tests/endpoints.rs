//! Endpoint calls on real sockets.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pintle_core::ports::outside::{Endpoint as _, OutsideAnswer};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::endpoint::{BoundEndpoint, EndpointConfig};

/// A server that responds to each request with these bytes, or never if there are none.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Into<Vec<u8>>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, answer) = (listener.local_addr().unwrap(), Arc::new(answer.into()));
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer, tls) = (seen.clone(), answer.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &seen, &answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &seen, &answer).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn endpoint(&self, path: &str) -> BoundEndpoint {
        BoundEndpoint::open(&EndpointConfig::parse(&format!("http://{}{path}", self.address)).unwrap()).unwrap()
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Mutex<Vec<String>>, answer: &[u8]) {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let n = stream.read(&mut part).await.unwrap_or(0);
        request.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if n == 0 {
                return;
            }
            continue;
        };
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        if body.len() >= length {
            break;
        }
    }
    seen.lock().push(String::from_utf8_lossy(&request).into_owned());
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

fn shown(answer: OutsideAnswer) -> String {
    answer.unwrap_or_else(|error| format!("{} {}: {}", error.code, error.reason, error.message))
}

const LONG: Duration = Duration::from_secs(300);

#[tokio::test]
async fn an_operation_is_one_post_below_the_address() {
    let server = Server::start(answer("200 OK", "", r#"{"place": "third floor"}"#), None).await;
    for path in ["/desk", "/desk/"] {
        let answer = server.endpoint(path).call("look-up", r#"{"name":"ann"}"#, LONG).await;
        assert_eq!(shown(answer), r#"{"place": "third floor"}"#);
    }
    let requests = server.requests.lock().clone();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert!(request.starts_with("POST /desk/look-up HTTP/1.1\r\n"), "{request}");
        assert!(
            request.contains("content-type: application/json\r\n") && request.ends_with("\r\n\r\n{\"name\":\"ann\"}"),
            "{request}"
        );
        assert!(!request.contains("authorization"), "{request}");
    }
}

#[tokio::test]
async fn refusals_have_reasons_and_nothing_is_sent_again() {
    for (status, headers, body, expected) in [
        ("404 Not Found", "", "no", "404 NotFound: the endpoint answered 404"),
        (
            "501 Not Implemented",
            "",
            r#"{"reason":"ImplementedElsewhere"}"#,
            "501 ImplementedElsewhere: the endpoint answered 501",
        ),
        (
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            "",
            "429 TooManyRequests: the endpoint answered 429, retry after 7 s",
        ),
        ("503 Service Unavailable", "", "", "503 ServiceUnavailable: the endpoint answered 503"),
        (
            "307 Temporary Redirect",
            "location: http://127.0.0.1:1/elsewhere\r\n",
            "",
            "307 Redirect: the endpoint answered 307, a redirect, which is not followed: bind the endpoint to its final address",
        ),
        ("200 OK", "", "no JSON", "0 Malformed: the endpoint's answer is not JSON: expected ident at line 1 column 2"),
        (
            "200 OK",
            "",
            "",
            "0 Malformed: the endpoint's answer is not JSON: EOF while parsing a value at line 1 column 0",
        ),
    ] {
        let server = Server::start(answer(status, headers, body), None).await;
        assert_eq!(shown(server.endpoint("").call("o", "{}", LONG).await), expected);
        assert_eq!(server.requests.lock().len(), 1, "{status}");
    }
    // The connection breaks after the request.
    let server = Server::start("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}", None).await;
    let broken = shown(server.endpoint("").call("o", "{}", LONG).await);
    assert!(broken.starts_with("0 Transport: the endpoint was not reached, or its answer broke off"), "{broken}");
    assert!(!broken.contains("127.0.0.1"), "{broken}");
    assert_eq!(server.requests.lock().len(), 1);
}

#[tokio::test]
async fn an_endpoint_that_hangs_costs_its_timeout() {
    let server = Server::start("", None).await;
    let endpoint = server.endpoint("");
    let timeout = async {
        while server.requests.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        tokio::time::pause();
        tokio::time::advance(LONG).await;
        tokio::time::resume();
    };
    let (answer, ()) = tokio::join!(endpoint.call("o", "{}", LONG), timeout);
    assert_eq!(shown(answer), "0 Timeout: the endpoint has not answered within 300s; the operation may have happened");
    assert_eq!(server.requests.lock().len(), 1);
}

#[tokio::test]
async fn an_answer_has_at_most_eight_mebibytes() {
    const MOST: usize = 8 << 20;
    for (n_bytes, expected) in [(MOST, None), (MOST + 1, Some("0 TooLarge: the answer has more than 8388608 bytes"))] {
        let text = format!("\"{}\"", "x".repeat(n_bytes - 2));
        let server = Server::start(answer("200 OK", "", &text), None).await;
        let answer = shown(server.endpoint("").call("o", "{}", LONG).await);
        assert_eq!((answer != text).then_some(&*answer), expected);
    }
}

#[tokio::test]
async fn an_endpoint_has_a_certificate_of_its_authority_and_gets_the_token_as_it_is_now() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let server = Server::start(answer("200 OK", "", "1"), Some(TlsAcceptor::from(Arc::new(config)))).await;
    fs::write(at("ca"), made.cert.pem()).unwrap();
    fs::write(at("token"), "s3cret\n").unwrap();
    let url = format!("https://{}/desk", server.address);
    let config = EndpointConfig { url: url.clone(), token_file: Some(at("token")), ca_file: Some(at("ca")) };
    let endpoint = BoundEndpoint::open(&config).unwrap();
    assert_eq!(endpoint.shown(), url);
    assert_eq!(shown(endpoint.call("o", "{}", LONG).await), "1");
    assert!(server.requests.lock()[0].contains("authorization: Bearer s3cret\r\n"));
    // The system does not trust this authority.
    let stranger = BoundEndpoint::open(&EndpointConfig { ca_file: None, ..config.clone() }).unwrap();
    let refused = shown(stranger.call("o", "{}", LONG).await);
    assert!(refused.starts_with("0 Transport:") && !refused.contains("s3cret"), "{refused}");
    assert_eq!(server.requests.lock().len(), 1, "nothing was sent without trust");
    for (file, contents, expected) in [
        ("token", "", "the file of the token is empty"),
        ("token", "a\u{7f}b", "the token contains characters that no header may have"),
        ("ca", "no certificate", "it contains no certificate in PEM"),
    ] {
        let before = fs::read(at(file)).unwrap();
        fs::write(at(file), contents).unwrap();
        let why = BoundEndpoint::open(&config).err().unwrap().to_string();
        assert!(why.ends_with(expected), "{why}");
        fs::write(at(file), before).unwrap();
    }
}

#[test]
fn addresses_are_https_or_this_machine() {
    let open = |url: &str| BoundEndpoint::open(&EndpointConfig::parse(url).unwrap()).map(|endpoint| endpoint.shown());
    for url in
        ["https://a.example.com", "https://a.example.com:8443/v1/desk", "http://127.0.0.1:80", "http://[::1]:8080/x"]
    {
        assert_eq!(open(url).unwrap().trim_end_matches(":80"), url.trim_end_matches(":80"));
    }
    for (url, why) in [
        ("http://a.example.com", "without TLS only the addresses 127.0.0.1 and [::1] are allowed"),
        ("http://localhost", "without TLS only"),
        ("http://10.0.0.1", "without TLS only"),
        ("ftp://a", "only HTTPS is supported"),
        ("file:///etc/passwd", "only HTTPS is supported"),
        ("a.example.com", "is not the address of an endpoint"),
        ("https://user:pw@a", "has no user and password"),
        ("https://a?b", "it has a query or a fragment"),
    ] {
        let error = open(url).unwrap_err().to_string();
        assert!(error.contains(why) && !error.contains("pw"), "{url}: {error}");
    }
    for wrong in ["{}", r#"{"url": "https://a", "tokenfile": "/t"}"#] {
        assert!(EndpointConfig::parse(wrong).unwrap_err().starts_with(r#"write {"url": "https://HOST/PATH""#));
    }
    let whole = r#"{"url": "https://a", "tokenFile": "/t", "caFile": "/c"}"#;
    let expected =
        EndpointConfig { url: "https://a".into(), token_file: Some("/t".into()), ca_file: Some("/c".into()) };
    assert_eq!(EndpointConfig::parse(whole), Ok(expected));
}
