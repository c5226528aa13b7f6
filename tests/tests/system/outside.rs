//! Signatures and calls of endpoints, in a whole host: what the operator has bound is done, the rest is denied.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use jiff::{SignedDuration, Timestamp};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use pintle_tests::{
    ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, errands, eventually, pintle, tls, workspace_dir,
};

/// The endpoint `desk`. What it answers is the name that it is asked for. Dropping it closes its ports.
struct Desk {
    address: SocketAddr,
    certificate: String,
    n_calls: Arc<AtomicUsize>,
    /// Requests at the address that it redirects to.
    n_moved: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Desk {
    async fn open() -> Result<Self> {
        let (acceptor, certificate) = tls::self_signed(&["http/1.1"])?;
        let (listener, other) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let (address, moved) = (listener.local_addr()?, other.local_addr()?);
        let (n_calls, n_moved): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let (calls, at_other) = (n_calls.clone(), n_moved.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            while other.accept().await.is_ok() {
                at_other.fetch_add(1, Ordering::Relaxed);
            }
        });
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, calls) = (acceptor.clone(), calls.clone());
                connections.spawn(async move {
                    // A client that goes away is not a failure.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        calls.fetch_add(1, Ordering::Relaxed);
                        async move { Ok::<_, Infallible>(answer(request, moved).await) }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Ok(Self { address, certificate, n_calls, n_moved, _serving: serving })
    }
}

async fn answer(request: Request<Incoming>, moved: SocketAddr) -> Response<Full<Bytes>> {
    let is_known = request.method() == "POST"
        && request.uri().path() == "/v1/look-up"
        && request.headers().get("authorization").is_some_and(|value| value == "Bearer s3cret");
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, location, text) = match asked["name"].as_str() {
        _ if !is_known => (StatusCode::FORBIDDEN, None, String::new()),
        Some("ann") => (StatusCode::OK, None, json!({"place": "third floor"}).to_string()),
        Some("hangs") => std::future::pending().await,
        Some("long") => (StatusCode::OK, None, format!("\"{}\"", "x".repeat(8 << 20))),
        Some("moved") => (StatusCode::TEMPORARY_REDIRECT, Some(format!("http://{moved}/v1/look-up")), String::new()),
        _ => (StatusCode::NOT_FOUND, None, String::new()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    if let Some(location) = location.and_then(|location| location.parse().ok()) {
        response.headers_mut().insert("location", location);
    }
    response
}

/// Creates an errand and waits for its answer.
async fn errand(client: &ApiClient, name: &str, what: &str, of: &str) -> Result<String> {
    let until = Timestamp::now() + SignedDuration::from_hours(1);
    let spec = json!({"do": what, "of": of, "until": until.to_string()});
    errands::create(client, name, spec).await?;
    errands::answer(client, name).await
}

/// Checks a certificate as an API server does with those of clients.
fn verify(certificate: &str, authority: &str) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    verifier.verify_client_cert(&certificate, &[], UnixTime::now())?;
    Ok(())
}

async fn bound_and_unbound(cluster: TestCluster) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name).display().to_string();
    let component = at("errand.wasm");
    let source = workspace_dir().join("sdk/rust/examples/errand");
    pintle::run([Path::new("build"), &source, Path::new("--output"), Path::new(&component)])?;
    errands::define(&cluster.client).await?;
    let key = KeyPair::generate()?;
    let mut request = CertificateParams::default();
    request.distinguished_name.push(DnType::CommonName, "ann");
    let request = request.serialize_request(&key)?.pem()?;

    let mut host = cluster.host(std::slice::from_ref(&component))?;
    host.ready().await?;
    for (name, what, of) in
        [("token", "token", "ann"), ("certificate", "certificate", &*request), ("call", "call", "ann")]
    {
        let answer = errand(&cluster.client, &format!("unbound-{name}"), what, of).await?;
        ensure!(answer == "refused: NotGranted", "{name}: {answer}");
    }
    ensure!(denials(&host).await? >= 3, "denials are faults of the plugin");
    host.stop().await;

    let (authority, authority_key) = authority()?;
    let desk = Desk::open().await?;
    for (name, contents) in [
        ("key.pem", key.serialize_pem()),
        ("ca.crt", authority.clone()),
        ("ca.key", authority_key),
        ("desk.crt", desk.certificate.clone()),
        ("token", "s3cret\n".to_owned()),
    ] {
        std::fs::write(at(name), contents)?;
    }
    let url = format!("https://{}/v1", desk.address);
    let endpoint = json!({"url": url, "tokenFile": at("token"), "caFile": at("desk.crt")});
    let mut host = cluster.host(&[
        component,
        format!("--set=errand-rust.key={}", json!({"file": at("key.pem")})),
        format!("--set=errand-rust.authority={}", json!({"certificate": at("ca.crt"), "key": at("ca.key")})),
        format!("--endpoint=errand-rust.desk={endpoint}"),
    ])?;
    host.ready().await?;

    let token = errand(&cluster.client, "token", "token", "ann").await?;
    let claims = token.split('.').nth(1).context("no token")?;
    ensure!(BASE64.decode(claims)? == br#"{"sub":"ann"}"#, "{token}");
    let certificate = errand(&cluster.client, "certificate", "certificate", &request).await?;
    verify(&certificate, &authority).with_context(|| certificate.clone())?;
    ensure!(verify(&authority, &certificate).is_err(), "the certificate is not one of an authority");
    for (of, expected) in [
        ("ann", "third floor"),
        ("bob", "refused: NotFound"),
        ("hangs", "refused: Timeout"),
        ("long", "refused: TooLarge"),
        ("moved", "refused: Redirect"),
    ] {
        let before = desk.n_calls.load(Ordering::Relaxed);
        let answer = errand(&cluster.client, &format!("call-{of}"), "call", of).await?;
        ensure!(answer == expected, "{of}: {answer}");
        // One call for each run; a run may be repeated, and one that timed out may not have got there.
        let was_called = desk.n_calls.load(Ordering::Relaxed) > before;
        ensure!(was_called || of == "hangs", "{of} was not called");
    }
    ensure!(desk.n_moved.load(Ordering::Relaxed) == 0, "a redirect was followed");
    ensure!(denials(&host).await? == 0, "what is bound is granted");
    let described = host.plugin(&["describe", "errand-rust"])?;
    let bound: Vec<_> = described["plugin"]["bound"].as_array().context("nothing is bound")?.iter().collect();
    let expected = [
        json!({"kind": "key", "name": "key", "place": at("key.pem")}),
        json!({"kind": "authority", "name": "authority", "place": format!("{} and {}", at("ca.crt"), at("ca.key"))}),
        json!({"kind": "endpoint", "name": "desk", "place": url}),
    ];
    ensure!(bound == expected.iter().collect::<Vec<_>>(), "{bound:?}");
    host.stop().await;
    cluster.stop().await;
    Ok(())
}

