//! Users of requests: tokens of ServiceAccounts, and CertificateSigningRequests. The tokens in Secrets are tested where they
//! are checked, and TLS with `pintle dev`.

use std::sync::Arc;
use std::time::Duration;

use pintle_sim::{SimClock, SimConfig, TokenKey};
use reqwest::{Method, StatusCode};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use crate::support::{Server, answer};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The status of a TokenReview.
async fn review(server: &Server, spec: Value) -> Value {
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    server.post(reviews, &json!({ "spec": spec })).await.is(StatusCode::CREATED)["status"].clone()
}

#[tokio::test]
async fn a_token_is_valid_for_its_audience_until_it_expires_or_its_account_is_deleted() {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let token_key = Some(Arc::new(TokenKey::parse(key.as_ref()).unwrap()));
    let clock = SimClock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let server = Server::with(SimConfig { token_key, clock, ..SimConfig::default() }).await;
    server.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.is(StatusCode::CREATED);
    let issue = async |spec: Value| {
        let path = format!("{ACCOUNTS}/robot/token");
        let issued = server.post(&path, &json!({ "spec": spec })).await.is(StatusCode::CREATED);
        issued["status"]["token"].as_str().unwrap().to_owned()
    };
    let is_valid = async |spec: Value| review(&server, spec).await["authenticated"] == true;

    let token = issue(json!({"expirationSeconds": 600})).await;
    let found = review(&server, json!({ "token": token })).await;
    assert_eq!(found["user"]["username"], "system:serviceaccount:default:robot");
    assert!(!is_valid(json!({"token": token.replacen('.', ".e", 1)})).await, "the signature is of other claims");
    assert!(!is_valid(json!({"token": token, "audiences": ["vault"]})).await);
    let of_vault = issue(json!({"audiences": ["vault"]})).await;
    assert!(!is_valid(json!({ "token": of_vault })).await);
    assert!(is_valid(json!({"token": of_vault, "audiences": ["vault"]})).await);

    // The user of a request is that of its token.
    let request = json!({
        "metadata": {"name": "a"},
        "spec": {"request": "YQ==", "signerName": "example.com/a", "usages": ["client auth"], "username": "somebody"},
    });
    let created = answer(server.request(Method::POST, REQUESTS).bearer_auth(&token).json(&request)).await;
    assert_eq!(created.is(StatusCode::CREATED)["spec"]["username"], "system:serviceaccount:default:robot");

    server.cluster.clock().advance(Duration::from_secs(600));
    assert!(!is_valid(json!({ "token": token })).await, "it has expired");
    assert!(is_valid(json!({"token": of_vault, "audiences": ["vault"]})).await);
    server.delete(&format!("{ACCOUNTS}/robot"), &json!({})).await.is(StatusCode::OK);
    assert!(!is_valid(json!({"token": of_vault, "audiences": ["vault"]})).await, "its account is deleted");
}

#[tokio::test]
async fn only_approvals_and_signers_change_a_certificate_signing_request() {
    let server = Server::start().await;
    let spec = json!({"request": "YQ==", "signerName": "example.com/a", "usages": ["client auth"]});
    let created = server.post(REQUESTS, &json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(created.is(StatusCode::CREATED)["spec"]["username"], "pintle");
    let merge = "application/merge-patch+json";
    let approved = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "approved"});
    let change = json!({"spec": {"request": "Yg=="}, "status": {"conditions": [approved]}});
    let of_spec = server.patch(&format!("{REQUESTS}/a"), merge, &change).await.is(StatusCode::OK);
    assert_eq!((&of_spec["spec"]["request"], &of_spec["status"]["conditions"]), (&json!("YQ=="), &Value::Null));
    let of_approval = server.patch(&format!("{REQUESTS}/a/approval"), merge, &change).await.is(StatusCode::OK);
    assert_eq!(of_approval["spec"]["request"], "YQ==");
    assert_eq!(of_approval["status"]["conditions"][0]["type"], "Approved");
    let signed = json!({"status": {"certificate": "Yw=="}});
    let of_status = server.patch(&format!("{REQUESTS}/a/status"), merge, &signed).await.is(StatusCode::OK);
    assert_eq!(of_status["status"]["certificate"], "Yw==");
}
