//! The metrics APIs of the simulated nodes: `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
//!
//! Users set metrics: those of Pods with annotations, those of other objects and external ones with ConfigMaps.
//!
//! Invariants: pure; a response depends only on the objects and the time; a value that is not a quantity is left out.
//!
//! Not here: the server that serves them.
//!
//! Source: `k8s.io/metrics/pkg/apis`, and the messages of custom-metrics-apiserver.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pintle_core::object::selector::Selector;
use serde_json::{Map, Value, json};

use crate::behaviour::{PREFIX, PerContainer, Role};
use crate::fields::text;
use crate::quantity::{quantity, quantity_text};
use crate::time::rfc3339;

/// The label of ConfigMaps with metrics: `external` or `custom`.
const LABEL: &str = "sim.pintle.dev/metrics";
/// The annotation, without its prefix, with the object of a ConfigMap's metrics: `services/web`.
const OBJECT: &str = "object";
/// Averaging window of a usage. The autoscaler leaves out Pods that became ready later.
const WINDOW: &str = "1s";

const RESOURCE: &str = "metrics.k8s.io";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";

/// The groups that can be served.
pub const GROUPS: [&str; 3] = [RESOURCE, CUSTOM, EXTERNAL];

/// The source objects of metrics, and the time.
#[derive(Debug)]
pub struct Source<'a, T> {
    /// All Pods.
    pub pods: &'a [T],
    /// All Nodes.
    pub nodes: &'a [T],
    /// All ConfigMaps.
    pub config_maps: &'a [T],
    /// The time of the metrics.
    pub now: Timestamp,
}

/// A resource in the discovery documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Name.
    pub plural: String,
    /// Kind of the response.
    pub kind: &'static str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Verbs.
    pub verbs: &'static [&'static str],
}

/// An error response, with the HTTP status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoMetric {
    /// HTTP status.
    pub code: u16,
    /// The message.
    pub message: String,
}

fn not_found(message: String) -> NoMetric {
    NoMetric { code: 404, message }
}

fn annotations(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let all = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value.as_str()?)))
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    annotations(object).find(|(found, _)| *found == name).map(|(_, value)| value)
}

fn is_selected(selector: &Selector, object: &Value) -> bool {
    selector.matches(|key| object["metadata"]["labels"][key].as_str())
}

/// The uid of the controller of a Pod.
fn owner(pod: &Value) -> Option<&str> {
    let mut owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    owners.find(|owner| owner["controller"] == true).map(|owner| text(owner, "/uid"))
}

