//! Admission: namespaces and the defaults that upstream's admission plugins fill in.
//!
//! *Not here*: quotas (`quota`).
//! *Source*: the plugins NamespaceLifecycle, Priority, DefaultTolerationSeconds and ServiceAccount.

use serde_json::{Value, json};

use super::objects::{is_deleting, meta};
use super::status::{ApiError, Cause, GroupResource};
use super::{Api, Call};
use crate::store::Inner;

/// Seconds that a Pod stays on a node that is not ready or unreachable.
const TOLERATION_SECONDS: u64 = 300;

impl Api {
    /// Decides at the instant of the commit whether a new object may exist.
    pub(crate) fn admit_create(&self, view: &Inner, call: &Call, object: &Value) -> Result<(), ApiError> {
        let resource = &call.resource;
        let Some(namespace) = call.namespace() else { return Ok(()) };
        let namespaces = GroupResource { group: String::new(), resource: "namespaces".into() };
        let Some(found) = view.get("namespaces", namespace) else {
            return Err(ApiError::not_found(&namespaces, namespace));
        };
        if is_deleting(&found.value) || found.value["status"]["phase"] == "Terminating" {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let mut error = ApiError::forbidden(&resource.group_resource(), meta(object, "name"), &why);
            error.details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
            return Err(error);
        }
        if &*resource.storage == "pods" && self.config.service_account_admission {
            let account = object["spec"]["serviceAccountName"].as_str().unwrap_or("default");
            if view.get("serviceaccounts", &format!("{namespace}/{account}")).is_none() {
                let why = format!(
                    "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
                );
                return Err(ApiError::forbidden(&resource.group_resource(), meta(object, "name"), &why));
            }
        }
        Ok(())
    }

    /// Fills in what admission plugins fill in before the object is stored.
    pub(crate) fn admission_defaults(&self, call: &Call, object: &mut Value) -> Result<(), ApiError> {
        if &*call.resource.storage == "services" {
            return self.allocate_service(object);
        }
        if &*call.resource.storage != "pods" {
            return Ok(());
        }
        self.pod_priority(call, object)?;
        let spec = &mut object["spec"];
        if !spec.is_object() {
            return Ok(());
        }
        if spec["serviceAccountName"].as_str().unwrap_or("").is_empty() {
            spec["serviceAccountName"] = json!("default");
        }
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
        let tolerations = spec.as_object_mut().map(|spec| spec.entry("tolerations").or_insert_with(|| json!([])));
        if let Some(Value::Array(tolerations)) = tolerations {
            for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
                let tolerated = tolerations.iter().any(|toleration| {
                    let names = toleration["key"].as_str().unwrap_or("");
                    let effect = toleration["effect"].as_str().unwrap_or("");
                    (names == key || names.is_empty()) && (effect == "NoExecute" || effect.is_empty())
                });
                if !tolerated {
                    tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS}));
                }
            }
        }
        Ok(())
    }

    fn pod_priority(&self, call: &Call, pod: &mut Value) -> Result<(), ApiError> {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or("").to_owned();
        let class = self.store.view(|view| {
            if name.is_empty() {
                view.range("priorityclasses.scheduling.k8s.io", None)
                    .find(|class| class.value["globalDefault"] == true)
                    .map(|class| class.value.clone())
            } else {
                view.get("priorityclasses.scheduling.k8s.io", &name).map(|class| class.value.clone())
            }
        });
        if class.is_none() && !name.is_empty() {
            let why = format!("no PriorityClass with name {name} was found");
            return Err(ApiError::forbidden(&call.resource.group_resource(), meta(pod, "name"), &why));
        }
        let Some(spec) = pod["spec"].as_object_mut() else { return Ok(()) };
        if let Some(class) = &class {
            spec.insert("priorityClassName".into(), class["metadata"]["name"].clone());
        }
        let value = class.as_ref().map_or(json!(0), |class| class["value"].clone());
        spec.insert("priority".into(), value);
        let policy = class
            .as_ref()
            .and_then(|class| class["preemptionPolicy"].as_str())
            .unwrap_or("PreemptLowerPriority")
            .to_owned();
        spec.entry("preemptionPolicy").or_insert_with(|| json!(policy));
        Ok(())
    }
}
