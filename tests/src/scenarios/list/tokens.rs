//! Secrets with tokens of ServiceAccounts.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::Group;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["serviceaccount-token-controller"], &[SCENARIOS])];

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Secret for a token of a ServiceAccount gets one that the API server accepts", |s| {
        Box::pin(filled(s))
    })
    .only_real(NO_KEYS),
    Scenario::new("a token of a ServiceAccount that is changed is corrected", |s| Box::pin(corrected(s)))
        .only_real(NO_KEYS),
    Scenario::new("a token goes with its ServiceAccount", |s| Box::pin(gone(s))).only_real(NO_KEYS),
    Scenario::new("a Secret for a token of no ServiceAccount is deleted", |s| Box::pin(without_account(s)))
        .only_real(NO_KEYS),
    Scenario::new("a ServiceAccount loses the reference to a token that is deleted", |s| Box::pin(reference(s)))
        .only_real(NO_KEYS),
];

const NO_KEYS: &str = "the embedded cluster has no key that signs tokens";

const ACCOUNTS: &str = "serviceaccounts";
const SECRETS: &str = "secrets";

fn token(name: &str, account: &str) -> Value {
    json!({
        "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
        "type": "kubernetes.io/service-account-token",
    })
}

fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(value.as_str()?).ok()?).ok()
}

/// Waits until a Secret has all data.
async fn until_filled(s: &Stage, name: &str) -> Result<Value> {
    eventually(PATIENCE, format!("{name} to be filled"), async || {
        let secret = s.get(SECRETS, name).await?;
        let data = secret["data"].as_object().map(serde_json::Map::len);
        Ok((data >= Some(3) && secret["data"]["token"].is_string()).then_some(secret))
    })
    .await
}

/// Notes what a Secret has.
async fn observe(s: &Stage, when: &str, name: &str) -> Result<()> {
    let secret = s.get(SECRETS, name).await?;
    let account = secret["metadata"]["annotations"]["kubernetes.io/service-account.name"].as_str().unwrap_or_default();
    let uid = s.get(ACCOUNTS, account).await?["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let token = decoded(&secret["data"]["token"]).context("there is no token")?;
    let mut parts = token.split('.').map(|part| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap_or_default());
    let mut part = || -> Result<Value> {
        let text = String::from_utf8(parts.next().unwrap_or_default())?.replace(&uid, "<uid>");
        serde_json::from_str(&text).context("a part of a token")
    };
    let (mut header, claims) = (part()?, part()?);
    // The key is one of the control plane.
    ensure!(header["kid"].is_string(), "{header} has no key");
    header["kid"] = json!("<key>");
    let review = json!({"spec": {"token": token}});
    let review = s.client.create("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let mut annotations = secret["metadata"]["annotations"].clone();
    for value in annotations.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
        *value = json!(value.as_str().unwrap_or_default().replace(&uid, "<uid>"));
    }
    s.observe(
        when,
        &json!({
            "header": header, "claims": claims, "annotations": annotations,
            "labels": secret["metadata"]["labels"].as_object().map(|labels| labels.keys().cloned().collect::<Vec<_>>()),
            "namespace": decoded(&secret["data"]["namespace"]),
            "authority": decoded(&secret["data"]["ca.crt"]).is_some_and(|ca| ca.trim() == s.root_ca.trim()),
            "more": secret["data"]["more"], "user": review["status"]["user"]["username"],
            "groups": review["status"]["user"]["groups"],
        }),
    );
    Ok(())
}

async fn account(s: &Stage, name: &str) -> Result<()> {
    s.create(ACCOUNTS, &json!({"metadata": {"name": name}})).await.map(drop)
}

async fn filled(s: &Stage) -> Result<()> {
    account(s, "robot").await?;
    s.create(SECRETS, &token("plain", "robot")).await?;
    let mut more = token("more", "robot");
    more["data"] = json!({"more": BASE64_STANDARD.encode("kept"), "namespace": BASE64_STANDARD.encode("custom")});
    s.create(SECRETS, &more).await?;
    for name in ["plain", "more"] {
        until_filled(s, name).await?;
        observe(s, name, name).await?;
    }
    Ok(())
}

async fn corrected(s: &Stage) -> Result<()> {
    account(s, "robot").await?;
    s.create(SECRETS, &token("some", "robot")).await?;
    until_filled(s, "some").await?;
    for (field, value) in
        [("ca.crt", json!(BASE64_STANDARD.encode("wrong"))), ("namespace", Value::Null), ("token", Value::Null)]
    {
        let before = s.get(SECRETS, "some").await?["data"][field].clone();
        s.patch(SECRETS, "some", &json!({"data": {field: value}})).await?;
        let is_back = |secret: &Value| match field {
            "token" => secret["data"][field].is_string(),
            _ => secret["data"][field] == before,
        };
        s.until(SECRETS, "some", &format!("have {field} again"), is_back).await?;
    }
    observe(s, "corrected", "some").await
}

async fn gone(s: &Stage) -> Result<()> {
    for name in ["robot", "other"] {
        account(s, name).await?;
        s.create(SECRETS, &token(name, name)).await?;
        until_filled(s, name).await?;
    }
    s.create(
        SECRETS,
        &json!({"metadata": {"name": "opaque", "annotations": {"kubernetes.io/service-account.name": "robot"}}}),
    )
    .await?;
    s.delete(ACCOUNTS, "robot", "Background").await?;
    s.until_gone(SECRETS, "robot").await?;
    // A new one of the name has no tokens of the old one.
    account(s, "robot").await?;
    s.create(SECRETS, &token("robot", "robot")).await?;
    until_filled(s, "robot").await?;
    observe(s, "of the new one", "robot").await?;
    s.get(SECRETS, "opaque").await?;
    observe(s, "of another one", "other").await
}

async fn without_account(s: &Stage) -> Result<()> {
    s.create(SECRETS, &token("lost", "nobody")).await?;
    s.until_gone(SECRETS, "lost").await?;
    account(s, "robot").await?;
    let mut stale = token("stale", "robot");
    stale["metadata"]["annotations"]["kubernetes.io/service-account.uid"] =
        json!("00000000-0000-0000-0000-000000000000");
    s.create(SECRETS, &stale).await?;
    s.until_gone(SECRETS, "stale").await
}

async fn reference(s: &Stage) -> Result<()> {
    let names = json!([{"name": "some"}, {"name": "other"}, {"name": "missing"}]);
    s.create(ACCOUNTS, &json!({"metadata": {"name": "robot"}, "secrets": names})).await?;
    for name in ["some", "other"] {
        s.create(SECRETS, &token(name, "robot")).await?;
        until_filled(s, name).await?;
    }
    s.delete(SECRETS, "some", "Background").await?;
    let has_lost_it = |account: &Value| account["secrets"] == json!([{"name": "other"}, {"name": "missing"}]);
    s.until(ACCOUNTS, "robot", "lose the reference", has_lost_it).await?;
    observe(s, "the other one", "other").await
}