impl<T: Borrow<Value>> Source<'_, T> {
    /// The resources served now: a group without metrics is not.
    pub fn served(&self) -> Vec<Served> {
        let mut served = Vec::new();
        let has_usage = |pod: &Value| {
            annotations(pod).any(|(name, _)| matches!(name, "cpu" | "memory" | "shared-cpu" | "shared-memory"))
        };
        if self.pods.iter().any(|pod| has_usage(pod.borrow())) {
            for (plural, kind, namespaced) in [("nodes", "NodeMetrics", false), ("pods", "PodMetrics", true)] {
                let plural = plural.to_owned();
                served.push(Served {
                    group: RESOURCE,
                    version: "v1beta1",
                    plural,
                    kind,
                    namespaced,
                    verbs: &["get", "list"],
                });
            }
        }
        let of_pods = self.pods.iter().flat_map(|pod| annotations(pod.borrow())).filter_map(|(name, _)| {
            let metric = name.strip_prefix("metric.").or_else(|| name.strip_prefix("shared-metric."))?;
            Some(format!("pods/{metric}"))
        });
        let of_objects = self.config_maps_of("custom").flat_map(|map| {
            let resource = annotation(map, OBJECT).and_then(|object| object.split_once('/')).map_or("", |(r, _)| r);
            data(map).map(move |(metric, _)| format!("{resource}/{metric}"))
        });
        let custom: BTreeSet<String> = of_pods.chain(of_objects).collect();
        for version in ["v1beta2", "v1beta1"] {
            served.extend(custom.iter().map(|plural| {
                let (plural, kind) = (plural.clone(), "MetricValueList");
                Served { group: CUSTOM, version, plural, kind, namespaced: true, verbs: &["get"] }
            }));
        }
        let external: BTreeSet<&str> =
            self.config_maps_of("external").flat_map(data).map(|(metric, _)| metric).collect();
        served.extend(external.into_iter().map(|metric| {
            let (plural, kind) = (metric.to_owned(), "ExternalMetricValueList");
            Served { group: EXTERNAL, version: "v1beta1", plural, kind, namespaced: true, verbs: &["get"] }
        }));
        served
    }

    /// Whether a version of a group is served now.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.served().iter().any(|served| served.group == group && served.version == version)
    }

    /// The response to a request, by the parts of its path after `/apis`.
    ///
    /// # Errors
    /// The metric does not exist, or a selector does not parse.
    pub fn get(&self, path: &[&str], query: impl Fn(&str) -> Option<String>) -> Result<Value, NoMetric> {
        let selector = |name: &str| {
            let text = query(name).unwrap_or_default();
            Selector::parse(&text)
                .map_err(|error| NoMetric { code: 400, message: format!("unable to parse requirement: {error}") })
        };
        let labels = selector("labelSelector")?;
        let unknown = || not_found("the server could not find the requested resource".to_owned());
        match path {
            [RESOURCE, "v1beta1", rest @ ..] => self.resource(rest, &labels).ok_or_else(unknown)?,
            [CUSTOM, version @ ("v1beta1" | "v1beta2"), rest @ ..] => match rest {
                ["namespaces", namespace, "metrics", metric] => {
                    self.of_object(version, None, &format!("namespaces/{namespace}"), metric)
                }
                ["namespaces", namespace, "pods", name, metric] => {
                    self.of_pods(version, namespace, name, metric, &labels)
                }
                ["namespaces", namespace, resource, name, metric] => {
                    self.of_object(version, Some(namespace), &format!("{resource}/{name}"), metric)
                }
                [resource, name, metric] => self.of_object(version, None, &format!("{resource}/{name}"), metric),
                _ => Err(unknown()),
            },
            [EXTERNAL, "v1beta1", "namespaces", namespace, metric] => Ok(self.external(namespace, metric, &labels)),
            _ => Err(unknown()),
        }
    }

    fn config_maps_of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        let maps = self.config_maps.iter().map(Borrow::borrow);
        maps.filter(move |map| map["metadata"]["labels"][LABEL] == kind)
    }

    /// Number of Pods that share a value with this one, including itself.
    fn n_sharing(&self, pod: &Value) -> usize {
        let Some(own) = owner(pod) else { return 1 };
        self.running().filter(|other| owner(other) == Some(own)).count().max(1)
    }

    fn running(&self) -> impl Iterator<Item = &Value> {
        self.pods.iter().map(Borrow::borrow).filter(|pod| text(pod, "/status/phase") == "Running")
    }

    /// The value in an annotation of a Pod, or this Pod's part of the shared value.
    fn own_or_shared(&self, pod: &Value, name: &str, read: impl Fn(&str) -> Option<f64>) -> Option<f64> {
        let shared = || {
            let value = annotation(pod, &format!("shared-{name}")).and_then(&read)?;
            #[expect(clippy::cast_precision_loss, reason = "no cluster has so many Pods")]
            Some(value / self.n_sharing(pod) as f64)
        };
        annotation(pod, name).and_then(&read).or_else(shared)
    }

    /// The usage of a container.
    fn usage(&self, pod: &Value, container: &str, resource: &str) -> f64 {
        let read = |value: &str| PerContainer::read(value, quantity).get(Role::Main, container);
        self.own_or_shared(pod, resource, read).unwrap_or(0.0)
    }

    fn resource(&self, path: &[&str], labels: &Selector) -> Option<Result<Value, NoMetric>> {
        let in_namespace =
            |pod: &&Value, namespace: &str| namespace.is_empty() || text(pod, "/metadata/namespace") == namespace;
        let list = |kind: &str, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items});
        let one = |kind: &str, of: &str, found: Option<Value>| {
            let mut item = found.ok_or_else(|| not_found(format!("{of} not found")))?;
            (item["kind"], item["apiVersion"]) = (kind.into(), "metrics.k8s.io/v1beta1".into());
            Ok(item)
        };
        let (namespace, path) = match path {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let nodes = || self.nodes.iter().map(Borrow::borrow);
        Some(match path {
            ["pods"] => {
                let pods = self.running().filter(|pod| in_namespace(pod, namespace) && is_selected(labels, pod));
                Ok(list("PodMetrics", pods.map(|pod| self.of_pod(pod)).collect()))
            }
            ["pods", name] => {
                let mut pods = self.running().filter(|pod| in_namespace(pod, namespace));
                let pod = pods.find(|pod| text(pod, "/metadata/name") == *name);
                one(
                    "PodMetrics",
                    &format!("podmetrics.metrics.k8s.io \"{namespace}/{name}\""),
                    pod.map(|pod| self.of_pod(pod)),
                )
            }
            ["nodes"] if namespace.is_empty() => {
                let nodes = nodes().filter(|node| is_selected(labels, node));
                Ok(list("NodeMetrics", nodes.map(|node| self.of_node(node)).collect()))
            }
            ["nodes", name] if namespace.is_empty() => {
                let node = nodes().find(|node| text(node, "/metadata/name") == *name);
                one("NodeMetrics", &format!("nodemetrics.metrics.k8s.io {name:?}"), node.map(|node| self.of_node(node)))
            }
            _ => return None,
        })
    }

    fn containers<'a>(&self, pod: &'a Value) -> impl Iterator<Item = &'a str> {
        let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
        containers.map(|container| text(container, "/name"))
    }

    fn of_pod(&self, pod: &Value) -> Value {
        let containers = self.containers(pod).map(|container| {
            let usage = |resource| quantity_text(self.usage(pod, container, resource));
            json!({"name": container, "usage": {"cpu": usage("cpu"), "memory": usage("memory")}})
        });
        let containers: Vec<Value> = containers.collect();
        self.described(pod, json!({"containers": containers}))
    }

    fn of_node(&self, node: &Value) -> Value {
        let pods = || self.running().filter(|pod| pod.pointer("/spec/nodeName") == node.pointer("/metadata/name"));
        let sum = |resource: &str| {
            let usages =
                pods().flat_map(|pod| self.containers(pod).map(move |container| self.usage(pod, container, resource)));
            quantity_text(usages.sum())
        };
        self.described(node, json!({"usage": {"cpu": sum("cpu"), "memory": sum("memory")}}))
    }

    /// Metrics with the identity of their object.
    fn described(&self, object: &Value, metrics: Value) -> Value {
        let mut item = Map::new();
        let mut metadata = Map::new();
        for field in ["name", "namespace", "labels"] {
            if let Some(value) = object["metadata"].get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        metadata.insert("creationTimestamp".to_owned(), rfc3339(self.now).into());
        item.insert("metadata".to_owned(), metadata.into());
        item.insert("timestamp".to_owned(), rfc3339(self.now).into());
        item.insert("window".to_owned(), WINDOW.into());
        if let Value::Object(metrics) = metrics {
            item.extend(metrics);
        }
        item.into()
    }

    fn of_pods(
        &self,
        version: &str,
        namespace: &str,
        name: &str,
        metric: &str,
        labels: &Selector,
    ) -> Result<Value, NoMetric> {
        let annotated = format!("metric.{metric}");
        let is_meant = |pod: &&Value| {
            text(pod, "/metadata/namespace") == namespace
                && if name == "*" { is_selected(labels, pod) } else { text(pod, "/metadata/name") == name }
        };
        let items: Vec<Value> = self
            .running()
            .filter(is_meant)
            .filter_map(|pod| {
                let described = json!({"kind": "Pod", "namespace": namespace, "name": pod["metadata"]["name"], "apiVersion": "/v1"});
                Some(self.value(version, described, metric, self.own_or_shared(pod, &annotated, quantity)?))
            })
            .collect();
        match (items.is_empty(), name) {
            (false, _) => Ok(values(version, items)),
            (true, "*") => Err(not_found(format!("the server could not find the metric {metric} for pods"))),
            (true, name) => Err(not_found(format!("the server could not find the metric {metric} for pods {name}"))),
        }
    }

    fn of_object(&self, version: &str, namespace: Option<&str>, object: &str, metric: &str) -> Result<Value, NoMetric> {
        let is_meant = |map: &&Value| {
            namespace.is_none_or(|namespace| text(map, "/metadata/namespace") == namespace)
                && annotation(map, OBJECT) == Some(object)
        };
        let found = self
            .config_maps_of("custom")
            .filter(is_meant)
            .find_map(|map| data(map).find(|(name, _)| *name == metric).map(|(_, value)| value));
        let (resource, name) = object.split_once('/').unwrap_or((object, ""));
        let value = found
            .ok_or_else(|| not_found(format!("the server could not find the metric {metric} for {resource} {name}")))?;
        let described = json!({"kind": resource, "namespace": namespace, "name": name});
        Ok(values(version, vec![self.value(version, described, metric, value)]))
    }

    fn value(&self, version: &str, described: Value, metric: &str, value: f64) -> Value {
        let mut item =
            json!({"describedObject": described, "timestamp": rfc3339(self.now), "value": quantity_text(value)});
        match version {
            "v1beta1" => item["metricName"] = metric.into(),
            _ => item["metric"] = json!({"name": metric, "selector": null}),
        }
        item
    }

    fn external(&self, namespace: &str, metric: &str, labels: &Selector) -> Value {
        let maps = self.config_maps_of("external").filter(|map| text(map, "/metadata/namespace") == namespace);
        let items: Vec<Value> = maps
            .filter(|map| is_selected(labels, map))
            .filter_map(|map| {
                let value = data(map).find(|(name, _)| *name == metric)?.1;
                let labels: BTreeMap<&String, &Value> = map
                    .pointer("/metadata/labels")
                    .and_then(Value::as_object)
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| *key != LABEL)
                    .collect();
                Some(json!({"metricName": metric, "metricLabels": labels, "timestamp": rfc3339(self.now), "value": quantity_text(value)}))
            })
            .collect();
        json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {}, "items": items})
    }
}

