//! Converts a failed run of a host to a case that `pintle test` replays.

use std::sync::Arc;

use anyhow::Context as _;
use pintle_core::contract::manifest::{Manifest, SettingType};
use pintle_core::contract::outcome::{CertificateRequest, Need, NeedError};
use pintle_runtime::failures::FailedRun;
use pintle_sources::admin::SavedRun;
use serde_json::{Map, Value};

use super::input::{
    Input, InputCall, InputError, InputFailure, InputResource, InputReview, InputSignature, InputSubresource,
};
use super::mask;

/// The case of a run. Values of Secrets, of settings that may come from files, and tokens, are masked unless `secrets`
/// is set.
///
/// # Errors
/// An input cannot be represented in JSON.
pub fn save(run: &FailedRun, secrets: bool) -> anyhow::Result<SavedRun> {
    let mut input = Input::<()>::of(&run.identity.key, &run.now);
    let mut left_out = Vec::new();
    input.uptime = run.uptime.as_secs_f64();
    input.attempt = run.attempt;
    input.failures = run.failures.iter().map(InputFailure::from).collect();
    input.config = serde_json::from_str(&run.config).context("read the configuration")?;
    leave_out_bound(&mut input.config, &run.manifest);
    input.objects = run.read_set.objects.iter().map(|object| object.value()).collect();
    let state = run.read_set.state.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    input.state = state.collect();
    input.resources = run.read_set.resources.iter().flat_map(|all| all.iter()).map(InputResource::from).collect();
    for (need, answer) in &run.read_set.answers {
        left_out.extend(take_in(&mut input, need, answer.as_ref()));
    }
    if run.read_set.is_incomplete {
        left_out.push("the run read more than is kept: objects or answers are missing".to_owned());
    }
    let mut n_masked = 0;
    if !secrets {
        n_masked += mask_settings(&mut input.config, &run.manifest);
    }
    let mut input = serde_json::to_value(input).context("write the input")?;
    if !secrets {
        n_masked += mask::secrets(&mut input) + mask::tokens(&mut input);
    }
    Ok(SavedRun { input, n_masked, left_out })
}

/// Adds the answer of a need to the case; returns a description if it cannot be represented.
fn take_in(input: &mut Input, need: &Need, answer: Result<&Arc<str>, &NeedError>) -> Option<String> {
    if matches!(need, Need::LiveObject { .. } | Need::LiveList { .. }) {
        // A missing object is absent there, even if the caches have it.
        input.live.get_or_insert_default();
    }
    if let Some(refused) = answer.err().and_then(|error| InputSignature::refused(need, error)) {
        input.signatures.push(refused);
        return None;
    }
    if let (Need::Call { endpoint, operation, body, .. }, Err(error)) = (need, answer) {
        input.calls.push(InputCall::refused(endpoint, operation, body, error));
        return None;
    }
    let told = match (need, answer) {
        (Need::Discovery, Err(error)) => {
            input.discovery.error = Some(InputError::from(error));
            return None;
        }
        (_, Err(error)) if error.code == 404 => return None,
        (need, Err(error)) => {
            let NeedError { code, reason, message } = error;
            return Some(format!("{} was answered {code} {reason}: {message}; here it is not found", shown(need)));
        }
        (_, Ok(text)) => text,
    };
    if let Some(signature) = InputSignature::new(need, told) {
        input.signatures.push(signature);
        return None;
    }
    let Ok(answer) = serde_json::from_str::<Value>(told) else {
        return Some(format!("{} was answered something that is no JSON; here it is not found", shown(need)));
    };
    match need {
        Need::LiveObject { subresource: None, .. } => add_live(input, answer),
        Need::LiveObject { kind, object, subresource: Some(subresource) } => {
            input.subresources.push(InputSubresource::new(kind, object, subresource, answer));
        }
        Need::Review { kind, namespace, object } => {
            input.reviews.push(InputReview::new(kind, namespace, object, &answer))
        }
        // Their answers are not JSON; see above.
        Need::SignJwt { .. } | Need::SignCertificate(_) => {}
        Need::Call { endpoint, operation, body, .. } => {
            input.calls.push(InputCall::new(endpoint, operation, body, answer));
        }
        Need::LiveList { .. } => {
            for object in answer.as_array().into_iter().flatten() {
                add_live(input, object.clone());
            }
        }
        Need::RawPath(path) => drop(input.raw.insert(path.clone(), answer)),
        Need::Discovery => input.discovery.failed = serde_json::from_value(answer).unwrap_or_default(),
    }
    None
}

/// Adds a live object, or completes one whose metadata a list has returned.
fn add_live(input: &mut Input, object: Value) {
    let name = |object: &Value| {
        let meta = &object["metadata"];
        [&object["apiVersion"], &object["kind"], &meta["namespace"], &meta["name"]].map(Value::clone)
    };
    let live = input.live.get_or_insert_default();
    match live.iter_mut().find(|there| name(there) == name(&object)) {
        Some(there) if there.as_object().map(Map::len) < object.as_object().map(Map::len) => *there = object,
        Some(_) => {}
        None => live.push(object),
    }
}

