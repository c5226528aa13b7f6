//! Bootstrap tokens: those that expire, and those that sign `cluster-info`, of which a cluster has one.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::{Group, delete, until_gone};
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["token-cleaner-controller"], &[TOKENS]), (&["bootstrap-signer-controller"], &[SIGNATURES])];

const TOKENS: &[Scenario] = &[
    Scenario::new("a bootstrap token goes when it expires", |s| Box::pin(expires(s))),
    Scenario::new("a bootstrap token whose time cannot be read goes at once", |s| Box::pin(unreadable(s))),
    Scenario::new("a bootstrap token whose time is changed goes then", |s| Box::pin(changed(s))),
    Scenario::new("a bootstrap token of another namespace or without a time stays", |s| Box::pin(stays(s))),
];

const SIGNATURES: &[Scenario] = &[
    Scenario::new("cluster-info is signed with each token that may sign", |s| Box::pin(signed(s))).alone(),
    Scenario::new("cluster-info is signed again when it changes", |s| Box::pin(signed_again(s))).alone(),
    Scenario::new("cluster-info loses the signature of a token that is gone", |s| Box::pin(gone(s))).alone(),
    Scenario::new("cluster-info is signed by what a token is now", |s| Box::pin(token_changed(s))).alone(),
];

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kube-public/configmaps";
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

fn token(name: &str, data: &[(&str, &str)]) -> Value {
    let data: Map<String, Value> = data.iter().map(|(name, text)| ((*name).to_owned(), json!(base64(text)))).collect();
    json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "data": data})
}

