//! Subresources: status, scale, finalize, binding, eviction, token.
//!
//! *Not here*: log, exec and similar ones, which need containers; the response is 501.
//! *Source*: the REST storages of upstream's `pkg/registry/core/pod` and `apiserver/pkg/endpoints`.

use serde_json::{Map, Value, json};

use super::delete::DeleteOptions;
use super::objects::{carry_over, has_condition, is_deleting, meta, metadata_mut, set_condition};
use super::reply::{Reply, media_type, parse_body};
use super::status::{ApiError, GroupResource};
use super::tokens::ISSUER;
use super::write::Written;
use super::{Api, Call};
use crate::cause::Cause;
use crate::clock::rfc3339;
use crate::discovery::Resource;
use crate::store::WriteVerb;
use crate::{patch, selector};

/// Most retries of an eviction on a budget with concurrent writes, as upstream's `EvictionsRetry`.
const EVICTION_ATTEMPTS: u32 = 20;

/// Most evicted Pods that a budget's controller has not processed.
const MAX_DISRUPTED: usize = 2000;
/// Default lifetime of a service account token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

impl Api {
    pub(crate) fn subresource(&self, verb: &str, name: &str, call: &Call) -> Result<Reply, ApiError> {
        match (verb, name) {
            (_, "log" | "exec" | "attach" | "portforward" | "proxy" | "ephemeralcontainers") => {
                Err(ApiError::not_served(&format!("{}/{name}", call.resource.plural)))
            }
            ("get", "scale") => self.get_scale(call),
            ("update" | "patch", "scale") => self.set_scale(verb, call),
            ("get", _) => self.get(call),
            ("update", _) => self.update(call),
            ("patch", _) => self.patch(call),
            ("create", "binding") => self.bind(call),
            ("create", "eviction") => self.evict(call),
            ("create", "token") => self.token(call),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn get_scale(&self, call: &Call) -> Result<Reply, ApiError> {
        let entry = self
            .store
            .get(&call.resource.storage, &call.key())
            .ok_or_else(|| ApiError::not_found(&call.resource.group_resource(), call.name()))?;
        Ok(self.reply_value(call, 200, &scale_of(&call.resource, &entry.value)))
    }

    fn set_scale(&self, verb: &str, call: &Call) -> Result<Reply, ApiError> {
        let resource = &call.resource;
        let media = media_type(&call.headers);
        let body = (verb == "update").then(|| parse_body(&call.headers, &call.body)).transpose()?;
        let verb = if body.is_some() { WriteVerb::Update } else { WriteVerb::Patch };
        let written = self.update_object(call, verb, |current| {
            let scale = scale_of(resource, current);
            let wanted = match &body {
                Some(body) => body.clone(),
                None => match media.as_str() {
                    "application/json-patch+json" => patch::json_patch(&scale, &call.body),
                    // A Scale has no lists, so both are equal.
                    _ => patch::merge_patch(&scale, &call.body),
                }
                .map_err(|error| ApiError::bad_request(error.to_string()))?,
            };
            if meta(&wanted, "name") != call.name() {
                return Err(ApiError::bad_request(format!(
                    "the name of the object ({}) does not match the name on the URL ({})",
                    meta(&wanted, "name"),
                    call.name()
                )));
            }
            let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
            if replicas < 0 {
                let cause = Cause::invalid("spec.replicas", &replicas.into(), "must be greater than or equal to 0");
                return Err(ApiError::invalid("autoscaling", "Scale", call.name(), vec![cause]));
            }
            let mut new = current.clone();
            for field in ["resourceVersion", "uid"] {
                let given = meta(&wanted, field);
                if !given.is_empty() {
                    metadata_mut(&mut new).insert(field.into(), json!(given));
                }
            }
            let pointer = resource
                .crd
                .as_ref()
                .and_then(|crd| crd.scale.as_ref())
                .map_or("/spec/replicas", |scale| &scale.spec_replicas);
            set_pointer(&mut new, pointer, json!(replicas));
            Ok(new)
        })?;
        let object = match &written {
            Written::Created(entry) | Written::Updated(entry) => &entry.value,
            Written::Ended(value) | Written::DryRun(value, _) => value,
        };
        Ok(self.reply_value(call, 200, &scale_of(resource, object)))
    }

    /// POST of a Binding to the namespace's `bindings`.
    pub(crate) fn bind_by_path(&self, call: &Call) -> Result<Reply, ApiError> {
        let binding = parse_body(&call.headers, &call.body)?;
        let name = meta(&binding, "name").to_owned();
        let Some(pods) = self.registry().by_plural("v1", "pods").cloned() else { return Err(ApiError::unknown_path()) };
        let mut bound = call.derived(pods, call.namespace(), Some(&name), Some("binding"));
        bound.body = call.body.clone();
        bound.headers = call.headers.clone();
        self.bind(&bound)
    }

    fn bind(&self, call: &Call) -> Result<Reply, ApiError> {
        let binding = parse_body(&call.headers, &call.body)?;
        if meta(&binding, "name") != call.name() {
            return Err(ApiError::bad_request("name in URL does not match name in Binding object"));
        }
        let node = binding["target"]["name"].as_str().unwrap_or("");
        if node.is_empty() {
            return Err(ApiError::new(500, "", "target.name: Required value"));
        }
        let pod = call.name();
        let resource = GroupResource { group: String::new(), resource: "pods/binding".into() };
        let now = rfc3339(self.clock.now());
        self.update_object(call, WriteVerb::Create, |current| {
            let assigned = current["spec"]["nodeName"].as_str().unwrap_or("");
            let refusal = if is_deleting(current) {
                Some(format!("pod {pod} is being deleted, cannot be assigned to a host"))
            } else if !assigned.is_empty() {
                Some(format!("pod {pod} is already assigned to node {assigned:?}"))
            } else if current["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
                Some(format!("pod {pod} has non-empty .spec.schedulingGates"))
            } else {
                None
            };
            if let Some(refusal) = refusal {
                return Err(ApiError::conflict(&resource, pod, &refusal));
            }
            let mut new = current.clone();
            for field in ["uid", "resourceVersion"] {
                let given = meta(&binding, field);
                if !given.is_empty() {
                    metadata_mut(&mut new).insert(field.into(), json!(given));
                }
            }
            new["spec"]["nodeName"] = json!(node);
            for map in ["annotations", "labels"] {
                if let Some(Value::Object(given)) = binding["metadata"].get(map)
                    && let Some(present) =
                        metadata_mut(&mut new).entry(map).or_insert_with(|| json!({})).as_object_mut()
                {
                    present.extend(given.clone());
                }
            }
            set_condition(
                &mut new,
                json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
            );
            Ok(new)
        })?;
        Ok(Reply::json(201, call.accept.format, &plain_success(201)))
    }

    fn evict(&self, call: &Call) -> Result<Reply, ApiError> {
        let eviction = parse_body(&call.headers, &call.body)?;
        if meta(&eviction, "name") != call.name() {
            return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = DeleteOptions { dry_run: call.query.dry_run(), ..DeleteOptions::default() };
        options.read(&eviction["deleteOptions"]);
        let key = call.key();
        let pod = self
            .store
            .get(&call.resource.storage, &key)
            .ok_or_else(|| ApiError::not_found(&call.resource.group_resource(), call.name()))?;
        let phase = pod.value["status"]["phase"].as_str().unwrap_or("");
        let unguarded = matches!(phase, "Succeeded" | "Failed" | "Pending") || is_deleting(&pod.value);
        if !unguarded {
            self.consume_budget(call, &pod.value, options.dry_run)?;
        }
        let now = rfc3339(self.clock.now());
        if !options.dry_run {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now,
            });
            self.update_object(call, WriteVerb::Create, |current| {
                let mut new = current.clone();
                set_condition(&mut new, condition.clone());
                Ok(new)
            })?;
        }
        self.delete_object(call, &key, &options, WriteVerb::Create)?;
        Ok(Reply::json(201, call.accept.format, &plain_success(201)))
    }

    /// Takes one disruption from the budget that guards a Pod.
    fn consume_budget(&self, call: &Call, pod: &Value, dry_run: bool) -> Result<(), ApiError> {
        const STORAGE: &str = "poddisruptionbudgets.policy";
        let guards: Vec<Value> = self.store.view(|view| {
            view.range(STORAGE, call.namespace())
                .filter(|budget| selector::selects(&budget.value["spec"]["selector"], &pod["metadata"]["labels"]))
                .map(|budget| (*budget.value).clone())
                .collect()
        });
        let budget = match guards.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(ApiError::new(
                    500,
                    "",
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let name = meta(budget, "name").to_owned();
        let number = |path: &str| budget.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        let (healthy, desired) = (number("/status/currentHealthy"), number("/status/desiredHealthy"));
        if !has_condition(pod, "Ready")
            && (budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (healthy >= desired && desired > 0))
        {
            return Ok(());
        }
        let refuse = |message: String| {
            let mut error = ApiError::new(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
            error.details.causes.push(Cause::new("DisruptionBudget", "", message));
            error
        };
        if number("/status/observedGeneration") < number("/metadata/generation") {
            let mut error = refuse(format!("The disruption budget {name} is still being processed by the server."));
            error.retry_after_seconds = Some(10);
            return Err(error);
        }
        let forbidden = |detail: &str| {
            let budgets = GroupResource { group: "policy".into(), resource: "poddisruptionbudget".into() };
            Err(ApiError::forbidden(&budgets, &name, detail))
        };
        if number("/status/disruptionsAllowed") < 0 {
            return forbidden("pdb disruptions allowed is negative");
        }
        if budget["status"]["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
            return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
        }
        if number("/status/disruptionsAllowed") == 0 {
            let conditions = budget["status"]["conditions"].as_array().into_iter().flatten();
            let condition = conditions.into_iter().find(|condition| condition["type"] == "DisruptionAllowed");
            let condition = condition.filter(|found| found["status"] == "False" && found["message"] != "");
            let text = |field: &str| condition.and_then(|found| found[field].as_str()).unwrap_or_default();
            let refused = format!("The disruption budget {name} does not allow evicting pods currently");
            return Err(refuse(match text("reason") {
                "SyncFailed" => format!("{refused} because it failed sync: {}", text("message")),
                _ if healthy <= desired => {
                    format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
                }
                _ if text("message").is_empty() => refused,
                reason => format!("{refused} ({reason}): {}", text("message")),
            }));
        }
        if dry_run {
            return Ok(());
        }
        let Some(budgets) = self.registry().by_plural("policy/v1", "poddisruptionbudgets").cloned() else {
            return Ok(());
        };
        let now = rfc3339(self.clock.now());
        let pod_name = call.name().to_owned();
        let own = call.derived(budgets, call.namespace(), Some(&name), Some("status"));
        let mut decrement = |current: &Value| {
            let allowed = current["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
            if allowed <= 0 {
                return Err(refuse(format!("The disruption budget {name} does not allow evicting pods currently")));
            }
            let mut new = current.clone();
            new["status"]["disruptionsAllowed"] = json!(allowed - 1);
            let disrupted = &mut new["status"]["disruptedPods"];
            if !disrupted.is_object() {
                *disrupted = Value::Object(Map::new());
            }
            disrupted[pod_name.as_str()] = json!(now);
            if allowed == 1 {
                let generation = new["status"]["observedGeneration"].clone();
                set_condition(
                    &mut new,
                    json!({"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
                        "observedGeneration": generation, "lastTransitionTime": now}),
                );
            }
            Ok(new)
        };
        for _ in 1..EVICTION_ATTEMPTS {
            match self.update_object(&own, WriteVerb::Update, &mut decrement) {
                // The budget's controller has updated it first.
                Err(error) if error.code == 409 => {}
                written => return written.map(drop),
            }
        }
        self.update_object(&own, WriteVerb::Update, decrement).map(drop)
    }

    fn token(&self, call: &Call) -> Result<Reply, ApiError> {
        let mut request = parse_body(&call.headers, &call.body)?;
        let account = self
            .store
            .get(&call.resource.storage, &call.key())
            .ok_or_else(|| ApiError::not_found(&call.resource.group_resource(), call.name()))?;
        if request["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
            request["spec"]["audiences"] = json!([ISSUER]);
        }
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS);
        let now = self.clock.now();
        let end = now.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(jiff::Timestamp::MAX);
        let namespace = call.namespace().unwrap_or("");
        let claims = json!({
            "iss": ISSUER, "aud": request["spec"]["audiences"], "iat": now.as_second(), "exp": end.as_second(),
            "sub": format!("system:serviceaccount:{namespace}:{}", call.name()),
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": call.name(), "uid": account.version.uid}},
        });
        let token = self.sign_token(&claims)?;
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        metadata_mut(&mut request).insert("name".into(), json!(call.name()));
        metadata_mut(&mut request).insert("namespace".into(), json!(namespace));
        metadata_mut(&mut request).insert("creationTimestamp".into(), json!(rfc3339(now)));
        request["spec"]["expirationSeconds"] = json!(seconds);
        request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(end)});
        Ok(Reply::json(201, call.accept.format, &request))
    }
}

fn plain_success(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code})
}

fn set_pointer(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for step in pointer.split('/').filter(|step| !step.is_empty()) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[step];
    }
    *at = value;
}

/// The scale of an object.
fn scale_of(resource: &Resource, object: &Value) -> Value {
    let custom = resource.crd.as_ref().and_then(|crd| crd.scale.as_ref());
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let selector = match custom {
        Some(paths) => paths
            .label_selector
            .as_ref()
            .and_then(|pointer| object.pointer(pointer))
            .and_then(Value::as_str)
            .unwrap_or("")
            .to_owned(),
        None => selector::text(&object["spec"]["selector"]),
    };
    let mut metadata = Map::new();
    let from = object["metadata"].as_object();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        carry_over(&mut metadata, from, field);
    }
    let spec_replicas = number(custom.map_or("/spec/replicas", |paths| &paths.spec_replicas));
    let mut status = json!({"replicas": number(custom.map_or("/status/replicas", |paths| &paths.status_replicas))});
    if !selector.is_empty() {
        status["selector"] = json!(selector);
    }
    // A zero count is omitted, as upstream's encoder does.
    let spec = if spec_replicas == 0 { json!({}) } else { json!({"replicas": spec_replicas}) };
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status})
}
