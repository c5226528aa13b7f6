//! Stories of plugins, in one program: sequences of runs on a simulated cluster. Single runs are cases for
//! `pintle test`.

mod crowds;

mod stories {
    pub(crate) mod answers;
    mod cronjob;
    mod daemonset;
    mod deployment;
    mod disruption;
    mod endpointslice;
    mod garbage_collector;
    mod gates;
    mod job;
    mod limits;
    mod namespace;
    mod node_ipam;
    mod node_lifecycle;
    pub(crate) mod objects;
    mod persistentvolumeclaim_protection;
    mod replicaset;
    mod resourcequota;
}

/// A module with the plugin of a folder.
macro_rules! plugins {
    ($($module:ident: $package:ident, $folder:literal;)*) => {
        $(mod $module {
            pub(crate) fn plugin() -> pintle_sdk::testing::Plugin<'static> {
                let manifest = include_str!(concat!("../../../", $folder, "/manifest.yaml"));
                pintle_sdk::testing::Plugin::new(manifest, $package::reconcile)
            }
        })*
    };
}

plugins! {
    bootstrap_signer: plugin_bootstrap_signer, "bootstrap-signer";
    certificatesigningrequest_cleaner: plugin_certificatesigningrequest_cleaner, "certificatesigningrequest-cleaner";
    clusterrole_aggregation: plugin_clusterrole_aggregation, "clusterrole-aggregation";
    cronjob: plugin_cronjob, "cronjob";
    daemonset: plugin_daemonset, "daemonset";
    deployment: plugin_deployment, "deployment";
    device_taint_eviction: plugin_device_taint_eviction, "device-taint-eviction";
    disruption: plugin_disruption, "disruption";
    endpoints: plugin_endpoints, "endpoints";
    endpointslice: plugin_endpointslice, "endpointslice";
    endpointslice_mirroring: plugin_endpointslice_mirroring, "endpointslice-mirroring";
    ephemeral_volume: plugin_ephemeral_volume, "ephemeral-volume";
    garbage_collector: plugin_garbage_collector, "garbage-collector";
    horizontal_pod_autoscaler: plugin_horizontal_pod_autoscaler, "horizontal-pod-autoscaler";
    job: plugin_job, "job";
    kube_apiserver_serving_clustertrustbundle_publisher: plugin_kube_apiserver_serving_clustertrustbundle_publisher, "kube-apiserver-serving-clustertrustbundle-publisher";
    legacy_serviceaccount_token_cleaner: plugin_legacy_serviceaccount_token_cleaner, "legacy-serviceaccount-token-cleaner";
    namespace: plugin_namespace, "namespace";
    node_ipam: plugin_node_ipam, "node-ipam";
    node_lifecycle: plugin_node_lifecycle, "node-lifecycle";
    persistentvolume_protection: plugin_persistentvolume_protection, "persistentvolume-protection";
    persistentvolumeclaim_protection: plugin_persistentvolumeclaim_protection, "persistentvolumeclaim-protection";
    pod_garbage_collector: plugin_pod_garbage_collector, "pod-garbage-collector";
    podcertificaterequest_cleaner: plugin_podcertificaterequest_cleaner, "podcertificaterequest-cleaner";
    podgroup_protection: plugin_podgroup_protection, "podgroup-protection";
    replicaset: plugin_replicaset, "replicaset";
    replicationcontroller: plugin_replicationcontroller, "replicationcontroller";
    resourcequota: plugin_resourcequota, "resourcequota";
    root_ca_certificate_publisher: plugin_root_ca_certificate_publisher, "root-ca-certificate-publisher";
    service_cidr: plugin_service_cidr, "service-cidr";
    serviceaccount: plugin_serviceaccount, "serviceaccount";
    serviceaccount_token: plugin_serviceaccount_token, "serviceaccount-token";
    statefulset: plugin_statefulset, "statefulset";
    taint_eviction: plugin_taint_eviction, "taint-eviction";
    token_cleaner: plugin_token_cleaner, "token-cleaner";
    ttl: plugin_ttl, "ttl";
    ttl_after_finished: plugin_ttl_after_finished, "ttl-after-finished";
    volumeattributesclass_protection: plugin_volumeattributesclass_protection, "volumeattributesclass-protection";
}
