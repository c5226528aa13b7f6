//! Connections in real setups: proxies, rotating certificates and tokens, programs that provide credentials, several
//! kubeconfigs, and silently dead peers.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod server;

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use pintle_core::ports::api::{
    ApiErrorClass, ApiReader as _, Detail, ListWatchTarget, READ_TIMEOUT, WatchFrame, WatchStart, WatchStream, at_most,
};
use pintle_kube::{ConnectError, Connection, Limits};
use serde_json::{Value, json};

use pintle_testing::Gate;

use crate::server::{Authority, Files, Server, open, open_with, proxy};

struct Fixture {
    authority: Authority,
    clients: Authority,
    server: Server,
    files: Files,
}

impl Fixture {
    async fn start() -> Self {
        let (authority, clients) = (Authority::new("servers"), Authority::new("clients"));
        let server = Server::start(&authority, &clients).await;
        let files = Files::new();
        files.write("ca", &authority.pem());
        Self { authority, clients, server, files }
    }

    /// Writes a kubeconfig of the server.
    fn kubeconfig(&self, more: Value, user: Value) -> PathBuf {
        let mut cluster = json!({"server": self.server.url(), "certificate-authority": "ca"});
        cluster.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.files.kubeconfig(cluster, user)
    }

    /// Opens a connection through a gate, with default times. Files are not reloaded, because that takes real time.
    async fn through(&self, gate: &Gate) -> Connection {
        let path = self.kubeconfig(json!({"server": format!("https://{}", gate.address())}), json!({"token": "t"}));
        let limits = Limits {
            connect_timeout: Duration::from_secs(600),
            reload_interval: Duration::from_secs(86_400),
            ..Limits::default()
        };
        open_with(&path, limits).await
    }

    /// Writes a program that prints credentials: `body` is a shell script.
    fn program(&self, body: &str) -> Value {
        let path = self.files.write("program", &format!("cd {}\n{body}\n", self.files.0.path().display()));
        let api_version = "client.authentication.k8s.io/v1";
        json!({"exec": {"apiVersion": api_version, "command": "/bin/sh", "args": [path], "interactiveMode": "Never"}})
    }
}

/// Sends any read.
async fn read(connection: &Connection) -> Result<(), (ApiErrorClass, String)> {
    connection.raw("/api", &at_most(1 << 20)).await.map(drop).map_err(|error| (error.class, error.message))
}

async fn watch(connection: &Connection) -> WatchStream {
    let target = ListWatchTarget {
        kind: "v1/Pod".parse().unwrap(),
        plural: "pods".into(),
        namespace: None,
        label_selector: None,
        field_selector: None,
        detail: Detail::Full,
    };
    let mut stream = connection.watch(&target, WatchStart::After("1".into())).await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(WatchFrame::Bookmark { .. }))));
    stream
}

