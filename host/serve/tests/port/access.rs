//! Authentication and authorization.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::StatusCode;
use pintle_serve::policy::identity::FrontProxy;
use pintle_serve::{ClientAuthorities, TlsOptions};
use serde_json::{Value, json};
use tokio::time::advance;

use crate::client::{Authority, Client, Port, TTL, tls_options};

const OK: StatusCode = StatusCode::OK;
const UNAUTHORIZED: StatusCode = StatusCode::UNAUTHORIZED;
const FORBIDDEN: StatusCode = StatusCode::FORBIDDEN;

fn secret() -> (StatusCode, String) {
    (OK, "secret 1\n".to_owned())
}

#[tokio::test]
async fn probes_are_open_and_everything_else_needs_a_permission() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.tokens.lock().insert("weak".into(), "bob".into());
    port.api.readers.lock().push("alice".into());
    for token in [None, Some("good"), Some("unknown")] {
        assert_eq!(port.get("/healthz", token).await, (OK, "ok".into()));
        assert_eq!(port.get("/livez?verbose", token).await, (OK, "[+]ping ok\nlivez check passed\n".into()));
        let failed = "[+]ping ok\n[-]bad failed: reason withheld\nreadyz check failed\n";
        assert_eq!(port.get("/readyz", token).await, (StatusCode::INTERNAL_SERVER_ERROR, failed.into()));
        assert_eq!(port.get("/readyz?exclude=bad", token).await, (OK, "ok".into()));
    }
    assert_eq!(port.api.n_reviews.load(Ordering::Relaxed), 0, "a probe waits for nobody");
    for path in ["/metrics", "/metrics/slis", "/readyz/bad", "/healthz/", "/nothing", "/", "/debug/controllers/x"] {
        let (status, body) = port.get(path, None).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        let message = format!("forbidden: User \"system:anonymous\" cannot get path {path:?}: test");
        assert_eq!((status, body["message"].as_str()), (FORBIDDEN, Some(&*message)));
        let (status, body) = port.get(path, Some("unknown")).await;
        assert_eq!(
            (status, serde_json::from_str::<Value>(&body).unwrap()["reason"].as_str()),
            (UNAUTHORIZED, Some("Unauthorized"))
        );
        assert_eq!(port.get(path, Some("weak")).await.0, FORBIDDEN);
        assert!(![UNAUTHORIZED, FORBIDDEN].contains(&port.get(path, Some("good")).await.0), "{path}");
    }
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
    let (status, reason) = port.get("/readyz/bad", Some("good")).await;
    assert_eq!((status.as_u16(), &*reason), (500, "internal server error: a reason\n"));
    assert_eq!(port.get("/nothing", Some("good")).await, (StatusCode::NOT_FOUND, "404 page not found\n".into()));
    let slis = port.get("/metrics/slis", Some("good")).await.1;
    assert!(slis.contains("kubernetes_healthcheck{name=\"bad\",type=\"readyz\"} 0\n"), "{slis}");
    // `alice` may only read.
    for method in ["DELETE", "POST"] {
        assert_eq!(port.send(&Client::default(), method, "/metrics/slis", Some("good")).await.0, FORBIDDEN);
    }
    assert_eq!(port.send(&Client::default(), "POST", "/livez", None).await.0, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn answers_are_remembered_for_their_time() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.readers.lock().push("alice".into());
    let reviews = || port.api.n_reviews.swap(0, Ordering::Relaxed);
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
    assert_eq!(reviews(), 2);
    // The permissions are revoked, and the token, too.
    port.api.readers.lock().clear();
    port.api.tokens.lock().clear();
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
    assert_eq!(reviews(), 0);
    advance(TTL).await;
    assert_eq!(port.get("/metrics", Some("good")).await.0, UNAUTHORIZED);
    assert_eq!(reviews(), 1);
    // Denials are cached too.
    port.api.tokens.lock().insert("good".into(), "alice".into());
    assert_eq!(port.get("/metrics", Some("good")).await.0, UNAUTHORIZED);
    advance(TTL).await;
    assert_eq!(port.get("/metrics", Some("good")).await.0, FORBIDDEN);
    port.api.readers.lock().push("alice".into());
    assert_eq!(port.get("/metrics", Some("good")).await.0, FORBIDDEN);
    assert_eq!(reviews(), 2);
    advance(TTL).await;
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
}

