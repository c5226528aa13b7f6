//! Signatures that a manifest limits to what the object of the key asks for.
//!
//! Invariants:
//! 1. The object decides, as the caches show it: nothing that a plugin states replaces it.
//! 2. What the caches do not show is not asked for.
//!
//! Not here: whether a key or an authority is bound (`outside`), and the form of tokens and certificates.
//!
//! Source: `pkg/controller/certificates/signer` of kube-controller-manager for the state of a certificate request,
//! `LegacyClaims` of `pkg/serviceaccount/legacy.go` for the claims of a token.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::grants::CERTIFICATES;
use super::outside::refused;
use crate::contract::manifest::{Claims, Manifest};
use crate::contract::outcome::{CertificateRequest, Need, NeedError};
use crate::object::Object;
use crate::object::field::FieldPath;
use crate::object::id::Key;
use crate::object::texts::Projection;
use crate::text::cut;

/// Maximum bytes of a refusal, which repeats texts of the object.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A CertificateSigningRequest: the parts that decide.
#[derive(Deserialize)]
struct SigningRequest {
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    signer_name: String,
    request: String,
    #[serde(default)]
    usages: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
    certificate: String,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
}

/// The issuer of tokens in Secrets: part of the API.
const ISSUER: &str = "kubernetes/serviceaccount";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The claims of a token in a Secret. Another, missing or duplicate member does not parse.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenClaims {
    iss: String,
    sub: String,
    #[serde(rename = "kubernetes.io/serviceaccount/namespace")]
    namespace: String,
    #[serde(rename = "kubernetes.io/serviceaccount/secret.name")]
    secret: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.name")]
    account: String,
    #[serde(rename = "kubernetes.io/serviceaccount/service-account.uid")]
    uid: String,
}

/// Checks that the object of the key asks for a signature, if the manifest limits the key or the authority. `object` is
/// that of the key, if the caches show it.
///
/// # Errors
/// `NotGranted`; a retry helps only after the object has changed.
pub fn check(need: &Need, manifest: &Manifest, key: &Key, object: Option<&Object>) -> Result<(), NeedError> {
    let (Need::SignJwt { key: name, .. } | Need::SignCertificate(CertificateRequest { authority: name, .. })) = need
    else {
        return Ok(());
    };
    let Some(setting) = manifest.config.get(name) else { return Ok(()) };
    let checked = match (need, setting.claims) {
        (Need::SignCertificate(asked), _) => check_certificate(asked, &setting.signers, key, object),
        (Need::SignJwt { claims, .. }, Some(Claims::ServiceAccountToken)) => check_token(claims, key, object),
        _ => Ok(()),
    };
    checked.map_err(|why| {
        let object = format!("{} {}", key.kind, key.object);
        let message = format!("{name:?} signs only what the object of the key, {object}, asks for: {why}");
        refused("NotGranted", cut(&message, MAX_MESSAGE_BYTES))
    })
}

/// Checks a certificate. `signers`: those of the authority; empty if the manifest does not limit it.
fn check_certificate(
    asked: &CertificateRequest,
    signers: &[String],
    key: &Key,
    object: Option<&Object>,
) -> Result<(), String> {
    if signers.is_empty() {
        return Ok(());
    }
    if (&*key.kind.group, &*key.kind.name) != (CERTIFICATES, "CertificateSigningRequest") {
        return Err("it is not a CertificateSigningRequest".to_owned());
    }
    let text = object.and_then(|object| object.text_set.source(&Projection::Whole)?.of(&object.texts));
    let text = text.ok_or("the caches do not show it whole, which takes `whole: true` in its watch")?;
    let SigningRequest { spec, status } =
        serde_json::from_str(text).map_err(|why| format!("it does not parse: {why}"))?;
    if !signers.contains(&spec.signer_name) {
        return Err(format!(
            "its signer is {:?}, and those of the setting are {}",
            spec.signer_name,
            signers.join(", ")
        ));
    }
    let has = |kind: &str| status.conditions.iter().any(|condition| condition.kind == kind);
    if !has("Approved") || has("Denied") || has("Failed") || !status.certificate.is_empty() {
        return Err("it is not approved, or it is denied, failed or signed".to_owned());
    }
    // As plugins read the bytes: what is no UTF-8 is no part of PEM.
    let request = STANDARD.decode(&spec.request).map_err(|why| format!("its spec.request is not base64: {why}"))?;
    if String::from_utf8_lossy(&request) != asked.request {
        return Err("its spec.request is another one".to_owned());
    }
    if spec.usages != asked.usages {
        return Err(format!("its usages are {}", spec.usages.join(", ")));
    }
    Ok(())
}

