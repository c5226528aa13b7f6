//! Admission: namespace checks, and the defaults of upstream's admission plugins.
//!
//! *Not here*: quotas (`quota`).
//! *Source*: the plugins NamespaceLifecycle, TaintNodesByCondition, Priority, DefaultTolerationSeconds and ServiceAccount.

use serde_json::{Value, json};

use super::objects::{carry_over, is_deleting, meta};
use super::status::{ApiError, GroupResource};
use super::{Api, Call};
use crate::cause::Cause;
use crate::store::{Inner, object_key};

/// Name prefix of the volumes with a service account's token.
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";
/// Where clients in a Pod look for their token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Lifetime of the token in seconds: a little over an hour, which distinguishes it from a requested one.
const TOKEN_SECONDS: u64 = 3607;
/// Seconds that a Pod stays on a node that is not ready or unreachable.
const TOLERATION_SECONDS: u64 = 300;

impl Api {
    /// Decides at the commit whether a new object may be created.
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
            let message = format!("namespace {namespace} is being terminated");
            error.details.causes.push(Cause::new("NamespaceTerminating", "metadata.namespace", message));
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

    /// Sets the defaults of admission plugins before the object is stored.
    pub(crate) fn admission_defaults(&self, call: &Call, object: &mut Value) -> Result<(), ApiError> {
        match &*call.resource.storage {
            "services" => return self.allocate_service(object),
            "nodes" => taint_new_node(object),
            "certificatesigningrequests.certificates.k8s.io" => self.set_requestor(call, object),
            _ => {}
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
        self.mount_token(call, spec);
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

    /// Sets the user of a CertificateSigningRequest, as upstream's strategy.
    fn set_requestor(&self, call: &Call, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        let user = self.user(&call.headers);
        for field in ["username", "uid", "groups", "extra"] {
            carry_over(spec, user.as_object(), field);
        }
    }

    /// Mounts the token of its service account into a Pod, if the account exists and neither opts out.
    fn mount_token(&self, call: &Call, spec: &mut Value) {
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        let key = object_key(call.namespace(), account);
        let Some(account) = self.store.get("serviceaccounts", &key) else { return };
        let wanted = spec["automountServiceAccountToken"].as_bool();
        if !wanted.or_else(|| account.value["automountServiceAccountToken"].as_bool()).unwrap_or(true) {
            return;
        }
        let volumes = spec["volumes"].as_array().into_iter().flatten();
        let mut names = volumes.filter_map(|volume| volume["name"].as_str());
        let present = names.find(|name| name.starts_with(TOKEN_VOLUME_PREFIX)).map(str::to_owned);
        let name = present.clone().unwrap_or_else(|| self.generate_name(TOKEN_VOLUME_PREFIX));
        let mut is_mounted = false;
        for list in ["initContainers", "containers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let Some(container) = container.as_object_mut() else { continue };
                let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
                let Some(mounts) = mounts.as_array_mut() else { continue };
                if mounts.iter().all(|mount| mount["mountPath"] != TOKEN_PATH) {
                    mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
                    is_mounted = true;
                }
            }
        }
        if present.is_some() || !is_mounted {
            return;
        }
        let volume = json!({"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
        ]}});
        match &mut spec["volumes"] {
            Value::Array(volumes) => volumes.push(volume),
            volumes => *volumes = json!([volume]),
        }
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
        if *spec.entry("preemptionPolicy").or_insert_with(|| json!(policy)) != policy {
            let why = format!("the preemption policy is that of the priority class, which is {policy}");
            return Err(ApiError::forbidden(&call.resource.group_resource(), meta(pod, "name"), &why));
        }
        Ok(())
    }
}

/// A new node takes no Pods until a controller, upstream the node lifecycle controller, finds it ready.
fn taint_new_node(node: &mut Value) {
    const NOT_READY: &str = "node.kubernetes.io/not-ready";
    let spec = &mut node["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let taints = spec.as_object_mut().map(|spec| spec.entry("taints").or_insert_with(|| json!([])));
    if let Some(Value::Array(taints)) = taints
        && !taints.iter().any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule")
    {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}
