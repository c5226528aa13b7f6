//! Requests of certificates: who approves them, who signs them, and what the certificates are.

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::{Group, delete};
use crate::api::PatchKind;
use crate::objects::certificate_request;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[
    (
        &["certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller"],
        &[APPROVALS, CERTIFICATES],
    ),
    (
        &[
            "certificatesigningrequest-cleaner-controller",
            "podcertificaterequest-cleaner-controller",
            "legacy-serviceaccount-token-cleaner-controller",
        ],
        &[KEPT],
    ),
];

const APPROVALS: &[Scenario] = &[
    Scenario::new("the request of a kubelet for a certificate of a client is approved and signed", |s| {
        Box::pin(approved(s))
    })
    .only_real(NO_KEYS),
    Scenario::new("the request of a kubelet waits until its user may have the certificate", |s| Box::pin(permitted(s)))
        .only_real(NO_KEYS),
    Scenario::new("a request that is not one of a kubelet for a certificate of a client waits", |s| {
        Box::pin(not_recognized(s))
    })
    .only_real(NO_KEYS),
    Scenario::new("the request of a kubelet that is denied stays denied", |s| Box::pin(denied(s))).only_real(NO_KEYS),
];

const CERTIFICATES: &[Scenario] = &[
    Scenario::new("an approved request is signed by the authority of the cluster", |s| Box::pin(signed(s)))
        .only_real(NO_KEYS),
    Scenario::new("a certificate is valid for as long as its request asks for", |s| Box::pin(durations(s)))
        .only_real(NO_KEYS),
    Scenario::new("an approved request that its signer does not sign has failed", |s| Box::pin(failed(s)))
        .only_real(NO_KEYS),
    Scenario::new("a request of another signer is not signed", |s| Box::pin(of_another_signer(s))).only_real(NO_KEYS),
];

/// What the controllers delete is an hour old at least, and they look once an hour or a day.
const KEPT: &[Scenario] =
    &[Scenario::new("a request of a certificate that was just denied stays", |s| Box::pin(kept(s)))];

const NO_KEYS: &str = "the embedded cluster has no authority that signs, and permits everything";

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

const OF_CLIENTS: &[&str] = &["digital signature", "client auth"];
const OF_SERVERS: &[&str] = &["digital signature", "key encipherment", "server auth"];

/// A request, with what users write into it.
struct Request<'a> {
    name: &'a str,
    signer: &'a str,
    usages: &'a [&'a str],
    common_name: &'a str,
    organization: &'a str,
    /// DNS names and addresses.
    names: &'a [&'a str],
    seconds: u32,
}

impl Request<'_> {
    /// One of a kubelet for a certificate of a client.
    fn kubelet(name: &str) -> Request<'_> {
        Request {
            name,
            signer: KUBELET_CLIENT,
            usages: OF_CLIENTS,
            common_name: "system:node:scenario",
            organization: "system:nodes",
            names: &[],
            seconds: 3600,
        }
    }

    fn serving(name: &str) -> Request<'_> {
        let names = &["node.example.com", "192.0.2.1"];
        Request { signer: KUBELET_SERVING, usages: OF_SERVERS, names, ..Request::kubelet(name) }
    }

    fn client(name: &str) -> Request<'_> {
        Request { signer: CLIENT, common_name: "ann", organization: "team", ..Request::kubelet(name) }
    }

    fn object(&self, s: &Stage) -> Result<Value> {
        let request = certificate_request(self.common_name, self.organization, self.names)?;
        Ok(json!({"metadata": {"name": format!("{}-{}", s.ns, self.name)}, "spec": {
            "request": request, "signerName": self.signer, "usages": self.usages,
            "expirationSeconds": self.seconds,
        }}))
    }

    /// Creates it, and returns its path.
    async fn create(&self, s: &Stage) -> Result<String> {
        s.client.create(REQUESTS, &self.object(s)?).await.context(self.name.to_owned())?;
        Ok(format!("{REQUESTS}/{}-{}", s.ns, self.name))
    }

    /// Creates it as another user, who is a Node, and returns its path.
    async fn create_as(&self, s: &Stage, user: &str) -> Result<String> {
        let headers = [("impersonate-user", user), ("impersonate-group", "system:nodes")];
        let body = serde_json::to_vec(&self.object(s)?)?;
        s.client.request("POST", REQUESTS, &headers, Some(body)).await?.object()?;
        Ok(format!("{REQUESTS}/{}-{}", s.ns, self.name))
    }
}

