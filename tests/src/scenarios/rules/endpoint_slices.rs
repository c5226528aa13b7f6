//! What must be true of every history of EndpointSlices of Services with a selector.
//!
//! At each write of a slice:
//! 1. it has no more endpoints than the controller puts into one;
//! 2. no endpoint is twice in slices of one Service with the same ports;
//! 3. an endpoint that was in a slice of its Service is still in one, unless the Service or the Pod gives a reason to remove it.
//!
//! Reasons are any change of the Service's `spec`, of the labels or the addresses of the Pod, the end of the Pod, and the deletion of
//! either. A controller acts on what it has seen, so a reason counts from then on, also if it passes.
//!
//! A change of the Service's ports is a reason because upstream writes the new slices over the old ones in any order (`finalize` of
//! `k8s.io/endpointslice`), and so an endpoint may be in none between two updates. Otherwise upstream creates, then updates, then deletes,
//! and an endpoint does not move. The story `crash::slices` has no such exception.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{UserActions, describe};
use crate::scenarios::history::{Effect, History, text};

/// The default of `--max-endpoints-per-slice`.
const MOST: usize = 100;
/// The value of [`MANAGED_BY`]; other slices are copies of Endpoints, or a user's.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Debug)]
struct Service<'a> {
    spec: &'a Value,
    /// Nothing has been a reason to remove an endpoint.
    is_steady: bool,
}

#[derive(Debug)]
struct Pod<'a> {
    labels: &'a Value,
    addresses: &'a Value,
    /// Nothing has been a reason to remove its endpoint.
    is_steady: bool,
}

#[derive(Debug, Default)]
struct Replay<'a> {
    /// By name.
    services: BTreeMap<&'a str, Service<'a>>,
    /// By uid.
    pods: BTreeMap<&'a str, Pod<'a>>,
    /// By uid.
    slices: BTreeMap<&'a str, &'a Value>,
    /// Name of a Service, and uid of a Pod that has been in one of its slices.
    listed: BTreeSet<(&'a str, &'a str)>,
}

/// The rules that a history broke, in words.
pub(super) fn broken(history: &History, user_actions: UserActions) -> Vec<String> {
    if user_actions.slices {
        return Vec::new();
    }
    let mut replay = Replay::default();
    for ((plural, _), object) in &history.base {
        replay.step(plural, object, false);
    }
    let mut broken = Vec::new();
    for write in &history.writes {
        if let Some(rule) = replay.step(write.plural, &write.object, write.effect == Effect::Deleted) {
            broken.push(describe(write, &rule));
        }
    }
    broken
}

impl<'a> Replay<'a> {
    fn step(&mut self, plural: &str, object: &'a Value, is_gone: bool) -> Option<String> {
        match plural {
            "services" => self.service(object, is_gone),
            "pods" => self.pod(object, is_gone),
            "endpointslices" if label(object, MANAGED_BY) == CONTROLLER => return self.slice(object, is_gone),
            _ => {}
        }
        None
    }

    fn service(&mut self, object: &'a Value, is_gone: bool) {
        let name = text(object, "name");
        if is_gone {
            // Another Service of that name has slices of its own.
            self.services.remove(name);
            self.listed.retain(|(service, _)| *service != name);
            return;
        }
        let spec = &object["spec"];
        let known = self.services.entry(name).or_insert(Service { spec, is_steady: true });
        known.is_steady &= known.spec == spec && !is_deleting(object);
    }

    fn pod(&mut self, object: &'a Value, is_gone: bool) {
        let (labels, addresses) = (&object["metadata"]["labels"], &object["status"]["podIPs"]);
        let known = self.pods.entry(text(object, "uid")).or_insert(Pod { labels, addresses, is_steady: true });
        if known.addresses.is_null() {
            known.addresses = addresses;
        }
        let has_ended = matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        let is_same = known.labels == labels && known.addresses == addresses;
        known.is_steady &= is_same && !has_ended && !is_gone && !is_deleting(object);
    }

    fn slice(&mut self, object: &'a Value, is_gone: bool) -> Option<String> {
        let (uid, service) = (text(object, "uid"), label(object, SERVICE_NAME));
        if is_gone {
            self.slices.remove(uid);
        } else {
            self.slices.insert(uid, object);
            let n_endpoints = list(&object["endpoints"]).count();
            if n_endpoints > MOST {
                return Some(format!("it has {n_endpoints} endpoints, more than {MOST}"));
            }
        }
        let (mut present, mut places) = (BTreeSet::new(), BTreeSet::new());
        for slice in self.slices.values().filter(|slice| label(slice, SERVICE_NAME) == service) {
            let mut ports: Vec<String> = list(&slice["ports"]).map(Value::to_string).collect();
            ports.sort_unstable();
            for pod in pods_of(slice) {
                present.insert(pod);
                if !places.insert((pod, slice["addressType"].as_str(), ports.clone())) {
                    return Some(format!(
                        "the endpoint of Pod {pod} is in two slices of {service} with the same ports"
                    ));
                }
            }
        }
        let missing =
            self.listed.iter().find(|(of, pod)| *of == service && !present.contains(pod) && self.stays(of, pod));
        let missing = missing.map(|(_, pod)| format!("the endpoint of Pod {pod} is in no slice of {service} any more"));
        if !is_gone {
            self.listed.extend(pods_of(object).map(|pod| (service, pod)));
        }
        missing
    }

