//! Outcomes as YAML, for comparison with files.

use serde_json::{Map, Value, json};

use super::fixture::FixtureLister;
use crate::error::Error;
use crate::need::{CertificateRequest, LiveDetail, Need};
use crate::outcome::{
    Action, Event, EventType, Moment, Mutation, Order, Outcome, PatchType, Place, Preconditions, Propagation, Refusal,
};
use crate::types::{Key, Kind, ObjectKey};

/// A result as YAML. Updates are rendered as differences to the objects of the lister.
pub fn result_to_yaml(result: &Result<Outcome, Error>, asked: &[Need], lister: &FixtureLister) -> String {
    let mut shown = Map::new();
    if !asked.is_empty() {
        shown.insert("asked".into(), asked.iter().map(need).collect());
    }
    match result {
        Ok(result) => shown.append(&mut outcome(result, Some(lister))),
        Err(declared) => shown.append(&mut error(declared)),
    }
    to_yaml(&shown)
}

fn error(error: &Error) -> Map<String, Value> {
    let mut shown = Map::new();
    match error {
        Error::Retry { message, after } => {
            shown.insert("retry".into(), message.clone().into());
            if let Some(after) = after {
                shown.insert("after".into(), format!("{after:?}").into());
            }
        }
        Error::Terminal(message) => drop(shown.insert("terminal".into(), message.clone().into())),
        Error::Needs(needs) => drop(shown.insert("needs".into(), needs.iter().map(need).collect())),
    }
    shown
}

/// An outcome as YAML, with updates in full.
pub fn outcome_to_yaml(result: &Outcome) -> String {
    to_yaml(&outcome(result, None))
}

fn to_yaml(shown: &Map<String, Value>) -> String {
    // Every key is a string, and writing to memory does not fail.
    serde_norway::to_string(shown).expect("serializes")
}

fn outcome(outcome: &Outcome, lister: Option<&FixtureLister>) -> Map<String, Value> {
    let mut shown = Map::new();
    if !outcome.needs.is_empty() {
        shown.insert("needs".into(), outcome.needs.iter().map(need).collect());
    }
    let steps: Vec<Value> = outcome
        .steps
        .iter()
        .map(|step| {
            let order = match step.order {
                Order::Sequential => "sequential",
                Order::Parallel => "parallel",
                Order::SlowStart => "slow-start",
            };
            let mut shown = Map::new();
            shown.insert("order".into(), order.into());
            if step.always {
                shown.insert("always".into(), true.into());
            }
            shown.insert("mutations".into(), mutations(&step.mutations, lister));
            Value::Object(shown)
        })
        .collect();
    shown.insert("steps".into(), Value::Array(steps));
    if let Some(after) = outcome.requeue_after {
        shown.insert("requeueAfter".into(), format!("{after:?}").into());
    }
    if !outcome.state.is_empty() {
        let state: Map<_, _> = outcome.state.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        shown.insert("state".into(), state.into());
    }
    if !outcome.observations.is_empty() {
        let samples = outcome.observations.iter().map(|sample| {
            let place = |Place { step, position }| format!("steps[{step}].mutations[{position}]");
            let at = match sample.at {
                Moment::Now => String::new(),
                Moment::Done(at) => format!(" when {} is done", place(at)),
                Moment::Failed(at) => format!(" when {} has failed", place(at)),
            };
            format!("{}{{{}}} {}{at}", sample.metric, sample.labels.join(","), sample.value).into()
        });
        shown.insert("observations".into(), Value::Array(samples.collect()));
    }
    if !outcome.wake.is_empty() {
        let keys = outcome.wake.iter().map(|wake| {
            let after = wake.after.map(|after| format!(" after {after:?}")).unwrap_or_default();
            let Key { queue, kind, namespace, name } = &wake.key;
            format!("{queue}: {kind} {}{after}", ObjectKey::new(namespace, name)).into()
        });
        shown.insert("wake".into(), Value::Array(keys.collect()));
    }
    if !outcome.run_labels.is_empty() {
        let labels: Map<_, _> = outcome.run_labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        shown.insert("runLabels".into(), labels.into());
    }
    if let Some(declared) = &outcome.error {
        shown.insert("error".into(), error(declared).into());
    }
    shown
}

fn mutations(mutations: &[Mutation], lister: Option<&FixtureLister>) -> Value {
    let mut shown: Vec<Value> = Vec::new();
    for same in mutations.chunk_by(|a, b| a == b) {
        let mut mutation = mutation(&same[0], lister);
        if same.len() > 1 {
            mutation.insert("times".into(), same.len().into());
        }
        shown.push(Value::Object(mutation));
    }
    Value::Array(shown)
}