/// Decides about a request.
async fn decide(s: &Stage, path: &str, decision: &str) -> Result<()> {
    let condition = json!({"type": decision, "status": "True", "reason": "Scenario", "message": "by a scenario"});
    let patch = json!({"status": {"conditions": [condition]}});
    s.client.patch(&format!("{path}/approval"), PatchKind::Merge, &patch).await.map(drop)
}

async fn until(s: &Stage, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    eventually(PATIENCE, format!("{path} to be {what}"), async || {
        let request = s.client.get(path).await?;
        ensure!(is_so(&request), "it has {}", request["status"]["conditions"]);
        Ok(Some(request))
    })
    .await
}

async fn until_signed(s: &Stage, path: &str) -> Result<Value> {
    until(s, path, "signed", |request| request["status"]["certificate"].is_string()).await
}

/// A request comes and is signed, so that the controllers have looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    let marker = Request::kubelet("marker").create(s).await?;
    until_signed(s, &marker).await?;
    delete(s, &marker).await
}

fn conditions(request: &Value) -> Value {
    let conditions = request["status"]["conditions"].as_array().into_iter().flatten();
    conditions.map(|of| json!([of["type"], of["status"], of["reason"], of["message"]])).collect()
}

/// What a certificate says, but for its time, number and key.
fn certificate(request: &Value) -> Result<Value> {
    let text = request["status"]["certificate"].as_str().context("there is no certificate")?;
    let pem = BASE64_STANDARD.decode(text)?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).map_err(|why| anyhow!("{why}"))?;
    let certificate = block.parse_x509().map_err(|why| anyhow!("{why}"))?;
    let (usages, names) = (certificate.extended_key_usage()?, certificate.subject_alternative_name()?);
    let names: Vec<String> = names.iter().flat_map(|of| &of.value.general_names).map(ToString::to_string).collect();
    let extensions = certificate.extensions().iter().map(|of| json!([of.oid.to_id_string(), of.critical]));
    let validity = certificate.validity();
    Ok(json!({
        "subject": certificate.subject().to_string(), "issuer": certificate.issuer().to_string(),
        "seconds": validity.not_after.timestamp() - validity.not_before.timestamp(),
        "key usages": certificate.key_usage()?.map(|of| of.value.to_string()),
        "extended": usages.map(|of| format!("{:?}", of.value)), "names": names,
        "extensions": extensions.collect::<Value>(), "signed with": certificate.signature_algorithm.algorithm.to_id_string(),
        "is an authority": certificate.is_ca(),
    }))
}

async fn observe(s: &Stage, when: &str, path: &str) -> Result<()> {
    let request = s.client.get(path).await?;
    let certificate = match request["status"]["certificate"].is_string() {
        true => certificate(&request)?,
        false => Value::Null,
    };
    s.observe(when, &json!({"conditions": conditions(&request), "certificate": certificate}));
    Ok(())
}

async fn clean_up(s: &Stage, paths: &[String]) -> Result<()> {
    for path in paths {
        delete(s, path).await?;
    }
    Ok(())
}

async fn approved(s: &Stage) -> Result<()> {
    let usages = &["key encipherment", "digital signature", "client auth"];
    let paths = [
        Request::kubelet("one").create(s).await?,
        Request { usages, ..Request::kubelet("with-key-encipherment") }.create(s).await?,
    ];
    for (path, when) in paths.iter().zip(["signed", "signed with key encipherment"]) {
        until_signed(s, path).await?;
        observe(s, when, path).await?;
    }
    clean_up(s, &paths).await
}

async fn bind(s: &Stage, name: &str, role: &str, user: &str) -> Result<String> {
    let name = format!("{}-{name}", s.ns);
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    s.client.create(BINDINGS, &binding).await?;
    Ok(format!("{BINDINGS}/{name}"))
}

async fn permitted(s: &Stage) -> Result<()> {
    let user = format!("system:node:{}", s.ns);
    let may_ask = bind(s, "may-ask", "system:node-bootstrapper", &user).await?;
    let own = Request { common_name: &user, ..Request::kubelet("own") };
    // RBAC is not seen at once.
    let path = eventually(PATIENCE, "the user to be permitted to ask", async || Ok(own.create_as(s, &user).await.ok()))
        .await?;
    look(s).await?;
    observe(s, "without permission", &path).await?;
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    let may_have = bind(s, "may-have", role, &user).await?;
    let annotated = json!({"metadata": {"annotations": {"example.com/look": "again"}}});
    s.client.patch(&path, PatchKind::Merge, &annotated).await?;
    until_signed(s, &path).await?;
    observe(s, "with permission", &path).await?;
    clean_up(s, &[path, may_ask, may_have]).await
}