    /// Whether there is no reason to remove the endpoint of a Pod.
    fn stays(&self, service: &str, pod: &str) -> bool {
        self.services.get(service).is_some_and(|service| service.is_steady)
            && self.pods.get(pod).is_some_and(|pod| pod.is_steady)
    }
}

/// The uids of the Pods of a slice.
fn pods_of(slice: &Value) -> impl Iterator<Item = &str> {
    list(&slice["endpoints"]).filter_map(|endpoint| endpoint["targetRef"]["uid"].as_str())
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenarios::history::Write;

    /// A history of the Service `web`.
    #[derive(Default)]
    struct Story(History);

    impl Story {
        fn write(mut self, plural: &'static str, effect: Effect, object: Value) -> Story {
            self.0.writes.push(Write { plural, effect, object });
            self
        }

        fn service(self, port: u16) -> Story {
            let metadata = json!({"name": "web", "uid": "web"});
            self.write("services", Effect::Modified, json!({"metadata": metadata, "spec": {"ports": [{"port": port}]}}))
        }

        fn pod(self, name: &str, labels: &Value) -> Story {
            let status = json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]});
            let metadata = json!({"name": name, "uid": name, "labels": labels});
            self.write("pods", Effect::Modified, json!({"metadata": metadata, "status": status}))
        }

        fn slice(self, effect: Effect, name: &str, port: u16, pods: &[&str]) -> Story {
            let endpoints: Vec<Value> = pods.iter().map(|pod| json!({"targetRef": {"uid": pod}})).collect();
            let labels = json!({MANAGED_BY: CONTROLLER, SERVICE_NAME: "web"});
            let object = json!({
                "metadata": {"name": name, "uid": name, "labels": labels},
                "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": port}],
            });
            self.write("endpointslices", effect, object)
        }

        fn check(&self, expected: &[&str]) {
            assert_eq!(broken(&self.0, UserActions::default()), expected);
        }
    }

    /// Two Pods in one slice.
    fn two() -> Story {
        let story = Story::default().service(80).pod("a", &json!({"app": "web"})).pod("b", &json!({"app": "web"}));
        story.slice(Effect::Added, "s", 80, &["a", "b"])
    }

    #[test]
    fn what_has_a_reason_breaks_no_rule() {
        let other = json!({"app": "other"});
        two().pod("a", &other).slice(Effect::Modified, "s", 80, &["b"]).check(&[]);
        // Also if the reason has passed.
        two().pod("a", &other).pod("a", &json!({"app": "web"})).slice(Effect::Modified, "s", 80, &["b"]).check(&[]);
        two().service(81).slice(Effect::Modified, "s", 81, &["b"]).slice(Effect::Added, "t", 81, &["a"]).check(&[]);
        two().slice(Effect::Added, "t", 81, &["a"]).slice(Effect::Modified, "s", 80, &["b"]).check(&[]);
        let gone = json!({"metadata": {"name": "web", "uid": "web"}});
        two().write("services", Effect::Deleted, gone).slice(Effect::Deleted, "s", 80, &["a", "b"]).check(&[]);
    }

    #[test]
    fn each_rule_can_be_broken() {
        let lost = "the endpoint of Pod a is in no slice of web any more";
        two().slice(Effect::Modified, "s", 80, &["b"]).check(&[&format!("Modified endpointslices s (): {lost}")]);
        two().slice(Effect::Deleted, "s", 80, &["a", "b"]).check(&[&format!("Deleted endpointslices s (): {lost}")]);
        two()
            .slice(Effect::Added, "t", 80, &["b"])
            .check(&["Added endpointslices t (): the endpoint of Pod b is in two slices of web with the same ports"]);
        let names: Vec<String> = (0..=MOST).map(|n| format!("p{n}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let full = Story::default().slice(Effect::Added, "s", 80, &all[1..]);
        full.check(&[]);
        full.slice(Effect::Modified, "s", 80, &all)
            .check(&["Modified endpointslices s (): it has 101 endpoints, more than 100"]);
    }
}
