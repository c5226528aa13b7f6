//! The resource of the spans: this process.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use uuid::Uuid;

/// The file with the name of a Pod's namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Longest name of an object.
const MAX_NAME_BYTES: usize = 253;

/// The resource of this process. `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` take precedence.
pub(crate) fn of_process(version: &'static str) -> Resource {
    let namespace = std::fs::read_to_string(NAMESPACE_FILE).ok();
    let pod = std::env::var("POD_NAME").ok();
    with_names(version, namespace.as_deref(), pod.as_deref(), std::env::var("OTEL_SERVICE_NAME").ok())
}

fn with_names(version: &'static str, namespace: Option<&str>, pod: Option<&str>, service: Option<String>) -> Resource {
    let known = [("k8s.namespace.name", namespace), ("k8s.pod.name", pod)];
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?.trim())));
    let known = known.filter(|(_, value)| !value.is_empty() && value.len() <= MAX_NAME_BYTES);
    let service = service.filter(|name| !name.is_empty()).map(|name| KeyValue::new("service.name", name));
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "pintle"),
            KeyValue::new("service.version", version),
            KeyValue::new("service.instance.id", Uuid::new_v4().to_string()),
        ])
        .with_attributes(known.map(|(name, value)| KeyValue::new(name, value.to_owned())))
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_detector(Box::new(EnvResourceDetector::new()))
        .with_attributes(service)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(resource: &Resource, name: &'static str) -> Option<String> {
        resource.get(&name.into()).map(|value| value.to_string())
    }

    #[test]
    fn a_process_is_named_by_what_is_known_of_it() {
        let bare = with_names("1.2.3", None, Some(""), None);
        assert_eq!(text(&bare, "service.name").as_deref(), Some("pintle"));
        assert_eq!(text(&bare, "service.version").as_deref(), Some("1.2.3"));
        assert_eq!(text(&bare, "service.instance.id").map(|id| id.len()), Some(36));
        assert_eq!(text(&bare, "telemetry.sdk.language").as_deref(), Some("rust"));
        assert_eq!((text(&bare, "k8s.namespace.name"), text(&bare, "k8s.pod.name")), (None, None));
        let pod = with_names("1.2.3", Some("kube-system\n"), Some("pintle-0"), Some("controllers".to_owned()));
        assert_eq!(text(&pod, "k8s.namespace.name").as_deref(), Some("kube-system"));
        assert_eq!(text(&pod, "k8s.pod.name").as_deref(), Some("pintle-0"));
        assert_eq!(text(&pod, "service.name").as_deref(), Some("controllers"));
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(text(&with_names("1", None, Some(&long), None), "k8s.pod.name"), None);
    }
}
