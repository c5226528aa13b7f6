//! The types that the engine reads. The plugins check that their manifests declare them.

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::time::Timestamp;

use crate::pods::HasRank;

pintle_sdk::types!(
    "v1/Pod": [
        "metadata.labels",
        "metadata.annotations['controller.kubernetes.io/pod-deletion-cost']",
        "metadata.ownerReferences.uid",
        "metadata.ownerReferences.controller",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "spec.nodeName",
        "spec.initContainers.name",
        "spec.initContainers.restartPolicy",
        "status.phase",
        "status.conditions.type",
        "status.conditions.status",
        "status.conditions.lastTransitionTime",
        "status.containerStatuses.restartCount",
        "status.initContainerStatuses.name",
        "status.initContainerStatuses.restartCount",
    ],
    "apps/v1/ReplicaSet": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.minReadySeconds",
        "spec.selector",
        "spec.template",
        "status",
    ],
    "apps/v1/ReplicaSet" as ListedReplicaSet: ["spec.selector"],
    "v1/ReplicationController": [
        "metadata.generation",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
        "spec.replicas",
        "spec.minReadySeconds",
        "spec.selector",
        "spec.template": PodTemplateSpec,
        // It has the fields of a ReplicaSet's status except `terminatingReplicas`.
        "status": ReplicaSetStatus,
    ],
    "v1/ReplicationController" as ListedReplicationController: ["spec.selector"],
);

impl HasRank for Pod {
    fn uid(&self) -> &str {
        &self.metadata.uid
    }

    fn node_name(&self) -> &str {
        &self.spec.node_name
    }

    fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp
    }

    fn deletion_cost(&self) -> Option<&str> {
        self.metadata.annotations.pod_deletion_cost.as_deref()
    }

    #[doc(alias = "maxContainerRestarts")]
    fn restarts(&self) -> Vec<(i32, bool)> {
        let is_sidecar = |name: &str| {
            let always = Some("Always");
            self.spec.init_containers.iter().any(|c| c.name == name && c.restart_policy.as_deref() == always)
        };
        let sidecars = self.status.init_container_statuses.iter().filter(|status| is_sidecar(&status.name));
        let main = self.status.container_statuses.iter().map(|status| (status.restart_count, false));
        main.chain(sidecars.map(|status| (status.restart_count, true))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sidecars_count_among_init_containers() {
        let mut pod = Pod::default();
        for (name, policy) in [("init", None), ("sidecar", Some("Always"))] {
            pod.spec
                .init_containers
                .push(PodSpecInitContainers { name: name.into(), restart_policy: policy.map(str::to_owned) });
            let status = PodStatusInitContainerStatuses { name: name.into(), restart_count: 9 };
            pod.status.init_container_statuses.push(status);
        }
        pod.status.container_statuses.push(PodStatusContainerStatuses { restart_count: 3 });
        assert_eq!(pod.restarts(), [(3, false), (9, true)]);
    }
}