async fn not_recognized(s: &Stage) -> Result<()> {
    let names = &["node.example.com"];
    let requests = [
        Request { common_name: "scenario", ..Request::kubelet("name") },
        Request { organization: "system:node", ..Request::kubelet("organization") },
        Request { usages: &["client auth"], ..Request::kubelet("usages") },
        Request { names, ..Request::kubelet("names") },
        Request::serving("serving"),
        Request { names, ..Request::client("client") },
    ];
    let mut paths = Vec::new();
    for request in &requests {
        paths.push(request.create(s).await?);
    }
    look(s).await?;
    for (request, path) in requests.iter().zip(&paths) {
        observe(s, request.name, path).await?;
    }
    clean_up(s, &paths).await
}

async fn denied(s: &Stage) -> Result<()> {
    let user = format!("system:node:{}", s.ns);
    let may_ask = bind(s, "may-ask", "system:node-bootstrapper", &user).await?;
    let own = Request { common_name: &user, ..Request::kubelet("own") };
    let path = eventually(PATIENCE, "the user to be permitted to ask", async || Ok(own.create_as(s, &user).await.ok()))
        .await?;
    decide(s, &path, "Denied").await?;
    let role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    let may_have = bind(s, "may-have", role, &user).await?;
    look(s).await?;
    observe(s, "denied", &path).await?;
    clean_up(s, &[path, may_ask, may_have]).await
}

async fn signed(s: &Stage) -> Result<()> {
    let names = &["a.example.com", "*.b.example.com", "192.0.2.1", "2001:db8::1"];
    let requests = [
        Request::serving("serving"),
        Request {
            usages: &["digital signature", "server auth"],
            ..Request::serving("serving-without-key-encipherment")
        },
        Request { names, ..Request::client("client") },
    ];
    let mut paths = Vec::new();
    for request in &requests {
        paths.push(request.create(s).await?);
    }
    look(s).await?;
    for path in &paths {
        let request = s.client.get(path).await?;
        ensure!(request["status"]["certificate"].is_null(), "{path} is signed without approval");
        decide(s, path, "Approved").await?;
    }
    for (request, path) in requests.iter().zip(&paths) {
        until_signed(s, path).await?;
        observe(s, request.name, path).await?;
    }
    clean_up(s, &paths).await
}

async fn durations(s: &Stage) -> Result<()> {
    // Below eight hours, the end is not moved with the beginning.
    for (name, seconds) in [("shortest", 600), ("short", 28_799), ("long", 28_800), ("a-day", 86_400)] {
        let path = Request { seconds, ..Request::client(name) }.create(s).await?;
        decide(s, &path, "Approved").await?;
        until_signed(s, &path).await?;
        observe(s, name, &path).await?;
        delete(s, &path).await?;
    }
    Ok(())
}

async fn failed(s: &Stage) -> Result<()> {
    let names = &["node.example.com"];
    let requests = [
        Request { names: &[], ..Request::serving("no-names") },
        Request { usages: OF_CLIENTS, ..Request::serving("serving-usages") },
        Request { common_name: "scenario", ..Request::serving("name") },
        Request { organization: "system:node", ..Request::serving("organization") },
        Request { names, ..Request::kubelet("names") },
        Request { usages: &["digital signature", "server auth", "client auth"], ..Request::client("client-usages") },
        Request { usages: &["digital signature"], ..Request::client("no-client-usage") },
    ];
    let mut paths = Vec::new();
    for request in &requests {
        let path = request.create(s).await?;
        decide(s, &path, "Approved").await?;
        paths.push(path);
    }
    for (request, path) in requests.iter().zip(&paths) {
        until(s, path, "failed", |request| conditions(request)[1][0] == "Failed").await?;
        observe(s, request.name, path).await?;
    }
    clean_up(s, &paths).await
}

async fn of_another_signer(s: &Stage) -> Result<()> {
    let requests = [
        Request { signer: "example.com/signer", ..Request::client("another") },
        Request { signer: "kubernetes.io/other", ..Request::client("unknown") },
    ];
    let mut paths = Vec::new();
    for request in &requests {
        let path = request.create(s).await?;
        decide(s, &path, "Approved").await?;
        paths.push(path);
    }
    look(s).await?;
    for (request, path) in requests.iter().zip(&paths) {
        observe(s, request.name, path).await?;
    }
    clean_up(s, &paths).await
}

async fn kept(s: &Stage) -> Result<()> {
    let path = Request { signer: "example.com/signer", ..Request::client("denied") }.create(s).await?;
    decide(s, &path, "Denied").await?;
    observe(s, "denied", &path).await?;
    delete(s, &path).await
}