#[tokio::test(start_paused = true)]
async fn a_review_that_fails_is_repeated_and_never_a_permission() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.readers.lock().push("alice".into());
    for code in [429, 500] {
        *port.api.failures.lock() = (4, code);
        assert_eq!(port.get("/metrics", Some("good")).await, secret(), "{code}");
        advance(TTL).await;
    }
    let reviews = || port.api.n_reviews.swap(0, Ordering::Relaxed);
    reviews();
    // Of the token review.
    *port.api.failures.lock() = (5, 500);
    assert_eq!(port.get("/metrics", Some("good")).await.0, UNAUTHORIZED);
    assert_eq!(reviews(), 5);
    // Of the access review, for a client without a token.
    *port.api.failures.lock() = (5, 500);
    let (status, body) = port.get("/metrics", None).await;
    assert_eq!((status.as_u16(), reviews()), (500, 5));
    assert_eq!(body, "Internal Server Error: \"/metrics\": SubjectAccessReview: answered 500\n");
    // An API server without reviews, such as the embedded one.
    *port.api.failures.lock() = (1, 404);
    let (status, body) = port.get("/metrics", None).await;
    assert_eq!((status.as_u16(), reviews()), (500, 1));
    assert!(body.contains("the API server has no SubjectAccessReview (authorization.k8s.io/v1)"), "{body}");
    *port.api.failures.lock() = (1, 403);
    assert!(
        port.get("/metrics", None).await.1.contains("run, as an administrator, `pintle rbac | kubectl apply -f -`")
    );
    // Failures are not cached.
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
}