fn values(version: &str, items: Vec<Value>) -> Value {
    json!({"kind": "MetricValueList", "apiVersion": format!("{CUSTOM}/{version}"), "metadata": {}, "items": items})
}

/// The metrics in a ConfigMap.
fn data(map: &Value) -> impl Iterator<Item = (&str, f64)> {
    let data = map.get("data").and_then(Value::as_object).into_iter().flatten();
    data.filter_map(|(name, value)| Some((name.as_str(), quantity(value.as_str()?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Objects {
        pods: Vec<Value>,
        nodes: Vec<Value>,
        maps: Vec<Value>,
    }

    impl Objects {
        fn new() -> Self {
            let pod = |name: &str, phase: &str, annotations: Value| {
                let annotations: Map<String, Value> =
                    annotations.as_object().unwrap().iter().map(|(k, v)| (format!("{PREFIX}{k}"), v.clone())).collect();
                json!({"metadata": {"name": name, "namespace": "ns", "labels": {"app": "web"}, "annotations": annotations,
                    "ownerReferences": [{"uid": "rs", "controller": true}]},
                    "spec": {"nodeName": "n0", "containers": [{"name": "c"}, {"name": "log"}]}, "status": {"phase": phase}})
            };
            let map = |name: &str, kind: &str, object: &str, data: Value| {
                json!({"metadata": {"name": name, "namespace": "ns", "labels": {LABEL: kind, "queue": name},
                    "annotations": {format!("{PREFIX}{OBJECT}"): object}}, "data": data})
            };
            Self {
                pods: vec![
                    pod("a", "Running", json!({"cpu": "250m,log=10m", "memory": "1Mi", "metric.rps": "7"})),
                    pod("b", "Running", json!({"shared-cpu": "c=1", "shared-metric.rps": "9"})),
                    pod("c", "Pending", json!({"cpu": "1"})),
                ],
                nodes: vec![json!({"metadata": {"name": "n0"}}), json!({"metadata": {"name": "n1"}})],
                maps: vec![
                    map("jobs", "external", "", json!({"depth": "30", "age": "soon"})),
                    map("mails", "external", "", json!({"depth": "5"})),
                    map("hits", "custom", "services/web", json!({"hits": "1500m"})),
                    map("other", "none", "services/web", json!({"misses": "1"})),
                ],
            }
        }

        fn source(&self) -> Source<'_, Value> {
            Source { pods: &self.pods, nodes: &self.nodes, config_maps: &self.maps, now: Timestamp::UNIX_EPOCH }
        }

        fn get(&self, path: &str, labels: &str) -> Result<Value, String> {
            let path: Vec<&str> = path.split('/').collect();
            let query = |name: &str| (name == "labelSelector").then(|| labels.to_owned());
            self.source().get(&path, query).map_err(|error| format!("{} {error}", error.code))
        }
    }

    /// The items of a list: name and value, or usage.
    fn items(list: Result<Value, String>) -> Vec<String> {
        let list = list.unwrap();
        let item = |item: &Value| {
            let name = [&item["describedObject"]["name"], &item["metricLabels"]["queue"], &item["metadata"]["name"]];
            let name = name.into_iter().find_map(Value::as_str).unwrap();
            let containers = item["containers"].as_array().into_iter().flatten().map(|c| c["usage"]["cpu"].clone());
            let all: Vec<Value> = containers.chain([item["usage"]["cpu"].clone(), item["value"].clone()]).collect();
            let all: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            format!("{name} {}", all.join(" "))
        };
        list["items"].as_array().unwrap().iter().map(item).collect()
    }

    #[test]
    fn pods_and_nodes_use_what_annotations_say() {
        let objects = Objects::new();
        let pods = "metrics.k8s.io/v1beta1/namespaces/ns/pods";
        assert_eq!(items(objects.get(pods, "app=web")), ["a 250m 10m", "b 500m 0"]);
        assert_eq!(items(objects.get(pods, "app in (x)")), [] as [&str; 0]);
        assert_eq!(items(objects.get("metrics.k8s.io/v1beta1/pods", "")).len(), 2);
        assert_eq!(items(objects.get("metrics.k8s.io/v1beta1/namespaces/other/pods", "")), [] as [&str; 0]);
        assert_eq!(items(objects.get("metrics.k8s.io/v1beta1/nodes", "")), ["n0 760m", "n1 0"]);
        let one = objects.get("metrics.k8s.io/v1beta1/namespaces/ns/pods/a", "").unwrap();
        assert_eq!((&one["kind"], &one["containers"][0]["usage"]["memory"]), (&json!("PodMetrics"), &json!("1048576")));
        let gone = objects.get("metrics.k8s.io/v1beta1/namespaces/ns/pods/x", "");
        assert_eq!(gone.unwrap_err(), "404 podmetrics.metrics.k8s.io \"ns/x\" not found");
        assert!(objects.get(pods, "a in (").unwrap_err().starts_with("400 "));
    }

    #[test]
    fn custom_metrics_describe_pods_and_other_objects() {
        let objects = Objects::new();
        let get = |path: &str| objects.get(&format!("custom.metrics.k8s.io/v1beta2/{path}"), "");
        assert_eq!(items(get("namespaces/ns/pods/*/rps")), ["a 7", "b 4500m"]);
        assert_eq!(items(get("namespaces/ns/pods/a/rps")), ["a 7"]);
        assert_eq!(items(get("namespaces/ns/services/web/hits")), ["web 1500m"]);
        for (path, message) in [
            ("namespaces/ns/pods/*/none", "the server could not find the metric none for pods"),
            ("namespaces/ns/pods/c/rps", "the server could not find the metric rps for pods c"),
            ("namespaces/ns/services/web/misses", "the server could not find the metric misses for services web"),
            ("namespaces/other/services/web/hits", "the server could not find the metric hits for services web"),
            ("namespaces/ns/metrics/hits", "the server could not find the metric hits for namespaces ns"),
        ] {
            assert_eq!(get(path).unwrap_err(), format!("404 {message}"), "{path}");
        }
    }

    #[test]
    fn external_metrics_are_selected_by_the_labels_of_their_config_map() {
        let objects = Objects::new();
        let depth = "external.metrics.k8s.io/v1beta1/namespaces/ns/depth";
        assert_eq!(items(objects.get(depth, "")), ["jobs 30", "mails 5"]);
        assert_eq!(items(objects.get(depth, "queue=mails")), ["mails 5"]);
        assert_eq!(items(objects.get("external.metrics.k8s.io/v1beta1/namespaces/ns/age", "")), [] as [&str; 0]);
    }

    #[test]
    fn a_group_is_served_when_it_has_metrics() {
        let served = |objects: &Objects| -> Vec<String> {
            let served = objects.source().served();
            served.iter().map(|one| format!("{}/{} {}", one.group, one.version, one.plural)).collect()
        };
        let mut objects = Objects::new();
        assert_eq!(
            served(&objects),
            [
                "metrics.k8s.io/v1beta1 nodes",
                "metrics.k8s.io/v1beta1 pods",
                "custom.metrics.k8s.io/v1beta2 pods/rps",
                "custom.metrics.k8s.io/v1beta2 services/hits",
                "custom.metrics.k8s.io/v1beta1 pods/rps",
                "custom.metrics.k8s.io/v1beta1 services/hits",
                "external.metrics.k8s.io/v1beta1 depth",
            ]
        );
        objects.pods.clear();
        objects.maps.truncate(1);
        assert_eq!(served(&objects), ["external.metrics.k8s.io/v1beta1 depth"]);
    }
}