fn shown(need: &Need) -> String {
    match need {
        Need::LiveObject { kind, object, subresource } => {
            let subresource = subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
            format!("the live {kind}{subresource} {object}")
        }
        Need::Review { kind, .. } => format!("the {kind}"),
        Need::SignJwt { key: by, .. } | Need::SignCertificate(CertificateRequest { authority: by, .. }) => {
            format!("the signature by {by}")
        }
        Need::Call { endpoint, operation, .. } => format!("the call of {endpoint}/{operation}"),
        Need::LiveList { kind, namespace, .. } => format!("the live list of {kind} in {namespace:?}"),
        Need::RawPath(path) => format!("the path {path}"),
        Need::Discovery => "discovery".to_owned(),
    }
}

/// Removes keys and authorities: the signatures of a case show which of them are bound.
fn leave_out_bound(config: &mut Map<String, Value>, manifest: &Manifest) {
    config.retain(|name, _| manifest.config.get(name).is_none_or(|setting| !setting.kind.is_secret()));
}

/// Settings that may come from files, which are often mounted from Secrets.
fn mask_settings(config: &mut Map<String, Value>, manifest: &Manifest) -> usize {
    let from_file =
        manifest.config.iter().filter(|(_, setting)| setting.from_file && setting.kind == SettingType::String);
    let mut n_masked = 0;
    for (name, setting) in from_file {
        if let Some(value) = config.get_mut(name)
            && setting.default.as_ref() != Some(value)
        {
            n_masked += mask::text(value);
        }
    }
    n_masked
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::outcome::CertificateRequest;
    use pintle_core::object::id::{Key, Kind, ObjectKey};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_case_has_no_bound_keys_in_its_configuration() {
        let manifest = json!({
            "name": "signer", "version": "1.0.0", "contract": "0.2", "queues": [{"name": "signer"}],
            "watches": [{"kind": "v1/Pod", "enqueue": [{"to": "self"}]}],
            "config": {"days": {"type": "integer", "default": 3}, "key": {"type": "key"}, "ours": {"type": "authority"}},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let mut config = serde_json::from_value(json!({"days": 3, "key": true, "ours": true})).unwrap();
        leave_out_bound(&mut config, &manifest);
        assert_eq!(Value::Object(config), json!({"days": 3}));
    }

    #[test]
    fn signatures_and_calls_come_with_their_refusals_and_tokens_without_their_signature() {
        let key = Key { queue: "q".into(), kind: Kind::new("", "v1", "Pod"), object: ObjectKey::new("ns", "a") };
        let mut input = Input::<()>::of(&key, "2026-01-01T00:00:00Z");
        input.state = [("session".to_owned(), "Bearer eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.signature".to_owned())].into();
        let jwt = |name: &str| Need::SignJwt { key: name.into(), claims: r#"{"sub":"ann"}"#.into() };
        let certificate = Need::SignCertificate(CertificateRequest {
            authority: "ca".into(),
            request: "REQUEST".into(),
            usages: Vec::new(),
            not_before: String::new(),
            not_after: String::new(),
        });
        let call = |operation: &str| Need::Call {
            endpoint: "desk".into(),
            operation: operation.into(),
            body: r#"{"name":"ann"}"#.into(),
            timeout: None,
        };
        let review = Need::Review {
            kind: Kind::new("authentication.k8s.io", "v1", "TokenReview"),
            namespace: String::new(),
            object: r#"{"spec":{"token":"opaque","audiences":["me"]}}"#.into(),
        };
        let error = |code, reason: &str| NeedError { code, reason: reason.into(), message: "no".into() };
        for (need, answer) in [
            (jwt("key"), Ok("eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.signature")),
            (review, Ok(r#"{"status":{"authenticated":true}}"#)),
            (jwt("other"), Err(error(0, "NotGranted"))),
            (certificate, Ok("-----BEGIN CERTIFICATE-----")),
            (call("look-up"), Ok(r#"{"place":"eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.here"}"#)),
            (call("hide"), Err(error(404, "NotFound"))),
        ] {
            let answer = answer.map(Arc::<str>::from);
            assert_eq!(take_in(&mut input, &need, answer.as_ref()), None);
        }
        let mut saved = serde_json::to_value(&input).unwrap();
        assert_eq!(mask::tokens(&mut saved), 4);
        assert_eq!(saved["state"], json!({"session": "Bearer eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.KioqKioqKio"}));
        assert_eq!(
            saved["reviews"],
            json!([{"kind": "authentication.k8s.io/v1/TokenReview", "spec": {"audiences": ["me"]}, "status": {"authenticated": true}}])
        );
        let refused = |code: u16, reason: &str| json!({"code": code, "reason": reason, "message": "no"});
        assert_eq!(
            saved["signatures"],
            json!([
                {"by": "key", "claims": {"sub": "ann"}, "answer": "eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.KioqKioqKio"},
                {"by": "other", "claims": {"sub": "ann"}, "error": refused(0, "NotGranted")},
                {"by": "ca", "answer": "-----BEGIN CERTIFICATE-----"},
            ])
        );
        let body = json!({"name": "ann"});
        assert_eq!(
            saved["calls"],
            json!([
                {"endpoint": "desk", "operation": "look-up", "body": body, "answer": {"place": "eyJhIjoxfQ.eyJzdWIiOiJhbm4ifQ.KioqKioqKio"}},
                {"endpoint": "desk", "operation": "hide", "body": body, "answer": null, "error": refused(404, "NotFound")},
            ])
        );
    }
}