/// Checks the claims of a token in a Secret.
fn check_token(claims: &str, key: &Key, object: Option<&Object>) -> Result<(), String> {
    if (&*key.kind.group, &*key.kind.name) != ("", "Secret") {
        return Err("it is not a Secret".to_owned());
    }
    let object = object.ok_or("the caches do not show it")?;
    let claims: TokenClaims =
        serde_json::from_str(claims).map_err(|why| format!("its token has six claims, all of them texts: {why}"))?;
    let account = annotation(object, ACCOUNT_NAME)?.unwrap_or_default();
    if account.is_empty() {
        return Err(format!("it has no annotation {ACCOUNT_NAME}"));
    }
    let (namespace, name) = (&*key.object.namespace, &*key.object.name);
    let user = format!("system:serviceaccount:{namespace}:{account}");
    for (claim, found, expected) in [
        ("iss", claims.iss, ISSUER),
        ("sub", claims.sub, user.as_str()),
        ("kubernetes.io/serviceaccount/namespace", claims.namespace, namespace),
        ("kubernetes.io/serviceaccount/secret.name", claims.secret, name),
        ("kubernetes.io/serviceaccount/service-account.name", claims.account, account.as_str()),
    ] {
        if found != expected {
            return Err(format!("the claim {claim} must be {expected:?}, not {found:?}"));
        }
    }
    let uid = annotation(object, ACCOUNT_UID)?.filter(|uid| !uid.is_empty());
    if claims.uid.is_empty() || uid.is_some_and(|uid| uid != claims.uid) {
        let claim = "kubernetes.io/serviceaccount/service-account.uid";
        return Err(format!("the claim {claim} must be that of the ServiceAccount, not {:?}", claims.uid));
    }
    Ok(())
}

