//! Renders outcomes in the format of the expected ones of cases, which is that of the SDKs' own tests.

use pintle_core::contract::outcome::{
    Action, CertificateRequest, Event, LiveDetail, Moment, Mutation, Need, Order, Outcome, PatchType, Preconditions,
    Propagation, ReconcileError, Refusal,
};
use pintle_core::object::id::{Kind, ObjectKey};
use serde_json::{Map, Value, json};

/// The objects that updates replace.
pub(crate) trait Originals {
    /// The stored object of this kind and name.
    fn original(&self, kind: &Kind, object: &ObjectKey) -> Option<Value>;
}

/// A result, with the needs of earlier rounds. Updates are shown as differences to the cached objects.
pub(crate) fn result(result: &Result<Outcome, ReconcileError>, asked: &[Need], cluster: &dyn Originals) -> Value {
    let mut shown = Map::new();
    if !asked.is_empty() {
        shown.insert("asked".into(), asked.iter().map(need).collect());
    }
    match result {
        Ok(wanted) => shown.append(&mut outcome(wanted, cluster)),
        Err(declared) => shown.append(&mut error(declared)),
    }
    Value::Object(shown)
}

fn error(error: &ReconcileError) -> Map<String, Value> {
    let mut shown = Map::new();
    match error {
        ReconcileError::Retry { message, after } => {
            shown.insert("retry".into(), message.clone().into());
            if let Some(after) = after {
                shown.insert("after".into(), format!("{after:?}").into());
            }
        }
        ReconcileError::Terminal(message) => drop(shown.insert("terminal".into(), message.clone().into())),
    }
    shown
}

fn outcome(outcome: &Outcome, cluster: &dyn Originals) -> Map<String, Value> {
    let mut shown = Map::new();
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
            shown.insert("mutations".into(), mutations(&step.mutations, cluster));
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
            let at = match sample.at {
                Moment::Now => String::new(),
                Moment::Done(place) => format!(" when {} is done", place),
                Moment::Failed(place) => format!(" when {} has failed", place),
            };
            format!("{}{{{}}} {}{at}", sample.metric, sample.labels.join(","), sample.value).into()
        });
        shown.insert("observations".into(), Value::Array(samples.collect()));
    }
    if !outcome.wake.is_empty() {
        let keys = outcome.wake.iter().map(|wake| {
            let after = wake.after.map(|after| format!(" after {after:?}")).unwrap_or_default();
            format!("{}: {} {}{after}", wake.key.queue, wake.key.kind, wake.key.object).into()
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

/// Consecutive equal ones are shown once.
fn mutations(mutations: &[Mutation], cluster: &dyn Originals) -> Value {
    let shown = mutations.chunk_by(|a, b| a == b).map(|same| {
        let mut shown = mutation(&same[0], cluster);
        if same.len() > 1 {
            shown.insert("times".into(), same.len().into());
        }
        Value::Object(shown)
    });
    Value::Array(shown.collect())
}

fn mutation(mutation: &Mutation, cluster: &dyn Originals) -> Map<String, Value> {
    let mut shown = action(&mutation.action, cluster);
    for (name, told) in [("onSuccess", &mutation.on_success), ("onFailure", &mutation.on_failure)] {
        if let Some(told) = told {
            shown.insert(name.to_owned(), event(told));
        }
    }
    if !mutation.tolerate.is_empty() {
        let names = mutation.tolerate.iter().map(|refusal| match refusal {
            Refusal::NotFound => "not-found",
            Refusal::AlreadyExists => "already-exists",
            Refusal::Conflict => "conflict",
            Refusal::Invalid => "invalid",
            Refusal::Forbidden => "forbidden",
            Refusal::NamespaceTerminating => "namespace-terminating",
        });
        shown.insert("tolerate".to_owned(), names.collect());
    }
    shown
}

fn action(action: &Action, cluster: &dyn Originals) -> Map<String, Value> {
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            shown.insert(name.to_owned(), value);
        }
    };
    match action {
        Action::Create { kind, namespace, object, subresource } => {
            put("create", target(kind, &ObjectKey::new(namespace, ""), subresource.as_deref()));
            put("object", parsed(object));
        }
        Action::Update { kind, object, subresource } => {
            let new = parsed(object);
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let key = ObjectKey::new(&text(&new["metadata"]["namespace"]), &text(&new["metadata"]["name"]));
            put("update", target(kind, &key, subresource.as_deref()));
            match cluster.original(kind, &key) {
                Some(old) => put("changes", difference(&old, &new)),
                None => put("object", new),
            }
        }
        Action::Patch { kind, object, subresource, patch_type, body, preconditions } => {
            put("patch", target(kind, object, subresource.as_deref()));
            let form = match patch_type {
                PatchType::Json => "json".to_owned(),
                PatchType::Merge => "merge".to_owned(),
                PatchType::StrategicMerge => "strategic-merge".to_owned(),
                PatchType::Apply { field_manager, force } => format!("apply by {field_manager}, force: {force}"),
            };
            put("form", form.into());
            put("if", conditions(preconditions));
            put("body", parsed(body));
        }
        Action::Delete { kind, object, preconditions, propagation, grace_period_seconds } => {
            put("delete", target(kind, object, None));
            put("if", conditions(preconditions));
            put("propagation", propagation_name(*propagation));
            put("gracePeriodSeconds", json!(grace_period_seconds));
        }
        Action::DeleteCollection { kind, namespace, label_selector, propagation } => {
            put("deleteCollection", target(kind, &ObjectKey::new(namespace, ""), None));
            put("labelSelector", json!(label_selector));
            put("propagation", propagation_name(*propagation));
        }
        Action::Event(single) => put("event", event(single)),
    }
    shown
}

/// Kind, subresource, and the object or the namespace.
fn target(kind: &Kind, object: &ObjectKey, subresource: Option<&str>) -> Value {
    let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    let object = if object.name.is_empty() { object.namespace.to_string() } else { object.to_string() };
    format!("{kind}{subresource} {object}").trim_end().into()
}

/// JSON written by the plugin. Invalid JSON is shown as text: it will differ from the expectation.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| format!("not JSON ({why}): {text}").into())
}