/// An authority and its key.
fn authority() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate, key.serialize_pem()))
}

/// How many requests of the plugin were not granted.
async fn denials(host: &HostProcess) -> Result<u64> {
    denials_of(host, "errand-rust")
}

fn denials_of(host: &HostProcess, plugin: &str) -> Result<u64> {
    let plugin = host.plugin(&["describe", plugin])?;
    Ok(plugin["plugin"]["faults"]["grant"].as_u64().unwrap_or(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_has_bound_is_done_and_the_rest_is_denied() -> Result<()> {
    bound_and_unbound(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_operator_has_bound_is_done_on_the_real_control_plane() -> Result<()> {
    bound_and_unbound(TestCluster::real().await?).await
}

/// A plugin reads in its configuration which authorities are bound: the signing controller requests no other signature.
#[tokio::test(flavor = "multi_thread")]
async fn a_signer_without_an_authority_leaves_its_requests_alone() -> Result<()> {
    const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    const SIGNING: &str = "certificatesigningrequest-signing-controller";
    let cluster = TestCluster::embedded().await?;
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (authority, authority_key) = authority()?;
    std::fs::write(at("ca.crt"), &authority)?;
    std::fs::write(at("ca.key"), authority_key)?;
    let mut request = CertificateParams::default();
    request.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    request.distinguished_name.push(DnType::CommonName, "system:node:a");
    let request = request.serialize_request(&KeyPair::generate()?)?.pem()?;
    let condition = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "approved"});
    for (name, signer) in [("unbound", "kube-apiserver-client"), ("bound", "kube-apiserver-client-kubelet")] {
        let spec = json!({
            "request": STANDARD.encode(&request), "signerName": format!("kubernetes.io/{signer}"),
            "usages": ["digital signature", "client auth"],
        });
        cluster.client.create(REQUESTS, &json!({"metadata": {"name": name}, "spec": spec})).await?;
        let approval = json!({"status": {"conditions": [condition]}});
        cluster.client.patch(&format!("{REQUESTS}/{name}/approval"), PatchKind::Merge, &approval).await?;
    }
    let mut host = cluster.host(&[
        HostProcess::controllers(&[SIGNING]),
        format!("--cluster-signing-kubelet-client-cert-file={}", at("ca.crt")),
        format!("--cluster-signing-kubelet-client-key-file={}", at("ca.key")),
    ])?;
    host.ready().await?;
    let certificate = |request: &Value| request["status"]["certificate"].as_str().map(str::to_owned);
    let signed = eventually(PATIENCE, "the request to be signed", async || {
        Ok(certificate(&cluster.client.get(&format!("{REQUESTS}/bound")).await?))
    })
    .await?;
    verify(&String::from_utf8(STANDARD.decode(signed)?)?, &authority)?;
    let other = cluster.client.get(&format!("{REQUESTS}/unbound")).await?;
    ensure!(certificate(&other).is_none(), "{other}");
    ensure!(denials_of(&host, SIGNING)? == 0, "the signing controller requested a signature that is not bound");
    host.stop().await;
    cluster.stop().await;
    Ok(())
}