#[tokio::test(start_paused = true)]
async fn clients_without_credentials_leave_reviews_for_the_others() {
    let port = Arc::new(Port::start(tls_options()).await);
    // The clock advances only when all tasks are idle.
    let busy = tokio::spawn(async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.readers.lock().push("alice".into());
    port.api.is_silent.store(true, Ordering::Relaxed);
    for n_before in 0..4 {
        let other = port.clone();
        tokio::spawn(async move { other.get(&format!("/{n_before}"), None).await });
        while port.api.n_reviews.load(Ordering::Relaxed) == n_before {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(port.get("/4", None).await.0, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(port.api.n_reviews.load(Ordering::Relaxed), 4);
    assert_eq!(port.get("/metrics", Some("good")).await, secret());
    busy.abort();
}

#[tokio::test]
async fn a_client_certificate_is_verified_for_each_request() {
    let (clients, strangers) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    fs::write(&file, &clients.pem).unwrap();
    let authorities = ClientAuthorities { client_ca: Some(file), front_proxy: None };
    let port = Port::start(TlsOptions { clients: authorities, ..tls_options() }).await;
    port.api.readers.lock().push("alice".into());
    port.api.tokens.lock().insert("good".into(), "alice".into());
    let get = async |client: Client, token| port.send(&client, "GET", "/metrics", token).await;
    for http2 in [false, true] {
        assert_eq!(get(Client { http2, ..clients.client("alice") }, None).await, secret());
    }
    assert_eq!(get(clients.client("bob"), None).await.0, FORBIDDEN);
    assert_eq!(get(strangers.client("alice"), None).await.0, UNAUTHORIZED);
    // As upstream: either of the two is enough.
    assert_eq!(get(strangers.client("alice"), Some("good")).await, secret());
    assert_eq!(port.send(&strangers.client("alice"), "GET", "/livez", None).await.0, OK);
    // Proxy headers are ignored here.
    let header = Client { headers: vec![("x-remote-user", "alice")], ..clients.client("bob") };
    assert_eq!(get(header, None).await.0, FORBIDDEN);
}

#[tokio::test]
async fn a_front_proxy_passes_on_users() {
    let (proxies, others) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    fs::write(&file, &proxies.pem).unwrap();
    let proxy = FrontProxy {
        allowed_names: vec!["front".into()],
        username_headers: vec!["x-remote-user".into()],
        ..FrontProxy::default()
    };
    let authorities = ClientAuthorities { client_ca: None, front_proxy: Some((file, proxy)) };
    let port = Port::start(TlsOptions { clients: authorities, ..tls_options() }).await;
    port.api.readers.lock().push("alice".into());
    let get = async |client: Client| {
        let client = Client { headers: vec![("x-remote-user", "alice")], ..client };
        port.send(&client, "GET", "/metrics", None).await
    };
    assert_eq!(get(proxies.client("front")).await, secret());
    assert_eq!(get(proxies.client("other")).await.0, UNAUTHORIZED);
    assert_eq!(get(others.client("front")).await.0, UNAUTHORIZED);
    assert_eq!(get(Client::default()).await.0, FORBIDDEN, "anonymous");
}

#[tokio::test(start_paused = true)]
async fn authorities_are_looked_up_where_the_api_server_publishes_them() {
    let (first, second) = (Authority::new(), Authority::new());
    let port = Port::start(tls_options()).await;
    port.api.readers.lock().push("alice".into());
    let get = async |authority: &Authority| port.send(&authority.client("alice"), "GET", "/metrics", None).await.0;
    port.access.look_up().await.unwrap();
    assert_eq!(get(&first).await, FORBIDDEN, "anonymous: nothing is published");
    *port.api.published.lock() = Some(Err(403));
    assert!(port.access.look_up().await.unwrap_err().contains("answered 403"));
    *port.api.published.lock() = Some(Ok(json!({"client-ca-file": first.pem})));
    let access = port.access.clone();
    let looking = tokio::spawn(async move { access.keep_looking_up().await });
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!((get(&first).await, get(&second).await), (OK, UNAUTHORIZED));
    // Unreadable or invalid configuration changes nothing.
    for published in [Err(500), Ok(json!({"client-ca-file": "garbage"}))] {
        *port.api.published.lock() = Some(published);
        tokio::time::sleep(Duration::from_secs(80)).await;
        assert_eq!((get(&first).await, get(&second).await), (OK, UNAUTHORIZED));
    }
    *port.api.published.lock() = Some(Ok(json!({"client-ca-file": second.pem})));
    tokio::time::sleep(Duration::from_secs(80)).await;
    assert_eq!((get(&first).await, get(&second).await), (UNAUTHORIZED, OK));
    looking.abort();
}

#[tokio::test]
async fn pages_are_for_humans_and_for_programs() {
    let port = Port::start(tls_options()).await;
    port.api.tokens.lock().insert("good".into(), "alice".into());
    port.api.readers.lock().push("alice".into());
    let get = async |path: &str, accept: Option<&'static str>| {
        let client =
            Client { headers: accept.map(|accept| ("accept", accept)).into_iter().collect(), ..Client::default() };
        let (status, body) = port.send(&client, "GET", path, Some("good")).await;
        (status.as_u16(), body)
    };
    assert_eq!(get("/configz", None).await, (200, "{\"example.org\":{\"kind\":\"Test\"}}".into()));
    assert!(get("/flagz", Some("*/*")).await.1.ends_with("purposes only.\nsecure-port=1\n"));
    let object = "{\"kind\":\"Flagz\",\"apiVersion\":\"config.k8s.io/v1beta1\",\"metadata\":{\"name\":\"pintle\"},\"flags\":{\"secure-port\":\"1\"}}";
    let wanted = "application/json;as=Flagz;v=v1beta1;g=config.k8s.io";
    assert_eq!(get("/flagz", Some(wanted)).await, (200, object.to_owned()));
    assert_eq!(get("/flagz", Some("application/json")).await.0, 406);
    let status = get("/statusz", None).await.1;
    let end = "Binary version: 1.2.3\nEmulation version: 1.37\nPaths: /configz /debug /flagz /healthz /livez /metrics /readyz\n";
    assert!(status.ends_with(end), "{status}");
    let yaml = get("/statusz", Some("application/yaml;as=Statusz;v=v1beta1;g=config.k8s.io")).await;
    assert!(yaml.0 == 200 && yaml.1.contains("binaryVersion: 1.2.3\n"), "{yaml:?}");
    let page = get("/debug/pintle/", None).await;
    assert!(page.0 == 200 && page.1.starts_with("<!doctype html>"), "{page:?}");
    assert_eq!(get("/debug/pintle/overview", None).await, (200, "{\"plugins\":[{\"name\":\"widgets\"}]}".into()));
    assert_eq!(get("/debug/pintle/overview/widgets", None).await.0, 200);
    for path in ["/debug/pintle", "/debug/pintle/", "/debug/pintle/page.js", "/debug/pintle/overview"] {
        assert_eq!(port.get(path, None).await.0, FORBIDDEN, "{path}");
    }
    assert_eq!(get("/debug/pintle", None).await.0, 308);
    for path in ["/debug/pintle/overview/others", "/debug/pintle/others", "/debug/pintle/overview/", "/debug/pintlex"] {
        assert_eq!(get(path, None).await.0, 404, "{path}");
    }
    assert_eq!(get("/debug/controllers/widgets", None).await, (200, "{\"name\":\"widgets\"}".into()));
    for path in ["/debug/controllers/others", "/debug/controllers/", "/debug/pprof/heap", "/healthz/none", "/healthzz"]
    {
        assert_eq!(get(path, None).await.0, 404, "{path}");
    }
}
