//! The initial content of a new cluster: namespaces, the range of addresses of Services, the API's own Service, the
//! system's priority classes.

use serde_json::{Value, json};

use super::services::RANGE;
use super::status::ApiError;
use super::{Api, Call};
use crate::store::WriteVerb;

impl Api {
    /// Fills an empty store.
    pub(crate) fn bootstrap(&self) -> Result<(), ApiError> {
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.put("v1", "namespaces", json!({"metadata": {"name": name}}))?;
        }
        let range = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [RANGE]}});
        self.put("networking.k8s.io/v1", "servicecidrs", range)?;
        self.put(
            "v1",
            "services",
            json!({
                "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
                "spec": {
                    "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                },
            }),
        )?;
        for (name, value, for_what) in [
            (
                "system-cluster-critical",
                2_000_000_000,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        ] {
            self.put(
                "scheduling.k8s.io/v1",
                "priorityclasses",
                json!({"metadata": {"name": name}, "value": value, "description": for_what, "preemptionPolicy": "PreemptLowerPriority"}),
            )?;
        }
        Ok(())
    }

    fn put(&self, api_version: &str, plural: &str, object: Value) -> Result<(), ApiError> {
        let registry = self.registry();
        let resource = registry.by_plural(api_version, plural).cloned().ok_or_else(ApiError::unknown_path)?;
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let call = Call::own(resource, namespace.as_deref(), None, None);
        self.create_object(&call, object, &mut Vec::new(), WriteVerb::Create).map(|_| ())
    }
}
