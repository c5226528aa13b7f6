//! The HTTPS port of a host: on the real control plane, which decides who may read what, and on the embedded one, which permits
//! everything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::audited::{ACCOUNTS, Audited, items, rbac};
use pintle_tests::{ApiClient, ControlPlane, HostProcess, PATIENCE, eventually};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A host's HTTPS port.
pub(super) struct Port {
    url: String,
    port: u16,
    certificate: PathBuf,
    key: PathBuf,
    flags: Vec<String>,
    /// Keeps the port from other programs; the host shares it.
    _held: TcpSocket,
}

impl Port {
    pub(super) fn new(folder: &Path) -> Result<Port> {
        let held = TcpSocket::new_v4()?;
        held.set_reuseaddr(true)?;
        held.set_reuseport(true)?;
        held.bind("127.0.0.1:0".parse()?)?;
        let port = held.local_addr()?.port();
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let flags = vec![
            HostProcess::controllers(&["replicaset"]),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            "--permit-port-sharing".to_owned(),
            format!("--tls-cert-file={}", certificate.display()),
            format!("--tls-private-key-file={}", key.display()),
        ];
        Ok(Port { url: format!("https://127.0.0.1:{port}"), port, certificate, key, flags, _held: held })
    }

    /// The flag for it.
    pub(super) fn secure_port(&self) -> String {
        format!("--secure-port={}", self.port)
    }

    /// Replaces the certificate; returns it.
    pub(super) fn renew(&self) -> Result<String> {
        let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        let pem = issued.cert.pem();
        fs::write(&self.key, issued.signing_key.serialize_pem())?;
        fs::write(&self.certificate, &pem)?;
        Ok(pem)
    }

    pub(super) fn client(&self, token: Option<&str>, authority: &str) -> ApiClient {
        ApiClient::new(&self.url, token, Some(authority))
    }
}

pub(super) async fn get(client: &ApiClient, path: &str) -> Result<(u16, String)> {
    let answer = client.request("GET", path, &[("accept", "*/*")], None).await?;
    Ok((answer.status, answer.text()))
}

async fn becomes(client: &ApiClient, path: &str, status: u16) -> Result<()> {
    eventually(PATIENCE, format!("{path} to answer {status}"), async || {
        let answer = get(client, path).await?;
        ensure!(answer.0 == status, "{answer:?}");
        Ok(Some(()))
    })
    .await
}

async fn token(admin: &ApiClient, account: &str) -> Result<String> {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600},
    });
    let answer = admin.create(&format!("{ACCOUNTS}/{account}/token"), &request).await?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

/// A kubeconfig for the port with a certificate that the cluster's authority has signed.
fn signed_by_the_cluster(plane: &ControlPlane, port: &Port, authority: &str, name: &str) -> Result<String> {
    let key = KeyPair::from_pem(&fs::read_to_string(plane.folder().join("pki/ca.key"))?)?;
    let mut params = CertificateParams::new(Vec::new())?;
    // The subject of the authority's certificate.
    params.distinguished_name.push(DnType::CommonName, "test-ca");
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {
            "server": port.url, "certificate-authority-data": encode(authority),
        }}],
        "users": [{"name": "u", "user": {
            "client-certificate-data": encode(&certificate.pem()), "client-key-data": encode(&key.serialize_pem()),
        }}],
    });
    Ok(config.to_string())
}

fn binding(subjects: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "scrapers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrapers"},
        "subjects": subjects,
    })
}

