//! Inputs of the plugins of tokens and certificates: what they look at exists ten times.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use pintle_tests::objects::certificate_request;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::N_CHILDREN as N;
use super::cases::{NOW, case, children, object, pod, with};
use super::guards::{about, cluster_scoped, tick};

/// Not long before [`NOW`].
const RECENTLY: &str = "2026-01-01T11:55:00Z";
/// Not long after it.
const LATER: &str = "2026-01-02T00:00:00Z";
/// A day so long ago that tokens which were last used then are deleted.
const LONG_AGO: &str = "2024-01-01";
/// In place of certificates that are only compared.
const PEM: &str = "-----BEGIN CERTIFICATE-----\n";

/// A token that has its data, beside ten others of the ServiceAccount.
pub(super) fn filled_token() -> Value {
    let case =
        case(account_token("web"), [children(|number| account_token(&format!("web-{number}"))), vec![account()]]);
    let owner = json!({"secret_uid": "uid-web", "name": "robot", "uid": "uid-robot"});
    with(case, json!({"config": {"rootCa": PEM}, "state": {"owner/default/web": owner.to_string()}}))
}

/// Tokens that nobody has used for long, each of which a Pod mounts.
pub(super) fn mounted_tokens() -> Value {
    let labels = json!({"kubernetes.io/legacy-token-last-used": LONG_AGO});
    let metadata = json!({"creationTimestamp": format!("{LONG_AGO}T00:00:00Z"), "labels": labels});
    let tokens = children(|number| with(account_token(&format!("web-{number}")), json!({"metadata": metadata})));
    let pods = children(|number| {
        let volume = json!({"name": "token", "secret": {"secretName": format!("web-{number}")}});
        with(pod(&format!("web-{number}")), json!({"spec": {"volumes": [volume]}}))
    });
    let tracking = object("v1", "ConfigMap", "kube-apiserver-legacy-service-account-token-tracking");
    let tracking = with(tracking, json!({"metadata": {"namespace": "kube-system"}, "data": {"since": LONG_AGO}}));
    tick("legacy_serviceaccount_tokens", [tokens, pods, vec![account(), tracking]].concat())
}

/// A request that the API server permits, beside ten others. Its approval is a write.
pub(super) fn request_to_approve() -> Value {
    let review = json!({"kind": "authorization.k8s.io/v1/SubjectAccessReview", "status": {"allowed": true}});
    with(about(request("web"), children(|number| request(&format!("web-{number}")))), json!({"reviews": [review]}))
}

/// An approved request, beside ten others. Its certificate is a write.
pub(super) fn request_to_sign() -> Value {
    let signature = json!({"by": "cluster", "answer": PEM});
    with(
        about(approved("web"), children(|number| approved(&format!("web-{number}")))),
        json!({"signatures": [signature]}),
    )
}

/// Requests with a certificate that is valid.
pub(super) fn issued_requests() -> Value {
    let issued = rcgen::generate_simple_self_signed(vec!["web".to_owned()]).expect("a name that certificates can have");
    let certificate = BASE64_STANDARD.encode(issued.cert.pem());
    let issued = |number| with(approved(&format!("web-{number}")), json!({"status": {"certificate": certificate}}));
    tick("csrcleaner", children(issued))
}

/// Requests of Pods that start.
pub(super) fn young_requests() -> Value {
    let request = |number| object("certificates.k8s.io/v1", "PodCertificateRequest", &format!("web-{number}"));
    let young = |number| with(request(number), json!({"metadata": {"creationTimestamp": RECENTLY}}));
    tick("podcertificaterequestcleaner", children(young))
}

