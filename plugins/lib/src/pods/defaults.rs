//! Defaults that the API server adds to Pod templates.
//!
//! Excluded: defaults that depend on the API server (other forms of quantities), and those of Pods only (requests
//! derived from limits).
//!
//! *Source*: Kubernetes' `pkg/apis/core/v1/defaults.go` and `SetObjectDefaults_StatefulSet`, 1.37.

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// Completes a Pod template as the API server does: sets absent fields to their defaults.
///
/// A template that an older version stored in another object, such as a ControllerRevision, may lack some fields.
#[doc(alias = "SetDefaults_PodSpec")]
pub fn complete_template(template: &mut Value) {
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return };
    fill(
        spec,
        json!({
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
        }),
    );
    items(spec, "volumes").for_each(volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, containers).for_each(container);
    }
}

/// Sets absent fields.
fn fill(object: &mut Object, defaults: Value) {
    let Value::Object(defaults) = defaults else { return };
    for (name, value) in defaults {
        let field = object.entry(name).or_insert(Value::Null);
        if field.is_null() {
            *field = value;
        }
    }
}

fn inner<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name)?.as_object_mut()
}

fn items<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Fills a nested object, if it exists.
fn fill_inner(object: &mut Object, name: &str, defaults: Value) {
    if let Some(inner) = inner(object, name) {
        fill(inner, defaults);
    }
}

#[doc(alias = "SetDefaults_Volume")]
#[doc(alias = "SetDefaults_HostPathVolumeSource")]
#[doc(alias = "SetDefaults_SecretVolumeSource")]
#[doc(alias = "SetDefaults_ConfigMapVolumeSource")]
#[doc(alias = "SetDefaults_DownwardAPIVolumeSource")]
#[doc(alias = "SetDefaults_ProjectedVolumeSource")]
#[doc(alias = "SetDefaults_ServiceAccountTokenProjection")]
fn volume(volume: &mut Object) {
    if volume.iter().all(|(name, value)| name == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    const MODE: i32 = 0o644;
    for (source, defaults) in [
        ("hostPath", json!({"type": ""})),
        ("secret", json!({"defaultMode": MODE})),
        ("configMap", json!({"defaultMode": MODE})),
        ("downwardAPI", json!({"defaultMode": MODE})),
        ("projected", json!({"defaultMode": MODE})),
        ("iscsi", json!({"iscsiInterface": "default"})),
        ("rbd", json!({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"})),
        ("azureDisk", json!({"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"})),
        ("scaleIO", json!({"storageMode": "ThinProvisioned", "fsType": "xfs"})),
    ] {
        fill_inner(volume, source, defaults);
    }
    if let Some(image) = inner(volume, "image") {
        let policy = pull_policy(image, "reference");
        fill(image, json!({"pullPolicy": policy}));
    }
    let template = inner(volume, "ephemeral").and_then(|ephemeral| inner(ephemeral, "volumeClaimTemplate"));
    if let Some(template) = template {
        fill_inner(template, "spec", json!({"volumeMode": "Filesystem"}));
    }
    if let Some(source) = inner(volume, "downwardAPI") {
        downward_api(source);
    }
    for source in inner(volume, "projected").into_iter().flat_map(|projected| items(projected, "sources")) {
        fill_inner(source, "serviceAccountToken", json!({"expirationSeconds": 3600}));
        if let Some(source) = inner(source, "downwardAPI") {
            downward_api(source);
        }
    }
}

#[doc(alias = "SetDefaults_ObjectFieldSelector")]
fn downward_api(source: &mut Object) {
    items(source, "items").for_each(|item| fill_inner(item, "fieldRef", json!({"apiVersion": "v1"})));
}

#[doc(alias = "SetDefaults_Container")]
#[doc(alias = "SetDefaults_EphemeralContainer")]
#[doc(alias = "SetDefaults_Probe")]
fn container(container: &mut Object) {
    let policy = pull_policy(container, "image");
    fill(
        container,
        json!({
            "imagePullPolicy": policy, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            // The API server always sets it.
            "resources": {},
        }),
    );
    items(container, "ports").for_each(|port| fill(port, json!({"protocol": "TCP"})));
    for source in items(container, "env").filter_map(|variable| inner(variable, "valueFrom")) {
        fill_inner(source, "fieldRef", json!({"apiVersion": "v1"}));
        fill_inner(source, "fileKeyRef", json!({"optional": false}));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = inner(container, probe) {
            fill(
                probe,
                json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
            );
            fill_inner(probe, "grpc", json!({"service": ""}));
            http_get(probe);
        }
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            inner(lifecycle, hook).into_iter().for_each(http_get);
        }
    }
}

#[doc(alias = "SetDefaults_HTTPGetAction")]
fn http_get(handler: &mut Object) {
    fill_inner(handler, "httpGet", json!({"path": "/", "scheme": "HTTP"}));
}

/// Default pull policy by the image's tag: an image without tag and digest is the latest.
fn pull_policy(object: &Object, image: &str) -> &'static str {
    let image = object.get(image).and_then(Value::as_str).unwrap_or_default();
    let (name, has_digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match tag {
        Some("latest") => "Always",
        None if !has_digest => "Always",
        Some(_) | None => "IfNotPresent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(spec: Value) -> Value {
        let mut template = json!({ "spec": spec });
        complete_template(&mut template);
        let before = template.clone();
        complete_template(&mut template);
        assert_eq!(template, before, "defaulting twice changes nothing");
        template["spec"].take()
    }

    #[test]
    fn fields_that_are_absent_get_their_defaults() {
        let spec = completed(json!({
            "restartPolicy": "Never", "schedulerName": null,
            "containers": [{
                "name": "c", "image": "web:1", "ports": [{"containerPort": 80}, {"containerPort": 81, "protocol": "UDP"}],
                "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 7},
                "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/end"}}},
            }],
            "volumes": [
                {"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}, {"name": "c", "hostPath": {"path": "/"}},
                {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}], "defaultMode": 256}},
            ],
        }));
        assert_eq!(
            spec,
            json!({
                "restartPolicy": "Never", "schedulerName": "default-scheduler", "dnsPolicy": "ClusterFirst", "securityContext": {},
                "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "name": "c", "image": "web:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 81, "protocol": "UDP"}],
                    "env": [
                        {"name": "A", "value": ""},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                    ],
                    "livenessProbe": {
                        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 7, "timeoutSeconds": 1,
                        "successThreshold": 1, "failureThreshold": 3,
                    },
                    "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/end", "scheme": "HTTP"}}},
                }],
                "volumes": [
                    {"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
                    {"name": "c", "hostPath": {"path": "/", "type": ""}},
                    {
                        "name": "d",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}], "defaultMode": 256},
                    },
                ],
            }),
        );
    }

    #[test]
    fn images_of_the_latest_tag_are_always_pulled() {
        for (image, expected) in [
            ("web", "Always"),
            ("web:latest", "Always"),
            ("web:1", "IfNotPresent"),
            ("registry:5000/web", "Always"),
            ("registry:5000/web:1", "IfNotPresent"),
            ("web@sha256:0", "IfNotPresent"),
            ("web:latest@sha256:0", "Always"),
        ] {
            let spec = completed(json!({"containers": [{"image": image}]}));
            assert_eq!(spec["containers"][0]["imagePullPolicy"], expected, "{image}");
        }
    }
}