/// The host has the roles that `pintle rbac` prints, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_decides_who_may_read_the_metrics() -> Result<()> {
    let cluster = Audited::start().await?;
    let admin = &cluster.client;
    cluster.create("host.json", &items(&rbac(&["--controllers=replicaset", "-o", "json"])?)?).await?;
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "kube-system"}});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "scrapers"},
        "rules": [{"nonResourceURLs": ["/metrics", "/metrics/slis", "/debug/pintle/*"], "verbs": ["get"]}],
    });
    let scraper = json!({"kind": "ServiceAccount", "name": "scraper", "namespace": "kube-system"});
    let person = json!({"kind": "User", "name": "person", "apiGroup": "rbac.authorization.k8s.io"});
    let bound = binding(&json!([scraper, person]));
    cluster.create("scrapers.json", &[account("scraper"), account("other"), role, bound]).await?;
    let port = Port::new(cluster.folder())?;
    let authority = port.renew()?;
    let (host, _) = cluster.host(&port.flags).await?;

    let anonymous = port.client(None, &authority);
    for path in ["/healthz", "/livez", "/readyz"] {
        ensure!(get(&anonymous, path).await? == (200, "ok".to_owned()), "{path}");
    }
    let (_, verbose) = get(&anonymous, "/healthz?verbose").await?;
    ensure!(verbose.contains("[+]replicaset-controller ok\n"), "{verbose}");
    let forbidden = "forbidden: User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\"";
    let answer = get(&anonymous, "/metrics").await?;
    ensure!(answer.0 == 403 && answer.1.contains(forbidden), "{answer:?}");
    ensure!(get(&anonymous, "/healthz/replicaset-controller").await?.0 == 403);
    let page = ["/debug/pintle/", "/debug/pintle/page.js", "/debug/pintle/overview"];
    for path in page {
        ensure!(get(&anonymous, path).await?.0 == 403, "{path}");
    }
    let unknown = get(&port.client(Some("unknown"), &authority), "/metrics").await?;
    ensure!(unknown.0 == 401 && unknown.1.contains("\"reason\":\"Unauthorized\""), "{unknown:?}");

    let scraper = port.client(Some(&token(admin, "scraper").await?), &authority);
    let (status, metrics) = get(&scraper, "/metrics").await?;
    ensure!(status == 200 && metrics.contains("workqueue_depth{name=\"replicaset\"}"), "{status} {metrics}");
    let (status, slis) = get(&scraper, "/metrics/slis").await?;
    let line = "kubernetes_healthcheck{name=\"replicaset-controller\",type=\"healthz\"} 1\n";
    ensure!(status == 200 && slis.contains(line), "{status} {slis}");
    ensure!(get(&scraper, "/healthz/replicaset-controller").await?.0 == 403, "it may read two paths");
    let other = port.client(Some(&token(admin, "other").await?), &authority);
    ensure!(get(&other, "/metrics").await?.0 == 403);
    for path in page {
        ensure!(get(&scraper, path).await?.0 == 200 && get(&other, path).await?.0 == 403, "{path}");
    }

    // Nobody has named the authority: the API server publishes it.
    let file = async |name: &str| -> Result<ApiClient> {
        let kubeconfig = signed_by_the_cluster(&cluster.plane, &port, &authority, name)?;
        ApiClient::from_kubeconfig(&cluster.write(&format!("{name}.kubeconfig"), &kubeconfig)?).await
    };
    ensure!(get(&file("person").await?, "/metrics").await?.0 == 200);
    ensure!(get(&file("stranger").await?, "/metrics").await?.0 == 403);

    // What is taken away has an effect once the answers are forgotten.
    admin.delete(&format!("{BINDINGS}/scrapers"), None).await?;
    becomes(&scraper, "/metrics", 403).await?;
    admin.delete(&format!("{ACCOUNTS}/scraper"), None).await?;
    becomes(&scraper, "/metrics", 401).await?;

    let renewed = port.renew()?;
    becomes(&port.client(None, &renewed), "/livez", 200).await?;
    ensure!(get(&port.client(None, &authority), "/livez").await.is_err(), "the last certificate is still in use");

    let log = cluster.plane.audit_log()?;
    let account = "system:serviceaccount:kube-system:pintle";
    for (verb, resource) in [("create", "tokenreviews"), ("create", "subjectaccessreviews"), ("get", "configmaps")] {
        let mut asked = log.iter().filter(|entry| {
            entry.user.username == account && entry.verb == verb && entry.object_ref.resource == resource
        });
        ensure!(asked.clone().next().is_some(), "nobody asked to {verb} {resource}");
        ensure!(asked.all(|entry| entry.response_status.code != 403), "refused: {verb} {resource}");
    }
    host.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_may_not_read_the_authorities_of_clients_says_what_to_do() -> Result<()> {
    let cluster = Audited::start().await?;
    cluster.create("host.json", &items(&rbac(&["--controllers=replicaset", "-o", "json"])?)?).await?;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings";
    cluster.client.delete(&format!("{roles}/pintle:host:kube-system:pintle"), None).await?;
    let port = Port::new(cluster.folder())?;
    port.renew()?;
    let mut flags = port.flags.clone();
    let Err(why) = cluster.host(&flags).await else { anyhow::bail!("the host has started") };
    let why = format!("{why:#}");
    for words in ["extension-apiserver-authentication", "forbidden", "`pintle rbac ", "--authentication-skip-lookup"] {
        ensure!(why.contains(words), "{words} is not in {why}");
    }
    flags.push("--authentication-tolerate-lookup-failure".to_owned());
    let (host, _) = cluster.host(&flags).await?;
    ensure!(host.log_tail().contains("clients of the HTTPS port need tokens"), "{}", host.log_tail());
    host.stop().await;
    Ok(())
}

/// It has one user, and permits everything to everybody.
#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_served_and_plain_http_has_probes_and_metrics_alone() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let folder = tempfile::tempdir()?;
    let port = Port::new(folder.path())?;
    let authority = port.renew()?;
    let flags = [&port.flags[..], &["--emulated-version=kube=1.36".to_owned()]].concat();
    let mut host = HostProcess::start(&cluster.kubeconfig(), &flags)?;
    let plain = host.ready().await?;
    let secure = port.client(None, &authority);
    ensure!(get(&secure, "/readyz").await? == (200, "ok".to_owned()));
    ensure!(get(&secure, "/metrics").await?.0 == 200);
    let page = async |path: &str| -> Result<String> {
        let (status, text) = get(&secure, path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
        Ok(text)
    };
    let flags = page("/flagz").await?;
    ensure!(flags.contains("\nbind-address=127.0.0.1\n") && flags.contains("\nkube-api-burst=30\n"), "{flags}");
    let status = page("/statusz").await?;
    ensure!(status.contains("\nEmulation version: 1.36\nPaths: /configz /debug"), "{status}");
    let config: Value = serde_json::from_str(&page("/configz").await?)?;
    let plugins = &config["plugins.pintle.dev"]["plugins"];
    ensure!(plugins[0]["queues"] == json!([{"name": "replicaset", "workers": 5}]), "{config}");
    let queues: Value = serde_json::from_str(&page("/debug/controllers/replicaset-controller").await?)?;
    let empty = json!({
        "name": "replicaset", "ready": 0, "delayed": 0, "running": 0, "held": 0, "workers": 5, "keys": [],
    });
    ensure!(queues["queues"] == json!([empty]), "{queues}");
    // Only the first ones are open without a permission, wherever the permission comes from.
    ensure!(get(&plain, "/metrics").await?.0 == 200 && get(&plain, "/metrics/slis").await?.0 == 200);
    for path in ["/configz", "/flagz", "/statusz", "/debug/controllers/replicaset-controller", "/debug/pintle/"] {
        ensure!(get(&plain, path).await?.0 == 404, "{path}");
    }
    host.stop().await;
    cluster.shutdown().await;
    Ok(())
}
