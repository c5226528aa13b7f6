//! Certificate requests, trust bundles, and tokens of ServiceAccounts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pintle_sdk::testing::{Cluster, Plugin};
use pintle_sdk::{Kind, Need};
use serde_json::{Value, json};

use super::*;
use crate::stories::answers::Answers;
use crate::{
    certificatesigningrequest_cleaner, kube_apiserver_serving_clustertrustbundle_publisher,
    legacy_serviceaccount_token_cleaner, podcertificaterequest_cleaner, serviceaccount_token,
};

const REQUEST: Kind = Kind::new("certificates.k8s.io", "v1", "CertificateSigningRequest");
const POD_REQUEST: Kind = Kind::new("certificates.k8s.io", "v1", "PodCertificateRequest");
const BUNDLE: Kind = Kind::new("certificates.k8s.io", "v1", "ClusterTrustBundle");
const SECRET: Kind = Kind::new("", "v1", "Secret");
const ACCOUNT: Kind = Kind::new("", "v1", "ServiceAccount");
const TICK: Kind = Kind::new("pintle", "v1", "Tick");

/// `CN=system:node:foo, O=system:nodes`, in PEM and base64.
const NODE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIc01JR1RBZ0VBTURFeEZUQVRCZ05WQkFvTURITjVjM1JsYlRwdWIyUmxjekVZTUJZR0ExVUVBd3dQYzNsegpkR1Z0T201dlpHVTZabTl2TUZrd0V3WUhLb1pJemowQ0FRWUlLb1pJemowREFRY0RRZ0FFK2V2a1pCUjh3UUxaCkl5VFFtZGtud2FVT1F0VjZDS0VXLyt3S0tZR2RqR1Z3dXZmUktJaVFLbW9NSFdldDBRTVNQSVdhdHB2NDZVTWMKazRTVERVdCs3cUFBTUFvR0NDcUdTTTQ5QkFNQ0EwZ0FNRVVDSVFESjRqOXJ0by9ENTNQOWU0R1ZDNkJEMEJ4MApqRzlmZEx5RStDY0JaM1FKcUFJZ1pnNWRCWm02ckxnYWhWWXRGUFlDMHZPN283VnhPZ1pIeVFBS1lmbUQ1blE9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

fn request(number: usize) -> Value {
    let mut request = global("certificates.k8s.io/v1", "CertificateSigningRequest", "request", number, LONGEST);
    request["spec"] = json!({
        "request": NODE, "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "username": "system:node:foo",
        "usages": ["digital signature", "client auth"],
    });
    request
}

/// Conditions of other clients, each with a type of full length.
fn conditions(n: usize) -> Vec<Value> {
    (0..n).map(|i| json!({"type": name("Type", i, LABEL), "status": "True"})).collect()
}

fn condition(of: &Value, kind: &str) -> bool {
    of["status"]["conditions"].as_array().into_iter().flatten().any(|condition| condition["type"] == kind)
}

/// The user is in as many groups as there are conditions.
pub(super) fn approval(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut request = request(0);
    request["spec"]["groups"] = (0..n).map(|i| json!(name("group", i, LONGEST))).collect();
    request["status"] = json!({"conditions": conditions(n)});
    cluster.insert(request.clone());
    let allow = |need: &Need| match need {
        Need::Review { object, .. } => {
            let review: Value = serde_json::from_str(object).expect("it is JSON");
            assert_eq!(review["spec"]["groups"].as_array().map(Vec::len), Some(n));
            Ok(json!({"status": {"allowed": true}}).to_string())
        }
        other => panic!("{other:?}"),
    };
    let manifest = include_str!("../../../../certificatesigningrequest-approving/manifest.yaml");
    let plugin = Plugin::new(manifest, |key, lister| {
        plugin_certificatesigningrequest_approving::reconcile(key, &Answers::to_needs(lister, &allow))
    });
    let plugin = size.limit(plugin);
    settle(&mut cluster, &plugin, &[key(&plugin, "", &request)], nobody);
    assert!(condition(now(&cluster, &request), "Approved"));
}

pub(super) fn certificate(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut request = request(0);
    let approved = json!({"type": "Approved", "status": "True"});
    request["status"] = json!({"conditions": conditions(n).into_iter().chain([approved]).collect::<Vec<_>>()});
    cluster.insert(request.clone());
    let sign = |need: &Need| match need {
        Need::SignCertificate(asked) => {
            assert_eq!(asked.authority, "kubeletClient");
            Ok("CERTIFICATE".to_owned())
        }
        other => panic!("{other:?}"),
    };
    let manifest = include_str!("../../../../certificatesigningrequest-signing/manifest.yaml");
    let plugin = Plugin::new(manifest, |key, lister| {
        plugin_certificatesigningrequest_signing::reconcile(key, &Answers::to_needs(lister, &sign))
    });
    let plugin = size.limit(plugin).config("kubeletClient", true);
    settle(&mut cluster, &plugin, &[key(&plugin, "", &request)], nobody);
    assert_eq!(now(&cluster, &request)["status"]["certificate"], BASE64_STANDARD.encode("CERTIFICATE"));
}