/// The time in so many seconds.
fn after(s: &Stage, seconds: i64) -> String {
    (s.now() + SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Creates a token that expires then, and returns its path.
async fn expiring(s: &Stage, name: &str, time: &str) -> Result<String> {
    let name = format!("{}-{name}", s.ns);
    s.client.create(SECRETS, &token(&name, &[("expiration", time)])).await?;
    Ok(format!("{SECRETS}/{name}"))
}

/// A token comes and goes, so that the controller has looked at those before it.
async fn look(s: &Stage) -> Result<()> {
    let marker = expiring(s, "marker", &after(s, -1)).await?;
    until_gone(s, &marker).await
}

async fn set(s: &Stage, path: &str, name: &str, text: &str) -> Result<()> {
    s.client.patch(path, PatchKind::Merge, &json!({"data": {name: base64(text)}})).await.map(drop)
}

async fn expires(s: &Stage) -> Result<()> {
    let soon = expiring(s, "soon", &after(s, 5)).await?;
    let later = expiring(s, "later", &after(s, 3600)).await?;
    look(s).await?;
    until_gone(s, &soon).await?;
    s.client.get(&later).await?;
    delete(s, &later).await
}

async fn unreadable(s: &Stage) -> Result<()> {
    for (name, time) in [("a", "garbage"), ("b", "2999-01-01"), ("c", "2999-01-01T00:00:00"), ("d", "0")] {
        let path = expiring(s, name, time).await?;
        until_gone(s, &path).await?;
    }
    Ok(())
}

async fn changed(s: &Stage) -> Result<()> {
    let earlier = expiring(s, "earlier", &after(s, 3600)).await?;
    let later = expiring(s, "later", &after(s, 5)).await?;
    set(s, &later, "expiration", &after(s, 3600)).await?;
    set(s, &earlier, "expiration", &after(s, 6)).await?;
    until_gone(s, &earlier).await?;
    s.client.get(&later).await?;
    set(s, &later, "expiration", &after(s, -1)).await?;
    until_gone(s, &later).await
}

async fn stays(s: &Stage) -> Result<()> {
    s.create("secrets", &token("expired", &[("expiration", "2000-01-01T00:00:00Z")])).await?;
    let endless = expiring(s, "endless", "").await?;
    let other = json!({"metadata": {"name": format!("{}-other", s.ns)},
        "data": {"expiration": base64("2000-01-01T00:00:00Z")}});
    s.client.create(SECRETS, &other).await?;
    look(s).await?;
    s.get("secrets", "expired").await?;
    let other = format!("{SECRETS}/{}-other", s.ns);
    for path in [endless, other] {
        s.client.get(&path).await?;
        delete(s, &path).await?;
    }
    Ok(())
}

/// Creates a token with an id.
async fn signing(s: &Stage, id: &str, may_sign: &str) -> Result<String> {
    let name = format!("bootstrap-token-{id}");
    let data = [("token-id", id), ("token-secret", "0123456789abcdef"), ("usage-bootstrap-signing", may_sign)];
    s.client.create(SECRETS, &token(&name, &data)).await?;
    Ok(format!("{SECRETS}/{name}"))
}

async fn cluster_info(s: &Stage, data: &Value) -> Result<()> {
    s.client.create(CONFIG_MAPS, &json!({"metadata": {"name": "cluster-info"}, "data": data})).await.map(drop)
}

/// Waits until the entries of the ConfigMap are so, and notes them.
async fn until(s: &Stage, when: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    let data = eventually(PATIENCE, format!("cluster-info {when}"), async || {
        let data = s.client.get(CLUSTER_INFO).await?["data"].take();
        ensure!(is_so(&data), "it has {data}");
        Ok(Some(data))
    })
    .await?;
    s.observe(when, &data);
    Ok(data)
}

async fn clean_up(s: &Stage, tokens: &[String]) -> Result<()> {
    for path in tokens.iter().map(String::as_str).chain([CLUSTER_INFO]) {
        delete(s, path).await?;
    }
    Ok(())
}

fn has(data: &Value, id: &str) -> bool {
    data[format!("jws-kubeconfig-{id}")].is_string()
}

async fn signed(s: &Stage) -> Result<()> {
    let others = [signing(s, "bbbbbb", "false").await?, signing(s, "cccccc", "true").await?];
    cluster_info(s, &json!({"kubeconfig": "payload", "other": "kept"})).await?;
    until(s, "with a token", |data| has(data, "cccccc")).await?;
    let first = signing(s, "aaaaaa", "true").await?;
    until(s, "with two tokens", |data| has(data, "aaaaaa")).await?;
    clean_up(s, &[first, others[0].clone(), others[1].clone()]).await
}

async fn signed_again(s: &Stage) -> Result<()> {
    let token = signing(s, "aaaaaa", "true").await?;
    cluster_info(s, &json!({"other": "kept"})).await?;
    let set = |kubeconfig: &str| json!({"data": {"kubeconfig": kubeconfig}});
    s.client.patch(CLUSTER_INFO, PatchKind::Merge, &set("first")).await?;
    let first = until(s, "with a kubeconfig", |data| has(data, "aaaaaa")).await?;
    let is_new = |data: &Value| has(data, "aaaaaa") && data["jws-kubeconfig-aaaaaa"] != first["jws-kubeconfig-aaaaaa"];
    s.client.patch(CLUSTER_INFO, PatchKind::Merge, &set("second")).await?;
    until(s, "with another kubeconfig", is_new).await?;
    s.client.patch(CLUSTER_INFO, PatchKind::Merge, &json!({"data": {"jws-kubeconfig-aaaaaa": null}})).await?;
    until(s, "with the signature again", |data| has(data, "aaaaaa")).await?;
    clean_up(s, &[token]).await
}

async fn gone(s: &Stage) -> Result<()> {
    let tokens = [signing(s, "aaaaaa", "true").await?, signing(s, "bbbbbb", "true").await?];
    cluster_info(s, &json!({"kubeconfig": "payload", "jws-kubeconfig-000000": "old", "other": "kept"})).await?;
    until(s, "with both", |data| has(data, "aaaaaa") && has(data, "bbbbbb") && !has(data, "000000")).await?;
    delete(s, &tokens[0]).await?;
    until(s, "with one", |data| !has(data, "aaaaaa")).await?;
    delete(s, &tokens[1]).await?;
    until(s, "with none", |data| !has(data, "bbbbbb")).await?;
    clean_up(s, &[]).await
}

async fn token_changed(s: &Stage) -> Result<()> {
    let token = signing(s, "aaaaaa", "true").await?;
    cluster_info(s, &json!({"kubeconfig": "payload"})).await?;
    let first = until(s, "with the first secret", |data| has(data, "aaaaaa")).await?;
    set(s, &token, "token-secret", "fedcba9876543210").await?;
    let is_new = |data: &Value| has(data, "aaaaaa") && data["jws-kubeconfig-aaaaaa"] != first["jws-kubeconfig-aaaaaa"];
    until(s, "with another secret", is_new).await?;
    set(s, &token, "usage-bootstrap-signing", "false").await?;
    until(s, "without the usage", |data| !has(data, "aaaaaa")).await?;
    set(s, &token, "usage-bootstrap-signing", "true").await?;
    until(s, "with the usage", |data| has(data, "aaaaaa")).await?;
    set(s, &token, "expiration", &after(s, -1)).await?;
    until(s, "when it has expired", |data| !has(data, "aaaaaa")).await?;
    until_gone(s, &token).await?;
    clean_up(s, &[]).await
}