/// The bundle of the signer, beside those of another one.
pub(super) fn published_bundle() -> Value {
    let bundle = |name: &str, signer: &str| {
        let bundle = cluster_scoped("certificates.k8s.io/v1", "ClusterTrustBundle", name);
        with(bundle, json!({"spec": {"signerName": signer, "trustBundle": PEM}}))
    };
    let hash: String = Sha256::digest(PEM).iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("kubernetes.io:kube-apiserver-serving:{hash}");
    let mut bundles = children(|number| bundle(&format!("example.com:web:{number}"), "example.com/web"));
    bundles.push(bundle(&name, "kubernetes.io/kube-apiserver-serving"));
    with(tick("ca_cert_publisher_cluster_trust_bundles", bundles), json!({"config": {"rootCa": PEM}}))
}

/// A ConfigMap with the signatures of all tokens.
pub(super) fn signed_information() -> Value {
    let encode = |text: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(text);
    let signature = |number: usize| {
        let header = encode(format!(r#"{{"alg":"HS256","kid":"token{number}"}}"#).as_bytes());
        let mut mac = Hmac::<Sha256>::new_from_slice(b"secret").expect("a key of any length");
        mac.update(format!("{header}.{}", encode(b"payload")).as_bytes());
        (format!("jws-kubeconfig-token{number}"), format!("{header}..{}", encode(&mac.finalize().into_bytes())))
    };
    let information = json!({"metadata": {"namespace": "kube-public"}, "data": {"kubeconfig": "payload"}});
    let information = with(object("v1", "ConfigMap", "cluster-info"), information);
    let information = with(information, json!({"data": (0..N).map(signature).collect::<Value>()}));
    tick("bootstrap_signer_queue", [children(bootstrap_token), vec![information]].concat())
}

/// Tokens that expire later.
pub(super) fn bootstrap_tokens() -> Value {
    let key = json!({"kind": "v1/Secret", "namespace": "kube-system", "name": "bootstrap-token-token0"});
    json!({"key": key, "now": NOW, "objects": children(bootstrap_token)})
}

/// The ServiceAccount of [`account_token`]s.
fn account() -> Value {
    let secrets = children(|number| json!({"name": format!("web-{number}")}));
    with(object("v1", "ServiceAccount", "robot"), json!({"secrets": secrets}))
}

fn account_token(name: &str) -> Value {
    let annotations =
        json!({"kubernetes.io/service-account.name": "robot", "kubernetes.io/service-account.uid": "uid-robot"});
    let data = [("ca.crt", PEM), ("namespace", "default"), ("token", "token")];
    let secret = with(object("v1", "Secret", name), json!({"metadata": {"annotations": annotations}}));
    secret_with(secret, "kubernetes.io/service-account-token", &data)
}

fn bootstrap_token(number: usize) -> Value {
    let id = format!("token{number}");
    let data =
        [("token-id", &*id), ("token-secret", "secret"), ("usage-bootstrap-signing", "true"), ("expiration", LATER)];
    let secret = object("v1", "Secret", &format!("bootstrap-token-{id}"));
    let secret = with(secret, json!({"metadata": {"namespace": "kube-system"}}));
    secret_with(secret, "bootstrap.kubernetes.io/token", &data)
}

fn secret_with(secret: Value, kind: &str, data: &[(&str, &str)]) -> Value {
    let data: Value = data.iter().map(|(name, text)| (*name, BASE64_STANDARD.encode(text))).collect();
    with(secret, json!({"type": kind, "data": data}))
}

/// A request of a kubelet for a client certificate.
fn request(name: &str) -> Value {
    let request =
        certificate_request("system:node:web", "system:nodes", &[]).expect("names that certificates can have");
    let spec = json!({
        "signerName": "kubernetes.io/kube-apiserver-client-kubelet", "username": "system:node:web", "request": request,
        "groups": ["system:nodes"], "usages": ["client auth", "digital signature", "key encipherment"],
    });
    with(cluster_scoped("certificates.k8s.io/v1", "CertificateSigningRequest", name), json!({"spec": spec}))
}

/// A [`request`] that was approved not long ago.
fn approved(name: &str) -> Value {
    let approval = json!({"type": "Approved", "status": "True", "lastUpdateTime": RECENTLY});
    with(request(name), json!({"status": {"conditions": [approval]}}))
}