/// Requests without a decision for a day.
pub(super) fn requests(size: Size) {
    let mut cluster = Cluster::new(1);
    let created = cluster.now();
    for i in 0..size.n() {
        let mut request = request(i);
        request["metadata"]["creationTimestamp"] = json!(created);
        cluster.insert(request);
    }
    cluster.advance(Duration::from_secs(24 * 3600 + 1));
    let plugin = size.limit(certificatesigningrequest_cleaner::plugin());
    settle(&mut cluster, &plugin, &[plugin.key(&TICK, "", "csrcleaner")], nobody);
    assert_eq!(cluster.list(&REQUEST).count(), 0);
}

pub(super) fn pod_requests(size: Size) {
    let mut cluster = Cluster::new(1);
    let created = cluster.now();
    for i in 0..size.n() {
        let mut request = object("certificates.k8s.io/v1", "PodCertificateRequest", "request", i, LONGEST);
        request["metadata"]["creationTimestamp"] = json!(created);
        cluster.insert(request);
    }
    cluster.advance(Duration::from_secs(15 * 60));
    let plugin = size.limit(podcertificaterequest_cleaner::plugin());
    settle(&mut cluster, &plugin, &[plugin.key(&TICK, "", "podcertificaterequestcleaner")], nobody);
    assert_eq!(cluster.list(&POD_REQUEST).count(), 0);
}

/// Bundles of other authorities, and an authority with many certificates.
pub(super) fn bundles(size: Size) {
    let mut cluster = Cluster::new(1);
    for i in 0..size.n() {
        let mut bundle = global("certificates.k8s.io/v1", "ClusterTrustBundle", "bundle", i, LONGEST);
        bundle["spec"] = json!({"signerName": "kubernetes.io/kube-apiserver-serving", "trustBundle": "old"});
        cluster.insert(bundle);
    }
    let plugin = size.limit(kube_apiserver_serving_clustertrustbundle_publisher::plugin());
    let plugin = plugin.config("rootCa", "x".repeat(100_000));
    settle(&mut cluster, &plugin, &[plugin.key(&TICK, "", "ca_cert_publisher_cluster_trust_bundles")], nobody);
    let bundles: Vec<&Value> = cluster.list(&BUNDLE).collect();
    assert_eq!(bundles.len(), 1);
    assert_eq!(bundles[0]["spec"]["trustBundle"].as_str().map(str::len), Some(100_000));
}

/// A token of one ServiceAccount.
fn token(number: usize, account: &Value) -> Value {
    let mut secret = object("v1", "Secret", "token", number, LONGEST);
    secret["type"] = json!("kubernetes.io/service-account-token");
    secret["metadata"]["annotations"] = json!({
        "kubernetes.io/service-account.name": account["metadata"]["name"],
        "kubernetes.io/service-account.uid": account["metadata"]["uid"],
    });
    secret["data"] = json!({"token": BASE64_STANDARD.encode("t")});
    secret
}

/// A ServiceAccount that lists all of its tokens.
fn account(n: usize) -> Value {
    let mut account = object("v1", "ServiceAccount", "account", 0, LONGEST);
    account["secrets"] = (0..n).map(|i| json!({"name": name("token", i, LONGEST)})).collect();
    account
}

/// Pods refer to half of the tokens.
pub(super) fn unused(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let tracking = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
        "name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system", "uid": "c",
    }, "data": {"since": "2020-01-01"}});
    cluster.insert(tracking);
    let account = account(2 * n);
    for i in 0..2 * n {
        let mut secret = token(i, &account);
        secret["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        cluster.insert(secret);
        if i >= n {
            let mut pod = pod(i);
            pod["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": name("token", i, LONGEST)}}]);
            cluster.insert(pod);
        }
    }
    cluster.insert(account);
    let plugin = size.limit(legacy_serviceaccount_token_cleaner::plugin());
    let keys = [plugin.key(&TICK, "", "legacy_serviceaccount_tokens")];
    settle(&mut cluster, &plugin, &keys, nobody);
    let is_marked =
        |secret: &&Value| secret["metadata"]["labels"]["kubernetes.io/legacy-token-invalid-since"].is_string();
    assert_eq!(cluster.list(&SECRET).filter(is_marked).count(), n);
    cluster.advance(Duration::from_secs(366 * 24 * 3600));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(cluster.list(&SECRET).count(), n);
}

/// The tokens of a ServiceAccount lack the authority. They are deleted one after the other.
pub(super) fn tokens(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let account = account(n);
    cluster.insert(account.clone());
    let secrets: Vec<Value> = (0..n).map(|i| token(i, &account)).collect();
    secrets.iter().for_each(|secret| cluster.insert(secret.clone()));
    let plugin = size.limit(serviceaccount_token::plugin()).config("rootCa", "x".repeat(10_000));
    let keys: Vec<Key> = secrets.iter().map(|secret| key(&plugin, "", secret)).collect();
    settle(&mut cluster, &plugin, &keys, nobody);
    let is_filled = |secret: &&Value| secret["data"].as_object().map(serde_json::Map::len) == Some(3);
    assert_eq!(cluster.list(&SECRET).filter(is_filled).count(), n);
    for i in 0..10 {
        cluster.remove(&SECRET, &home(), &name("token", i, LONGEST));
    }
    settle(&mut cluster, &plugin, &keys[..10], nobody);
    assert_eq!(now(&cluster, &account)["secrets"].as_array().map(Vec::len), Some(n - 10));
    cluster.remove(&ACCOUNT, &home(), &name("account", 0, LONGEST));
    settle(&mut cluster, &plugin, &keys[10..], nobody);
    assert_eq!(cluster.list(&SECRET).count(), 0);
}
