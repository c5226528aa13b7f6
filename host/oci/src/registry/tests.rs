//! A hostile registry, as bytes on a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// Part of an endless body.
static PART: [u8; 64 << 10] = [b' '; 64 << 10];
/// Most bytes of an endless body, so that a client without a limit fails a test instead of never ending.
const MAX_SENT: usize = 64 << 20;

/// The response for a path.
#[derive(Clone, Debug)]
enum Sent {
    /// Everything from the status line on.
    Whole(String),
    /// This head, and up to [`MAX_SENT`] bytes, as far as they are read.
    Endless(String),
}

/// A server that responds by path, and records the requests.
struct Hostile {
    address: String,
    state: Arc<State>,
    /// Its certificate in DER, if it speaks TLS.
    certificate: Option<Vec<u8>>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct State {
    answers: Mutex<BTreeMap<String, Sent>>,
    /// Paths, and whether the requests had credentials.
    asked: Mutex<Vec<(String, bool)>>,
    n_sent: AtomicUsize,
}

impl State {
    async fn serve(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = stream.read_u8().await else { return };
            if head.is_empty() && !byte.is_ascii_uppercase() {
                // As servers without TLS respond to its first bytes.
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                return;
            }
            head.push(byte);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let bare = path.split('?').next().unwrap_or_default().to_owned();
        self.asked.lock().push((bare.clone(), head.to_lowercase().contains("\r\nauthorization:")));
        let answer = self.answers.lock().get(&bare).cloned();
        let answer = answer.unwrap_or_else(|| status("404 Not Found", "", ""));
        let (Sent::Whole(text) | Sent::Endless(text)) = &answer;
        let _ = stream.write_all(text.as_bytes()).await;
        let n_parts = if matches!(answer, Sent::Endless(_)) { MAX_SENT / PART.len() } else { 0 };
        for _ in 0..n_parts {
            if stream.write_all(&PART).await.is_err() {
                return;
            }
            self.n_sent.fetch_add(PART.len(), Ordering::Relaxed);
        }
        let _ = stream.shutdown().await;
    }
}

impl Hostile {
    async fn start() -> Self {
        Self::listen("127.0.0.1", None).await
    }

    /// Under the name `localhost`, with a separate certificate.
    async fn start_tls() -> Self {
        let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, private) = (key.cert.der().clone(), key.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let private = PrivateKeyDer::try_from(private).unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.clone()], private).unwrap();
        let tls = TlsAcceptor::from(Arc::new(config));
        Self { certificate: Some(certificate.to_vec()), ..Self::listen("localhost", Some(tls)).await }
    }

    async fn listen(host: &str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("{host}:{}", listener.local_addr().unwrap().port());
        let state = Arc::<State>::default();
        let of_task = state.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, tls) = (of_task.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => state.serve(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                state.serve(stream).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, state, certificate: None, _serving: AbortOnDropHandle::new(serving) }
    }

    fn answer(&self, path: &str, sent: Sent) {
        self.state.answers.lock().insert(path.to_owned(), sent);
    }

    fn asked(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.state.asked.lock())
    }

    /// A session for `oci://ADDRESS/a:1`, without TLS.
    fn session(&self, credentials: Credentials, token_servers: &[&str]) -> Session {
        self.session_with(credentials, token_servers, Vec::new())
    }

    /// The same, with these certificates in addition to those of the system.
    fn session_with(&self, credentials: Credentials, token_servers: &[&str], authorities: Vec<Vec<u8>>) -> Session {
        let reference: ArtifactRef = format!("oci://{}/a:1", self.address).parse().unwrap();
        let registries = Registries {
            plain_http: vec![self.address.clone()],
            token_servers: token_servers.iter().map(|server| (*server).to_owned()).collect(),
            authorities,
        };
        registries.session(&reference, credentials, crate::log).unwrap()
    }

    async fn manifest(&self, session: &Session) -> Result<(), (Reason, String)> {
        let result = session.manifest(&session.reference).await;
        result.map(drop).map_err(|why| (why.reason, why.message.replace(&self.address, "REGISTRY")))
    }
}