/// Advances the clock immediately.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_peer_that_is_silent_behind_a_load_balancer_is_noticed_by_watches_and_requests() {
    const STEP: Duration = Duration::from_secs(1);
    let fixture = Fixture::start().await;
    let gate = Gate::start(fixture.server.address).await;
    let connection = fixture.through(&gate).await;
    let mut stream = watch(&connection).await;
    gate.go_silent();
    let mut passed = Duration::ZERO;
    let mut both = std::pin::pin!(async { tokio::join!(stream.next(), read(&connection)) });
    let (ended, request) = loop {
        tokio::select! {
            biased;
            both = &mut both => break both,
            () = pass(STEP) => passed += STEP,
        }
        assert!(passed < READ_TIMEOUT, "the dead connection is not noticed");
    };
    assert!(ended.unwrap().is_err());
    assert_eq!(request.unwrap_err().0, ApiErrorClass::Transport);
    // The next request goes to a new connection.
    read(&connection).await.unwrap();
    assert_eq!(gate.n_connections(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_is_answered_stays_open() {
    let fixture = Fixture::start().await;
    let gate = Gate::start(fixture.server.address).await;
    let connection = fixture.through(&gate).await;
    let mut stream = watch(&connection).await;
    let limits = Limits::default();
    for _ in 0..3 {
        // A ping is sent. Its answer arrives before that of the second request.
        pass(limits.ping_interval).await;
        read(&connection).await.unwrap();
        read(&connection).await.unwrap();
        pass(limits.ping_timeout).await;
    }
    read(&connection).await.unwrap();
    assert!(futures::poll!(stream.next()).is_pending());
    assert_eq!(gate.n_connections(), 1);
    assert_eq!(fixture.server.last().version, "HTTP/2.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_share_connections_and_none_carries_more_than_api_servers_allow() {
    let fixture = Fixture::start().await;
    let connection = open(&fixture.kubeconfig(json!({}), json!({"token": "t"}))).await;
    read(&connection).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..150 {
        streams.push(watch(&connection).await);
    }
    let seen = fixture.server.seen.lock().unwrap().clone();
    let n_of = |connection| seen.iter().filter(|one| one.connection == connection && one.path.contains("pods")).count();
    let connections: std::collections::BTreeSet<usize> = seen.iter().map(|one| one.connection).collect();
    let counts: Vec<usize> = connections.into_iter().map(n_of).collect();
    assert_eq!(counts, [64, 64, 22]);
    // Ended watches free their streams.
    drop(streams);
    let _again = watch(&connection).await;
    assert_eq!(fixture.server.last().connection, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_proxies_are_used_with_their_credentials() {
    let fixture = Fixture::start().await;
    let (address, log) = proxy(false).await;
    for (url, credentials) in [(format!("http://{address}"), ""), (format!("http://u:p%40ss@{address}"), "u:p@ss")] {
        let connection = open(&fixture.kubeconfig(json!({"proxy-url": url}), json!({"token": "t"}))).await;
        read(&connection).await.unwrap();
        let lines = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(lines, [format!("{} {credentials}", fixture.server.address)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn socks_proxies_are_used_with_their_credentials() {
    let fixture = Fixture::start().await;
    let (address, log) = proxy(true).await;
    for (url, credentials) in [(format!("socks5://{address}"), ""), (format!("socks5://u:p%40ss@{address}"), "u:p@ss")]
    {
        let connection = open(&fixture.kubeconfig(json!({"proxy-url": url}), json!({"token": "t"}))).await;
        read(&connection).await.unwrap();
        let lines = std::mem::take(&mut *log.lock().unwrap());
        assert_eq!(lines, [format!("{} {credentials}", fixture.server.address)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_is_away_is_reported() {
    let fixture = Fixture::start().await;
    let connection = open(&fixture.kubeconfig(json!({"proxy-url": "http://127.0.0.1:1"}), json!({"token": "t"}))).await;
    let (class, message) = read(&connection).await.unwrap_err();
    assert!(class == ApiErrorClass::Transport && message.contains("refused"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificates_are_read_again_when_their_files_change() {
    let fixture = Fixture::start().await;
    let give = |name: &str| {
        let (certificate, key) = fixture.clients.issue(name);
        fixture.files.write("key", &key);
        fixture.files.write("certificate", &certificate);
        certificate.lines().filter(|line| !line.starts_with('-')).collect::<String>()
    };
    let first = give("first");
    let user = json!({"client-certificate": "certificate", "client-key": "key"});
    let connection = open(&fixture.kubeconfig(json!({}), user)).await;
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.last().certificate, first);
    let mut open_watch = watch(&connection).await;
    let second = give("second");
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.last().certificate, second);
    assert!(futures::poll!(open_watch.next()).is_pending(), "open watches continue");
    // If the files do not match each other, the last credentials stay in use.
    fixture.files.write("key", "no key");
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.last().certificate, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_certificate_authority_is_trusted_without_a_restart() {
    let fixture = Fixture::start().await;
    let connection = open(&fixture.kubeconfig(json!({}), json!({"token": "t"}))).await;
    read(&connection).await.unwrap();
    let next = Authority::new("servers, next year");
    fixture.server.rotate(&next, &fixture.clients);
    fixture.files.write("ca", &next.pem());
    read(&connection).await.unwrap();
    // The old authority is no longer trusted.
    fixture.server.rotate(&fixture.authority, &fixture.clients);
    fixture.files.write("ca", &Authority::new("another").pem());
    let (_, message) = read(&connection).await.unwrap_err();
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_token_is_read_again_from_its_file_at_once() {
    let fixture = Fixture::start().await;
    fixture.files.write("token", "one");
    let connection = open(&fixture.kubeconfig(json!({}), json!({"tokenFile": "token"}))).await;
    read(&connection).await.unwrap();
    *fixture.server.tokens.lock().unwrap() = vec!["two".into()];
    let (class, _) = read(&connection).await.unwrap_err();
    assert_eq!(class, ApiErrorClass::Unauthorized);
    fixture.files.write("token", "two");
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.tokens_seen(), ["one", "one", "one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_with_another_token_is_used_and_one_of_another_server_is_not() {
    let fixture = Fixture::start().await;
    let connection = open(&fixture.kubeconfig(json!({}), json!({"token": "one"}))).await;
    read(&connection).await.unwrap();
    fixture.kubeconfig(json!({}), json!({"token": "two"}));
    read(&connection).await.unwrap();
    fixture.kubeconfig(json!({"server": "https://127.0.0.1:1"}), json!({"token": "three"}));
    read(&connection).await.unwrap();
    fixture.files.write("kubeconfig", "not: [a kubeconfig");
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.tokens_seen(), ["one", "two", "two", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_provides_a_token_until_it_expires() {
    let fixture = Fixture::start().await;
    let user = fixture.program(
        r#"n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%s","expirationTimestamp":"%s"}}' $n "$(cat expiry)""#,
    );
    fixture.files.write("expiry", "2100-01-01T00:00:00Z");
    let connection = open(&fixture.kubeconfig(json!({}), user.clone())).await;
    read(&connection).await.unwrap();
    read(&connection).await.unwrap();
    let tokens = fixture.server.tokens_seen();
    assert_eq!(tokens[0], tokens[1], "it is valid for long");
    fixture.files.write("expiry", "2020-01-01T00:00:00Z");
    let connection = open(&fixture.kubeconfig(json!({}), user)).await;
    read(&connection).await.unwrap();
    read(&connection).await.unwrap();
    let tokens = fixture.server.tokens_seen();
    assert_ne!(tokens[2], tokens[3], "an expired token is replaced before it is used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_runs_again_when_its_token_is_rejected() {
    let fixture = Fixture::start().await;
    fixture.files.write("credential", r#"{"token":"one"}"#);
    let user = fixture.program(
        r#"printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":%s}' "$(cat credential)""#,
    );
    let connection = open(&fixture.kubeconfig(json!({}), user)).await;
    read(&connection).await.unwrap();
    *fixture.server.tokens.lock().unwrap() = vec!["two".into()];
    fixture.files.write("credential", r#"{"token":"two"}"#);
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.tokens_seen(), ["one", "one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_may_provide_a_certificate() {
    let fixture = Fixture::start().await;
    let (certificate, key) = fixture.clients.issue("program");
    let status = json!({"clientCertificateData": certificate, "clientKeyData": key});
    let credential =
        json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status});
    fixture.files.write("credential", &credential.to_string());
    let user = fixture.program("cat credential");
    let connection = open(&fixture.kubeconfig(json!({}), user)).await;
    read(&connection).await.unwrap();
    let expected: String = certificate.lines().filter(|line| !line.starts_with('-')).collect();
    assert_eq!(fixture.server.last().certificate, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_fails_is_reported() {
    let fixture = Fixture::start().await;
    let user = fixture.program("echo no credentials today >&2; exit 3");
    let path = fixture.kubeconfig(json!({}), user);
    let source = pintle_kube::Source::File { path, context: None };
    let error = Connection::open(&source).await.err().unwrap();
    assert!(matches!(error, ConnectError::Client { .. }) && error.to_string().contains("program"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_kubeconfigs_are_one() {
    let fixture = Fixture::start().await;
    let whole = fixture.kubeconfig(json!({}), json!({"token": "second"}));
    let second = whole.with_file_name("second");
    std::fs::rename(&whole, &second).unwrap();
    // The first file overrides the user of the second one.
    let user = json!({"users": [{"name": "u", "user": {"token": "first"}}]});
    let first = fixture.files.write("first", &user.to_string());
    let list = std::env::join_paths([&first, &fixture.files.path("missing"), &second]).unwrap();
    let connection = open(&PathBuf::from(list)).await;
    read(&connection).await.unwrap();
    assert_eq!(fixture.server.tokens_seen(), ["first"]);
}
