//! Inputs of the plugins of Services, quotas, tokens and certificates: what they look at exists ten times.

use serde_json::{Value, json};

use super::N_CHILDREN as N;
use super::cases::{BEFORE, case, children, object, owner, pod, with};
use super::credentials::{
    bootstrap_tokens, filled_token, issued_requests, mounted_tokens, published_bundle, request_to_approve,
    request_to_sign, signed_information, young_requests,
};
use super::guards::{about, being_deleted, cluster_scoped};

/// [`BEFORE`] in seconds since 1970.
const BEFORE_SECONDS: u64 = 1_767_222_000;

/// Name of the plugin, and the input.
pub(super) fn all() -> [(&'static str, Value); 14] {
    [
        ("endpoints-controller", endpoints_of_pods()),
        ("endpointslice-controller", slice_of_pods()),
        ("endpointslice-mirroring-controller", mirrored_endpoints()),
        ("service-cidr-controller", range_in_use()),
        ("resourcequota-controller", quota_of_pods()),
        ("serviceaccount-token-controller", filled_token()),
        ("legacy-serviceaccount-token-cleaner-controller", mounted_tokens()),
        ("certificatesigningrequest-approving-controller", request_to_approve()),
        ("certificatesigningrequest-signing-controller", request_to_sign()),
        ("certificatesigningrequest-cleaner-controller", issued_requests()),
        ("podcertificaterequest-cleaner-controller", young_requests()),
        ("kube-apiserver-serving-clustertrustbundle-publisher-controller", published_bundle()),
        ("bootstrap-signer-controller", signed_information()),
        ("token-cleaner-controller", bootstrap_tokens()),
    ]
}

/// Endpoints with the addresses of all Pods of a Service.
fn endpoints_of_pods() -> Value {
    let labels = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let endpoints = with(endpoints(), json!({"metadata": {"labels": labels}}));
    with(case(service(), [vec![endpoints], service_pods()]), json!({"state": trigger_times()}))
}

/// A slice with the addresses of all Pods of a Service, each of which is on a Node of its own.
fn slice_of_pods() -> Value {
    let labels = json!({"topology.kubernetes.io/zone": "a"});
    let node = |number| cluster_scoped("v1", "Node", &format!("node-{number}"));
    let nodes = children(|number| with(node(number), json!({"metadata": {"labels": labels}})));
    let state = json!({"conditions": {"ready": true, "serving": true, "terminating": false}, "zone": "a"});
    let slice = slice("v1/Service", "endpointslice-controller.k8s.io", &state);
    with(case(service(), [vec![slice], service_pods(), nodes]), json!({"state": trigger_times()}))
}

/// Endpoints of a Service without a selector, and their copy.
fn mirrored_endpoints() -> Value {
    let slice =
        slice("v1/Endpoints", "endpointslicemirroring-controller.k8s.io", &json!({"conditions": {"ready": true}}));
    case(endpoints(), [vec![object("v1", "Service", "web"), slice]])
}

/// A range that is being deleted. Of its addresses, only the last one is in no other range, whose broadcast address it is.
fn range_in_use() -> Value {
    let range = |name: &str, range: &str| {
        let finalizers = json!(["networking.k8s.io/service-cidr-finalizer"]);
        let cidr = cluster_scoped("networking.k8s.io/v1", "ServiceCIDR", name);
        with(cidr, json!({"metadata": {"finalizers": finalizers}, "spec": {"cidrs": [range]}}))
    };
    let message =
        "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
    let condition = json!({
        "type": "Ready", "status": "False", "reason": "Terminating", "message": message, "lastTransitionTime": BEFORE,
    });
    let labels = json!({
        "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    });
    let mut others = children(|number| {
        let address = cluster_scoped("networking.k8s.io/v1", "IPAddress", &format!("10.96.0.{}", 32 - N + number));
        with(address, json!({"metadata": {"labels": labels}}))
    });
    others.push(range("other", "10.96.0.16/28"));
    let root = being_deleted(range("web", "10.96.0.0/24"));
    about(with(root, json!({"status": {"conditions": [condition]}})), others)
}

/// A quota whose status has the usage of all Pods.
fn quota_of_pods() -> Value {
    let hard = json!({"pods": "20", "requests.cpu": "4", "requests.memory": "4Gi"});
    let (cpu, memory) = (format!("{}m", 100 * N), format!("{}Mi", 100 * N));
    let used = json!({"pods": N.to_string(), "requests.cpu": cpu, "requests.memory": memory});
    let status = json!({"spec": {"hard": hard}, "status": {"hard": hard, "used": used}});
    let pods = children(|number| {
        let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        let containers = json!([{"name": "c", "image": "web:now", "resources": resources}]);
        with(pod(&format!("web-{number}")), json!({"spec": {"containers": containers}}))
    });
    case(with(object("v1", "ResourceQuota", "web"), status), [pods])
}

fn service() -> Value {
    let spec = json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
    });
    with(object("v1", "Service", "web"), json!({"spec": spec}))
}

fn service_pods() -> Vec<Value> {
    children(|number| {
        let (node, ip) = (format!("node-{number}"), format!("10.0.0.{number}"));
        with(
            pod(&format!("web-{number}")),
            json!({"spec": {"nodeName": node}, "status": {"podIP": ip, "podIPs": [{"ip": ip}]}}),
        )
    })
}

/// For each of [`service_pods`], what an address of Endpoints and an endpoint of a slice have in common, and the address.
fn addresses(address: impl Fn(String) -> Value) -> Vec<Value> {
    children(|number| {
        let (name, uid) = (format!("web-{number}"), format!("uid-web-{number}"));
        let target = json!({"kind": "Pod", "namespace": "default", "name": name, "uid": uid});
        let both = json!({"nodeName": format!("node-{number}"), "targetRef": target});
        with(address(format!("10.0.0.{number}")), both)
    })
}

fn endpoints() -> Value {
    let addresses = addresses(|ip| json!({"ip": ip}));
    let subset = json!({"addresses": addresses, "ports": [{"port": 80, "protocol": "TCP"}]});
    with(object("v1", "Endpoints", "web"), json!({"subsets": [subset]}))
}

/// A slice of a controller, whose endpoints have these fields.
fn slice(kind: &str, manager: &str, fields: &Value) -> Value {
    let labels = json!({"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": manager});
    let slice = json!({
        "metadata": {"labels": labels, "ownerReferences": [owner(kind)]},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": addresses(|ip| with(json!({"addresses": [ip]}), fields.clone())),
    });
    with(object("discovery.k8s.io/v1", "EndpointSlice", "web-x"), slice)
}

/// The state of an earlier run: the times of [`service_pods`], by FNV-1 and FNV-1a of their names.
fn trigger_times() -> Value {
    let time = |number| {
        let (mut first, mut second) = (0x811c_9dc5_u32, 0x811c_9dc5_u32);
        for byte in format!("web-{number}").bytes().map(u32::from) {
            first = first.wrapping_mul(0x0100_0193) ^ byte;
            second = (second ^ byte).wrapping_mul(0x0100_0193);
        }
        (format!("{first:08x}{second:08x}"), BEFORE_SECONDS)
    };
    let times = json!({"service": BEFORE_SECONDS, "pods": (0..N).map(time).collect::<Value>()});
    json!({"trigger-times/default/web": times.to_string()})
}