fn status(status: &str, headers: &str, body: &str) -> Sent {
    let length = body.len();
    Sent::Whole(format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"))
}

fn endless(status: &str) -> Sent {
    Sent::Endless(format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n"))
}

fn user() -> Credentials {
    Credentials::Basic { name: "pusher".into(), password: "secret".into() }
}

fn bearer(realm: &str) -> Sent {
    status("401 Unauthorized", &format!("www-authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n"), "")
}

const MANIFEST_PATH: &str = "/v2/a/manifests/1";

#[tokio::test]
async fn no_more_of_an_answer_is_read_than_it_may_have() {
    let hostile = Hostile::start().await;
    let session = hostile.session(Credentials::Anonymous, &[]);
    // Data in the buffers of both ends counts as sent.
    let is_bounded = |most: usize| hostile.state.n_sent.swap(0, Ordering::Relaxed) < most + (16 << 20);

    hostile.answer(MANIFEST_PATH, endless("200 OK"));
    let why = hostile.manifest(&session).await.unwrap_err();
    assert_eq!(why.0, Reason::TooLarge);
    assert_eq!(why.1, format!("oci://REGISTRY/a:1: its manifest has more than {MAX_MANIFEST_BYTES} bytes"));
    assert!(is_bounded(MAX_MANIFEST_BYTES));

    hostile.answer(MANIFEST_PATH, endless("500 Internal Server Error"));
    assert_eq!(hostile.manifest(&session).await.unwrap_err().0, Reason::RegistryUnreachable);
    assert!(is_bounded(0));

    let digest = Digest::of(b"blob");
    hostile.answer(&format!("/v2/a/blobs/{digest}"), endless("200 OK"));
    assert_eq!(session.blob(digest, 4).await.unwrap_err().reason, Reason::DigestMismatch);
    assert!(is_bounded(0));
    hostile.answer(&format!("/v2/a/blobs/{digest}"), status("200 OK", "", "blob"));
    assert_eq!(
        session.blob(digest, u64::MAX).await.as_deref(),
        Ok(b"blob".as_slice()),
        "a promised length takes no memory"
    );

    hostile.answer("/v2/", bearer(&format!("http://{}/token", hostile.address)));
    hostile.answer("/token", endless("200 OK"));
    let session = hostile.session(Credentials::Anonymous, &[]);
    assert_eq!(hostile.manifest(&session).await.unwrap_err().0, Reason::TooLarge);
    assert!(is_bounded(0));
}

#[tokio::test]
async fn credentials_stay_at_the_registry_and_the_token_servers_that_the_operator_names() {
    let (hostile, foreign) = (Hostile::start().await, Hostile::start().await);
    hostile.answer(MANIFEST_PATH, status("200 OK", "", "{}"));
    let own = format!("http://{}/token", hostile.address);
    hostile.answer("/v2/", bearer(&own));
    hostile.answer("/token", status("200 OK", "", r#"{"token": "", "access_token": "t"}"#));
    let session = hostile.session(user(), &[]);
    assert_eq!(
        hostile.manifest(&session).await.unwrap_err().1,
        "oci://REGISTRY/a:1: REGISTRY: its token server sends no token"
    );
    hostile.answer("/token", status("200 OK", "", r#"{"access_token": "t"}"#));
    hostile.asked();
    assert_eq!(hostile.manifest(&session).await, Ok(()));
    let asked = [("/v2/", false), ("/token", true), (MANIFEST_PATH, true)];
    assert_eq!(hostile.asked(), asked.map(|(path, known)| (path.to_owned(), known)));
    assert_eq!(hostile.manifest(&session).await, Ok(()));
    assert_eq!(hostile.asked().len(), 1, "the token is used again");

    // A token server on another host: without TLS never, with TLS only if it is configured.
    hostile.answer("/v2/", bearer(&format!("http://{}/token", foreign.address)));
    for credentials in [user(), Credentials::Anonymous] {
        let session = hostile.session(credentials, &[foreign.address.as_str()]);
        let why = hostile.manifest(&session).await.unwrap_err();
        assert!(why.1.contains("does not use TLS"), "{why:?}");
    }
    hostile.answer("/v2/", bearer(&format!("https://{}/token", foreign.address.replace("127.0.0.1", "localhost"))));
    let why = hostile.manifest(&hostile.session(user(), &[])).await.unwrap_err();
    assert!(why.1.ends_with("name it with --registry-token-server localhost"), "{why:?}");
    assert!(foreign.asked().is_empty());
    let why = hostile.manifest(&hostile.session(user(), &["localhost"])).await.unwrap_err();
    assert_eq!(why.0, Reason::RegistryUnreachable, "it is asked, and does not speak TLS: {why:?}");

    hostile.answer("/v2/", status("401 Unauthorized", "www-authenticate: Basic realm=\"r\"\r\n", ""));
    hostile.asked();
    assert_eq!(hostile.manifest(&hostile.session(user(), &[])).await, Ok(()));
    assert_eq!(hostile.asked(), [("/v2/".to_owned(), false), (MANIFEST_PATH.to_owned(), true)]);
}

#[tokio::test]
async fn a_redirect_stays_at_the_registry() {
    let (hostile, foreign) = (Hostile::start().await, Hostile::start().await);
    let to = |url: &str| status("307 Temporary Redirect", &format!("location: {url}\r\n"), "");
    let digest = Digest::of(b"blob");
    let blob = format!("/v2/a/blobs/{digest}");
    hostile.answer("/v2/", status("401 Unauthorized", "www-authenticate: Basic realm=\"r\"\r\n", ""));
    hostile.answer("/elsewhere", status("200 OK", "", "blob"));
    foreign.answer("/elsewhere", status("200 OK", "", "blob"));
    let session = hostile.session(user(), &[]);
    hostile.answer(&blob, to("/elsewhere"));
    assert_eq!(session.blob(digest, 4).await.as_deref(), Ok(b"blob".as_slice()));

    for scheme in ["http", "ftp"] {
        let url = format!("{scheme}://{}/elsewhere", foreign.address);
        hostile.answer(&blob, to(&url));
        let why = session.blob(digest, 4).await.unwrap_err();
        assert!(why.message.contains("it redirects to 127.0.0.1:"), "{why}");
        hostile.answer(MANIFEST_PATH, to(&url));
        assert!(hostile.manifest(&session).await.unwrap_err().1.contains("which is not followed"));
    }
    // Manifests are never on other hosts, with or without TLS. Blobs may be; this host does not support TLS.
    let url = format!("https://{}/elsewhere", foreign.address);
    hostile.answer(MANIFEST_PATH, to(&url));
    assert!(hostile.manifest(&session).await.unwrap_err().1.contains("which is not followed"));
    hostile.answer(&blob, to(&url));
    assert_eq!(session.blob(digest, 4).await.unwrap_err().reason, Reason::RegistryUnreachable);
    assert!(foreign.asked().iter().all(|(path, _)| path != "/elsewhere"), "no request was readable without TLS");

    hostile.asked();
    hostile.answer(MANIFEST_PATH, to(MANIFEST_PATH));
    assert!(hostile.manifest(&session).await.unwrap_err().1.contains("redirects more than 5 times"));
    let n_asked = hostile.asked().iter().filter(|(path, _)| path == MANIFEST_PATH).count();
    assert_eq!(n_asked, 6, "the first request and five redirects");
    for (n, from) in [&*blob, "/1", "/2", "/3", "/4"].into_iter().enumerate() {
        hostile.answer(from, to(&format!("/{}", n + 1)));
    }
    hostile.answer("/5", status("200 OK", "", "blob"));
    assert_eq!(session.blob(digest, 4).await.as_deref(), Ok(b"blob".as_slice()), "five redirects are followed");

    // An upload location.
    hostile.answer(&blob, status("404 Not Found", "", ""));
    let place = format!("location: http://{}/upload\r\n", foreign.address);
    hostile.answer("/v2/a/blobs/uploads/", status("202 Accepted", &place, ""));
    let why = session.push_blob(b"blob".to_vec()).await.unwrap_err();
    assert!(why.message.contains("which is another host"), "{why}");
    assert!(foreign.asked().iter().all(|(path, _)| path != "/upload"));
}

#[tokio::test]
async fn another_host_that_is_asked_gets_no_credentials_unless_it_is_named_and_is_not_quoted() {
    let (hostile, foreign) = (Hostile::start().await, Hostile::start_tls().await);
    let session = |token_servers: &[&str]| {
        hostile.session_with(user(), token_servers, foreign.certificate.clone().into_iter().collect())
    };
    let digest = Digest::of(b"blob");
    let elsewhere = format!("location: https://{}/elsewhere\r\n", foreign.address);
    hostile.answer("/v2/", status("401 Unauthorized", "www-authenticate: Basic realm=\"r\"\r\n", ""));
    hostile.answer(&format!("/v2/a/blobs/{digest}"), status("307 Temporary Redirect", &elsewhere, ""));
    foreign.answer("/elsewhere", status("200 OK", "", "blob"));
    assert_eq!(session(&[]).blob(digest, 4).await.as_deref(), Ok(b"blob".as_slice()));
    assert_eq!(foreign.asked(), [("/elsewhere".to_owned(), false)]);
    assert_eq!(hostile.asked().last().map(|(_, known)| *known), Some(true));

    // All failures result in the same error.
    let broken = status("500 Internal Server Error", "", "from inside");
    let failure = format!(
        "oci://{0}/a:1: {0}: it redirects to {1}, which does not send the content; the log has the cause at level debug",
        hostile.address, foreign.address
    );
    let moved = status("302 Found", "location: https://localhost:1/\r\n", "");
    for answer in [
        &broken,
        &status("404 Not Found", "", ""),
        &status("200 OK", "", "bloc"),
        &status("200 OK", "", "longer"),
        &moved,
    ] {
        foreign.answer("/elsewhere", answer.clone());
        let why = session(&[]).blob(digest, 4).await.unwrap_err();
        assert_eq!((why.reason, &why.message), (Reason::RegistryUnreachable, &failure), "{answer:?}");
    }
    let anonymous = hostile.session_with(Credentials::Anonymous, &[], Vec::new());
    assert_eq!(anonymous.blob(digest, 4).await.unwrap_err().message, failure, "its certificate is not trusted");

    hostile.answer("/v2/", bearer(&format!("https://{}/token", foreign.address)));
    foreign.answer("/token", broken.clone());
    foreign.asked();
    let why = hostile.manifest(&session(&["localhost"])).await.unwrap_err();
    assert!(why.1.contains("500") && !why.1.contains("from inside"), "{why:?}");
    assert_eq!(foreign.asked(), [("/token".to_owned(), true)]);
    let failure = "its token server localhost is another host, and sends no token; if it belongs to the registry, name it with \
                   --registry-token-server localhost; the log has the cause at level debug";
    for answer in [&broken, &status("401 Unauthorized", "", ""), &status("200 OK", "", "{}")] {
        foreign.answer("/token", answer.clone());
        for authorities in [Vec::new(), foreign.certificate.clone().into_iter().collect()] {
            let why =
                hostile.manifest(&hostile.session_with(Credentials::Anonymous, &[], authorities)).await.unwrap_err();
            assert_eq!((why.0, why.1.ends_with(failure)), (Reason::RegistryUnreachable, true), "{why:?}");
        }
    }

    // Messages of the registry itself are quoted.
    hostile.answer("/v2/", status("200 OK", "", ""));
    hostile.answer(MANIFEST_PATH, broken);
    let why = hostile.manifest(&session(&[])).await.unwrap_err();
    assert!(why.1.contains("from inside"), "{why:?}");
}

#[tokio::test]
async fn a_registry_on_this_machine_needs_tls_unless_it_is_named() {
    let hostile = Hostile::start().await;
    hostile.answer(MANIFEST_PATH, status("200 OK", "", "secret of a local service"));
    let reference: ArtifactRef = format!("oci://{}/a:1", hostile.address).parse().unwrap();
    let session = Registries::default().session(&reference, Credentials::Anonymous, crate::log).unwrap();
    let why = hostile.manifest(&session).await.unwrap_err();
    assert_eq!(why.0, Reason::RegistryUnreachable);
    assert!(why.1.contains("does not speak TLS; if that is intended, use --plain-http REGISTRY"), "{why:?}");
    assert!(hostile.asked().iter().all(|(path, _)| !path.starts_with("/v2")), "nothing was asked in the clear");
}