fn mutation(mutation: &Mutation, lister: Option<&FixtureLister>) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            shown.insert(name.to_owned(), value);
        }
    };
    match &mutation.action {
        Action::Create { kind, namespace, object, subresource } => {
            put("create", target(kind, &ObjectKey::new("", namespace), subresource));
            put("object", parse(object));
        }
        Action::Update { kind, object, subresource } => {
            let new = parse(object);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let key = ObjectKey::new(text(&new["metadata"]["namespace"]), text(&new["metadata"]["name"]));
            put("update", target(kind, &key, subresource));
            match lister.and_then(|lister| lister.original(kind, &key)) {
                Some(old) => put("changes", difference(old, &new)),
                None => put("object", new),
            }
        }
        Action::Patch { kind, object, subresource, patch_type, body, preconditions } => {
            put("patch", target(kind, object, subresource));
            let form = match patch_type {
                PatchType::Json => "json".to_owned(),
                PatchType::Merge => "merge".to_owned(),
                PatchType::StrategicMerge => "strategic-merge".to_owned(),
                PatchType::Apply { field_manager, force } => format!("apply by {field_manager}, force: {force}"),
            };
            put("form", form.into());
            put("if", conditions(preconditions));
            put("body", parse(body));
        }
        Action::Delete { kind, object, preconditions, propagation, grace_period_seconds } => {
            put("delete", target(kind, object, &None));
            put("if", conditions(preconditions));
            put("propagation", propagation_name(*propagation));
            put("gracePeriodSeconds", json!(grace_period_seconds));
        }
        Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
            put("deleteCollection", target(kind, &ObjectKey::new("", namespace), &None));
            put("labelSelector", json!(label_selector));
            put("propagation", propagation_name(*propagation));
        }
        Action::Event(single) => put("event", event(single)),
    }
    put("onSuccess", mutation.on_success.as_ref().map_or(Value::Null, event));
    put("onFailure", mutation.on_failure.as_ref().map_or(Value::Null, event));
    if !mutation.tolerate.is_empty() {
        let name = |refusal: &Refusal| match refusal {
            Refusal::NotFound => "not-found",
            Refusal::AlreadyExists => "already-exists",
            Refusal::Conflict => "conflict",
            Refusal::Invalid => "invalid",
            Refusal::Forbidden => "forbidden",
            Refusal::NamespaceTerminating => "namespace-terminating",
        };
        put("tolerate", mutation.tolerate.iter().map(name).collect());
    }
    shown
}

fn target(kind: &Kind, object: &ObjectKey, subresource: &Option<String>) -> Value {
    let subresource = subresource.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{kind}{subresource} {object}").trim_end().into()
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("the plugin wrote bad JSON: {error}: {text}"))
}

fn conditions(preconditions: &Preconditions) -> Value {
    let mut shown = Map::new();
    let fields = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
    for (name, value) in fields {
        if let Some(value) = value {
            shown.insert(name.into(), value.clone().into());
        }
    }
    if shown.is_empty() { Value::Null } else { shown.into() }
}

fn propagation_name(propagation: Option<Propagation>) -> Value {
    match propagation {
        None => Value::Null,
        Some(Propagation::Background) => "background".into(),
        Some(Propagation::Foreground) => "foreground".into(),
        Some(Propagation::Orphan) => "orphan".into(),
    }
}

fn event(event: &Event) -> Value {
    let event_type = match event.event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    let Event { regarding_kind, regarding, regarding_uid, reason, message, .. } = event;
    format!("{event_type} {reason} on {regarding_kind} {regarding} ({regarding_uid}): {message}").into()
}

fn need(need: &Need) -> Value {
    match need {
        Need::LiveObject { kind, object, subresource } => {
            format!("get {}", target(kind, object, subresource).as_str().unwrap_or_default()).into()
        }
        Need::LiveList { kind, namespace, label_selector, field_selector, detail, limit } => {
            let labels = label_selector.as_deref().unwrap_or_default();
            let fields = field_selector.as_ref().map(|fields| format!(" and fields {fields:?}")).unwrap_or_default();
            let detail = match detail {
                LiveDetail::Metadata => "",
                LiveDetail::Projection => ", as projections",
                LiveDetail::Whole => ", whole",
            };
            format!("list {kind} in {namespace:?} with {labels:?}{fields}, at most {limit}{detail}").into()
        }
        Need::RawPath(path) => format!("get {path}").into(),
        Need::Discovery => "discover".into(),
        Need::Review { kind, namespace, object } => {
            let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            serde_json::json!({"review": format!("{kind}{place}"), "object": parse(object)})
        }
        Need::SignJwt { key, claims } => serde_json::json!({"sign-jwt": key, "claims": parse(claims)}),
        Need::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after }) => {
            serde_json::json!({
                "sign-certificate": authority, "request": request, "usages": usages, "notBefore": not_before,
                "notAfter": not_after,
            })
        }
        Need::Call { endpoint, operation, body, timeout } => {
            let mut shown = serde_json::json!({"call": format!("{endpoint}/{operation}"), "body": parse(body)});
            if let Some(timeout) = timeout {
                shown["timeoutMs"] = serde_json::json!(timeout.as_millis());
            }
            shown
        }
    }
}

/// The difference, as a merge patch (RFC 7386).
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut changes = Map::new();
    for (name, value) in new {
        match old.get(name) {
            Some(before) if before == value => {}
            Some(before) => drop(changes.insert(name.clone(), difference(before, value))),
            None => drop(changes.insert(name.clone(), value.clone())),
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    changes.into()
}
