//! Comparable form of the outcomes of two versions for the same view.
//!
//! Objects and patches are compared as JSON values: field order and white space do not matter. Log lines and
//! observations are left out, because they change nothing in the cluster.

use std::borrow::Borrow;

use serde_json::{Map, Value, json};

use crate::contract::outcome::{
    Action, CertificateRequest, Event, LiveDetail, Mutation, Need, Order, Outcome, PatchType, Preconditions,
    ReconcileError,
};
use crate::ports::guest::Answer;

/// The result of a call, for comparison and display. `{}`: an empty outcome.
pub fn shown<O: Borrow<Outcome>>(answer: &Answer<O>) -> Value {
    match answer {
        Err(fault) => json!({"fault": fault.kind.as_str(), "message": fault.message}),
        Ok(Err(ReconcileError::Retry { message, after })) => {
            let mut retry = Map::from_iter([("message".to_owned(), json!(message))]);
            put(&mut retry, "afterMs", after.map(|after| json!(after.as_millis() as u64)));
            json!({"retry": retry})
        }
        Ok(Err(ReconcileError::Terminal(message))) => json!({"terminal": message}),
        Ok(Ok(outcome)) => wanted(outcome.borrow()),
    }
}

/// Whether the outcome has a write other than an event.
pub fn has_writes<O: Borrow<Outcome>>(answer: &Answer<O>) -> bool {
    let Ok(Ok(outcome)) = answer else { return false };
    let mut mutations = outcome.borrow().steps.iter().flat_map(|step| &step.mutations);
    mutations.any(|mutation| !matches!(mutation.action, Action::Event(_)))
}

/// Number of deletions in the outcome. A collection counts as one.
pub fn n_deletions<O: Borrow<Outcome>>(answer: &Answer<O>) -> u32 {
    let Ok(Ok(outcome)) = answer else { return 0 };
    let mutations = outcome.borrow().steps.iter().flat_map(|step| &step.mutations);
    let deletes =
        |mutation: &&Mutation| matches!(mutation.action, Action::Delete { .. } | Action::DeleteCollection { .. });
    mutations.filter(deletes).count().try_into().unwrap_or(u32::MAX)
}

fn wanted(outcome: &Outcome) -> Value {
    let mut shown = Map::new();
    put_list(&mut shown, "needs", outcome.needs.iter().map(need).collect());
    let steps = outcome.steps.iter().map(|step| {
        let order = match step.order {
            Order::Sequential => "sequential",
            Order::Parallel => "parallel",
            Order::SlowStart => "slow-start",
        };
        let mutations: Vec<Value> = step.mutations.iter().map(mutation).collect();
        json!({"order": order, "always": step.always, "mutations": mutations})
    });
    put_list(&mut shown, "steps", steps.collect());
    put(&mut shown, "requeueAfterMs", outcome.requeue_after.map(|after| json!(after.as_millis() as u64)));
    let state = outcome.state.iter().map(|(name, value)| (name.clone(), json!(value)));
    let state: Map<String, Value> = state.collect();
    put(&mut shown, "state", (!state.is_empty()).then_some(Value::Object(state)));
    let wake = outcome.wake.iter().map(|wake| {
        let mut shown =
            json!({"queue": wake.key.queue, "kind": wake.key.kind.to_string(), "object": wake.key.object.to_string()});
        if let Some(after) = wake.after {
            shown["afterMs"] = json!(after.as_millis() as u64);
        }
        shown
    });
    put_list(&mut shown, "wake", wake.collect());
    Value::Object(shown)
}

fn put(map: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value);
    }
}

fn put_list(map: &mut Map<String, Value>, name: &str, values: Vec<Value>) {
    put(map, name, (!values.is_empty()).then_some(Value::Array(values)));
}

/// The text as JSON; as a string if it is not JSON.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn need(need: &Need) -> Value {
    match need {
        Need::LiveObject { kind, object, subresource } => {
            let mut shown = json!({"get": kind.to_string(), "object": object.to_string()});
            if let Some(subresource) = subresource {
                shown["subresource"] = json!(subresource);
            }
            shown
        }
        Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
            let mut shown = json!({"list": kind.to_string(), "namespace": namespace, "labelSelector": label_selector, "limit": limit});
            if let Some(selector) = field_selector {
                shown["fieldSelector"] = json!(selector);
            }
            if *detail != LiveDetail::Metadata {
                shown["detail"] = json!(detail.as_str());
            }
            shown
        }
        Need::RawPath(path) => json!({"path": path}),
        Need::Discovery => json!("discovery"),
        Need::Review { kind, namespace, object } => {
            json!({"review": kind.to_string(), "namespace": namespace, "object": parsed(object)})
        }
        Need::SignJwt { key, claims } => json!({"signJwt": key, "claims": parsed(claims)}),
        Need::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after }) => json!({
            "signCertificate": authority, "request": request, "usages": usages, "notBefore": not_before,
            "notAfter": not_after,
        }),
        Need::Call { endpoint, operation, body, timeout } => json!({
            "call": format!("{endpoint}/{operation}"), "body": parsed(body),
            "timeoutMs": timeout.map(|timeout| timeout.as_millis()),
        }),
    }
}