fn conditions(preconditions: &Preconditions) -> Value {
    let fields = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
    let shown: Map<String, Value> =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into()))).collect();
    if shown.is_empty() { Value::Null } else { shown.into() }
}

fn propagation_name(propagation: Option<Propagation>) -> Value {
    propagation.map_or(Value::Null, |propagation| propagation.as_str().to_lowercase().into())
}

fn event(event: &Event) -> Value {
    let event_type = if event.warning { "Warning" } else { "Normal" };
    let Event { regarding_kind, regarding, regarding_uid, reason, message, .. } = event;
    format!("{event_type} {reason} on {regarding_kind} {regarding} ({regarding_uid}): {message}").into()
}

fn need(need: &Need) -> Value {
    match need {
        Need::LiveObject { kind, object, subresource } => {
            format!("get {}", target(kind, object, subresource.as_deref()).as_str().unwrap_or_default()).into()
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
            json!({"review": format!("{kind}{place}"), "object": parsed(object)})
        }
        Need::SignJwt { key, claims } => json!({"sign-jwt": key, "claims": parsed(claims)}),
        Need::SignCertificate(CertificateRequest { authority, request, usages, not_before, not_after }) => json!({
            "sign-certificate": authority, "request": request, "usages": usages, "notBefore": not_before,
            "notAfter": not_after,
        }),
        Need::Call { endpoint, operation, body, timeout } => {
            let mut shown = json!({"call": format!("{endpoint}/{operation}"), "body": parsed(body)});
            if let Some(timeout) = timeout {
                shown["timeoutMs"] = json!(timeout.as_millis());
            }
            shown
        }
    }
}

/// The difference, as a merge patch (RFC 7386).
pub(super) fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return new.clone() };
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