/// An annotation of an object; `None` if the object does not have it.
///
/// # Errors
/// The caches do not have this annotation of objects.
fn annotation(object: &Object, name: &str) -> Result<Option<String>, String> {
    let path = FieldPath::of(&["metadata", "annotations", name]);
    let text = object.text_set.projections().iter().zip(&object.texts).find(|(projection, _)| match projection {
        Projection::Whole => true,
        Projection::Fields(mask) => mask.covers(&path),
    });
    let (_, text) = text.ok_or_else(|| format!("its watch does not have {path} in `fields`"))?;
    Ok(path.values(text).pop())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::field::FieldMask;
    use crate::object::id::ObjectKey;
    use crate::object::ingest::{IngestPlan, Ingester, Needs};

    const REQUEST: &str = "certificates.k8s.io/v1/CertificateSigningRequest";

    fn manifest() -> Manifest {
        let manifest = json!({
            "name": "w", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}],
            "config": {
                "ca": {"type": "authority", "signers": ["example.com/a", "example.com/b"]},
                "open": {"type": "authority"},
                "tokens": {"type": "key", "claims": "serviceAccountToken"},
                "free": {"type": "key"},
            },
        });
        Manifest::parse(manifest.to_string().as_bytes()).unwrap()
    }

    fn cached(kind: &str, object: &Value, projection: Projection) -> Object {
        let needs = Needs { projections: [projection].into(), ..Needs::default() };
        let plan = IngestPlan::new(kind.parse().unwrap(), needs);
        Ingester::default().ingest(&plan, &object.to_string()).unwrap()
    }

    fn key(kind: &str, namespace: &str) -> Key {
        Key { queue: "q".into(), kind: kind.parse().unwrap(), object: ObjectKey::new(namespace, "a") }
    }

    /// The end of the refusal.
    fn why(checked: Result<(), NeedError>) -> Option<String> {
        let error = checked.err()?;
        assert_eq!((error.reason.as_str(), error.code), ("NotGranted", 0));
        let (_, why) = error.message.split_once(", asks for: ").unwrap();
        Some(why.to_owned())
    }

    fn asked(authority: &str, request: &str, usages: &[&str]) -> Need {
        Need::SignCertificate(CertificateRequest {
            authority: authority.into(),
            request: request.into(),
            usages: usages.iter().map(|&usage| usage.into()).collect(),
            not_before: String::new(),
            not_after: String::new(),
        })
    }

    /// An approved request of `PEM`.
    fn approved() -> Value {
        json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"signerName": "example.com/b", "request": STANDARD.encode("PEM"), "usages": ["x", "y"]},
            "status": {"conditions": [{"type": "Approved", "status": "True"}]},
        })
    }

    #[test]
    fn an_authority_with_signers_signs_only_the_approved_request_of_the_key() {
        let manifest = manifest();
        let check =
            |need: &Need, kind: &str, object: Option<&Object>| why(check(need, &manifest, &key(kind, ""), object));
        let with = |path: &str, value: Value| {
            let mut object = approved();
            let (parent, member) = path.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[member] = value;
            check(&asked("ca", "PEM", &["x", "y"]), REQUEST, Some(&cached(REQUEST, &object, Projection::Whole)))
        };
        let conditions = |kinds: &[&str]| kinds.iter().map(|kind| json!({"type": kind})).collect::<Value>();
        assert_eq!(with("/spec/signerName", json!("example.com/a")), None);
        for (path, value, expected) in [
            (
                "/spec/signerName",
                json!("example.com/c"),
                r#"its signer is "example.com/c", and those of the setting are example.com/a, example.com/b"#,
            ),
            ("/status/conditions", json!([]), "it is not approved, or it is denied, failed or signed"),
            (
                "/status/conditions",
                conditions(&["Approved", "Denied"]),
                "it is not approved, or it is denied, failed or signed",
            ),
            (
                "/status/conditions",
                conditions(&["Failed", "Approved"]),
                "it is not approved, or it is denied, failed or signed",
            ),
            ("/status/certificate", json!("eA=="), "it is not approved, or it is denied, failed or signed"),
            ("/spec/request", json!(STANDARD.encode("PEM ")), "its spec.request is another one"),
            ("/spec/usages", json!(["y", "x"]), "its usages are y, x"),
        ] {
            assert_eq!(with(path, value).as_deref(), Some(expected), "{path}");
        }
        assert!(with("/spec/request", json!("?")).unwrap().starts_with("its spec.request is not base64"));
        assert!(with("/spec/usages", json!("x")).unwrap().starts_with("it does not parse"));
        // Another kind, no object, and an object whose watch does not show everything.
        let need = asked("ca", "PEM", &["x", "y"]);
        let pods = check(&need, "v1/Pod", Some(&cached("v1/Pod", &approved(), Projection::Whole)));
        assert_eq!(pods.as_deref(), Some("it is not a CertificateSigningRequest"));
        let fields = FieldMask::new(["spec", "status.conditions"].map(|path| path.parse().unwrap()));
        for object in [None, Some(&cached(REQUEST, &approved(), Projection::Fields(fields)))] {
            let why = check(&need, REQUEST, object).unwrap();
            assert_eq!(why, "the caches do not show it whole, which takes `whole: true` in its watch");
        }
    }

    /// A Secret with these annotations, as a watch has it that lists both.
    fn secret(annotations: &Value) -> Object {
        let paths = [ACCOUNT_NAME, ACCOUNT_UID].map(|name| FieldPath::of(&["metadata", "annotations", name]));
        let object = json!({"metadata": {"namespace": "ns", "name": "a", "annotations": annotations}});
        cached("v1/Secret", &object, Projection::Fields(FieldMask::new(paths)))
    }

    fn token(claims: &Value) -> Need {
        Need::SignJwt { key: "tokens".into(), claims: claims.to_string() }
    }

    fn claims() -> Value {
        json!({
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:ns:robot",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "a",
            "kubernetes.io/serviceaccount/service-account.name": "robot",
            "kubernetes.io/serviceaccount/service-account.uid": "uid-robot",
        })
    }

    #[test]
    fn a_key_for_tokens_in_secrets_signs_only_the_claims_of_its_secret() {
        let manifest = manifest();
        let check =
            |need: &Need, kind: &str, object: Option<&Object>| why(check(need, &manifest, &key(kind, "ns"), object));
        let named = secret(&json!({ACCOUNT_NAME: "robot"}));
        let whole = secret(&json!({ACCOUNT_NAME: "robot", ACCOUNT_UID: "uid-robot"}));
        for object in [&named, &whole] {
            assert_eq!(check(&token(&claims()), "v1/Secret", Some(object)), None);
            // Each claim must be there, with this text.
            for (claim, value) in claims().as_object().unwrap() {
                for other in [json!("other"), json!(""), json!([value]), Value::Null] {
                    let mut claims = claims();
                    claims[claim] = other.clone();
                    let why = check(&token(&claims), "v1/Secret", Some(object));
                    // Without the annotation, any uid may be that of the ServiceAccount.
                    let is_right = std::ptr::eq(object, &named) && claim.ends_with(".uid") && other == "other";
                    assert_eq!(why.is_none(), is_right, "{claim} {other}");
                    assert!(why.is_none_or(|why| !other.is_string() || why.contains(claim)));
                }
                let mut claims = claims();
                claims.as_object_mut().unwrap().remove(claim);
                assert!(check(&token(&claims), "v1/Secret", Some(object)).unwrap().contains("missing field"));
            }
        }
        let mut more = claims();
        more["aud"] = json!("other");
        assert!(check(&token(&more), "v1/Secret", Some(&whole)).unwrap().contains("unknown field `aud`"));
        let twice = claims().to_string().replacen('{', r#"{"iss":"other","#, 1);
        let twice = Need::SignJwt { key: "tokens".into(), claims: twice };
        assert!(check(&twice, "v1/Secret", Some(&whole)).unwrap().contains("duplicate field `iss`"));
        // Another kind, no object, no annotation, and a watch that does not have it.
        let none = cached(
            "v1/Secret",
            &json!({"metadata": {"namespace": "ns", "name": "a"}}),
            Projection::Fields(FieldMask::default()),
        );
        for (kind, object, expected) in [
            ("v1/ConfigMap", Some(&whole), "it is not a Secret"),
            ("v1/Secret", None, "the caches do not show it"),
            ("v1/Secret", Some(&secret(&json!({}))), "it has no annotation kubernetes.io/service-account.name"),
            (
                "v1/Secret",
                Some(&none),
                "its watch does not have metadata.annotations['kubernetes.io/service-account.name'] in `fields`",
            ),
        ] {
            assert_eq!(check(&token(&claims()), kind, object).as_deref(), Some(expected));
        }
    }

    #[test]
    fn an_authority_without_signers_and_other_needs_are_not_limited() {
        let need = asked("open", "other", &[]);
        let jwt = Need::SignJwt { key: "free".into(), claims: "{}".into() };
        for need in [need, asked("unknown", "other", &[]), jwt, Need::Discovery] {
            assert_eq!(check(&need, &manifest(), &key("v1/Pod", "ns"), None), Ok(()));
        }
    }

    #[test]
    fn a_refusal_names_the_setting_and_the_object() {
        let error = check(&asked("ca", "PEM", &[]), &manifest(), &key(REQUEST, ""), None).unwrap_err();
        let start = r#""ca" signs only what the object of the key, certificates.k8s.io/v1/CertificateSigningRequest a, asks for: "#;
        assert!(error.message.starts_with(start), "{}", error.message);
    }
}