fn mutation(mutation: &Mutation) -> Value {
    let mut shown = action(&mutation.action);
    put(&mut shown, "onSuccess", mutation.on_success.as_ref().map(event));
    put(&mut shown, "onFailure", mutation.on_failure.as_ref().map(event));
    put_list(&mut shown, "tolerate", mutation.tolerate.iter().map(|refusal| json!(format!("{refusal:?}"))).collect());
    Value::Object(shown)
}

fn event(event: &Event) -> Value {
    json!({
        "regarding": format!("{} {}", event.regarding_kind, event.regarding),
        "uid": event.regarding_uid,
        "type": if event.warning { "Warning" } else { "Normal" },
        "reason": event.reason,
        "message": event.message,
    })
}

fn action(action: &Action) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut say = |name: &str, value: Value| {
        shown.insert(name.to_owned(), value);
    };
    let preconditions = |of: &Preconditions| json!({"uid": of.uid, "resourceVersion": of.resource_version});
    match action {
        Action::Create { kind, namespace, object, subresource } => {
            say("create", json!(kind.to_string()));
            say("namespace", json!(namespace));
            say("object", parsed(object));
            say("subresource", json!(subresource));
        }
        Action::Update { kind, object, subresource } => {
            say("update", json!(kind.to_string()));
            say("object", parsed(object));
            say("subresource", json!(subresource));
        }
        Action::Patch { kind, object, subresource, patch_type, body, preconditions: of } => {
            let form = match patch_type {
                PatchType::Json => "json".to_owned(),
                PatchType::Merge => "merge".to_owned(),
                PatchType::StrategicMerge => "strategic-merge".to_owned(),
                PatchType::Apply { field_manager, force } => format!("apply by {field_manager}, force {force}"),
            };
            say("patch", json!(kind.to_string()));
            say("object", json!(object.to_string()));
            say("subresource", json!(subresource));
            say("form", json!(form));
            say("body", parsed(body));
            say("preconditions", preconditions(of));
        }
        Action::Delete { kind, object, preconditions: of, propagation, grace_period_seconds } => {
            say("delete", json!(kind.to_string()));
            say("object", json!(object.to_string()));
            say("preconditions", preconditions(of));
            say("propagation", json!(propagation.map(|propagation| format!("{propagation:?}"))));
            say("gracePeriodSeconds", json!(grace_period_seconds));
        }
        Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
            say("deleteCollection", json!(kind.to_string()));
            say("namespace", json!(namespace));
            say("labelSelector", json!(label_selector));
            say("propagation", json!(propagation.map(|propagation| format!("{propagation:?}"))));
        }
        Action::Event(one) => say("event", event(one)),
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::outcome::{Moment, Observation, Step};
    use crate::object::id::Kind;
    use crate::ports::guest::{FaultKind, PluginFault};

    fn create(object: &str) -> Answer<Outcome> {
        let kind = Kind::new("", "v1", "Pod");
        let action = Action::Create { kind, namespace: "ns".into(), object: object.into(), subresource: None };
        let mutation = Mutation { action, on_success: None, on_failure: None, tolerate: Vec::new() };
        let steps = vec![Step { order: Order::Sequential, mutations: vec![mutation], always: false }];
        Ok(Ok(Outcome { steps, ..Outcome::default() }))
    }

    #[test]
    fn values_are_compared_and_field_order_is_not() {
        assert_eq!(shown(&create(r#"{"a":1,"b":[1,2]}"#)), shown(&create(r#"{ "b": [1,2], "a": 1 }"#)));
        assert_ne!(shown(&create(r#"{"a":1,"b":[1,2]}"#)), shown(&create(r#"{"a":1,"b":[2,1]}"#)));
        assert_ne!(shown(&create("{}")), shown(&Ok(Ok(Outcome::default()))));
    }

    #[test]
    fn parts_without_effect_on_the_cluster_are_left_out() {
        let observation = Observation { metric: "m".into(), labels: Vec::new(), value: 1.0, at: Moment::Now };
        let outcome = Outcome { observations: vec![observation], ..Outcome::default() };
        assert_eq!(shown(&Ok(Ok(outcome))), json!({}));
    }

    #[test]
    fn errors_and_faults_are_shown() {
        let fault = PluginFault { kind: FaultKind::Trap, message: "unreachable".into() };
        assert_eq!(shown::<Outcome>(&Err(fault)), json!({"fault": "trap", "message": "unreachable"}));
        let retry = ReconcileError::Retry { message: "not yet".into(), after: None };
        assert_eq!(shown::<Outcome>(&Ok(Err(retry))), json!({"retry": {"message": "not yet"}}));
        assert_ne!(shown::<Outcome>(&Ok(Err(ReconcileError::Terminal("x".into())))), json!({}));
    }
}
