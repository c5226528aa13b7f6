//! Pod templates: semantic equality, and the hash in ReplicaSet names.
//!
//! *Flow*: JSON of templates in, equality or a hash out.
//!
//! *Invariants*
//! 1. Absent fields, `null` and empty lists are equal.
//! 2. An empty object equals an absent one only where the API has no pointer: `securityContext: {}` is significant,
//!    `resources: {}` of a container is not.
//! 3. Quantities are equal by value (`1Gi` and `1024Mi`).
//! 4. Only differing parts are decoded, level by level: most old templates differ in one field.
//!
//! *Not here*: which ReplicaSet is the new one ([`crate::revision`]).
//!
//! *Source*: deployment_util.go, controller_utils.go. The hash covers the template's JSON, where upstream's covers a
//! dump of Go's structs: names differ from upstream's, and nothing depends on their value.

use std::collections::{BTreeMap, BTreeSet};

use pintle_sdk::api::core::PodTemplateSpec;
use pintle_sdk::hash::{fnv32a, safe_encode};
use pintle_sdk::json;
use pintle_sdk::quantity::Quantity;
use serde_json::Value;
use serde_json::value::RawValue;

/// Label of the ReplicaSets and Pods of one template.
#[doc(alias = "DefaultDeploymentUniqueLabelKey")]
pub(crate) const HASH_LABEL: &str = "pod-template-hash";

/// Whether the templates are equal, ignoring the hash label.
#[doc(alias = "EqualIgnoreHash")]
pub(crate) fn equal_ignore_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    let metadata = |template: &PodTemplateSpec| {
        let mut metadata = template.metadata.clone();
        metadata.labels.remove(HASH_LABEL);
        // The API server stores no creation time in a template.
        metadata.creation_timestamp = None;
        metadata
    };
    metadata(a) == metadata(b) && same(a.spec.text(), b.spec.text(), "", POD_SPEC)
}

/// A name for a template that changes with `collision_count`, of letters and digits that spell no words.
#[doc(alias = "ComputeHash")]
pub(crate) fn hash(template: &PodTemplateSpec, collision_count: Option<i32>) -> String {
    let mut text = json(&template.metadata);
    canonical(&template.spec.value(), "", POD_SPEC, &mut text);
    let mut bytes = text.into_bytes();
    if let Some(count) = collision_count {
        bytes.extend(count.to_le_bytes());
    }
    safe_encode(&fnv32a(&bytes).to_string())
}

/// Instead of the name of the template's `spec`: a claim template in it has a `spec`, too.
const POD_SPEC: &str = "podSpec";
/// Objects that are not pointers in the API: empty equals absent.
const PLAIN_OBJECTS: &[&str] = &[
    "metadata",
    "labels",
    "annotations",
    "matchLabels",
    "nodeSelector",
    "resources",
    "limits",
    "requests",
    "overhead",
    "options",
    "volumeAttributes",
];
/// Scalars that are not pointers in the API: the zero value equals absent.
const PLAIN_SCALARS: &[&str] = &[
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "hostPort",
    "initialDelaySeconds",
    "hostIP",
    "nodeName",
    "serviceAccount",
    "serviceAccountName",
    "hostname",
    "subdomain",
    "subPath",
    "subPathExpr",
    "workingDir",
    "value",
    "medium",
    "fsType",
];
const QUANTITY_MAPS: &[&str] = &["limits", "requests", "overhead"];
const QUANTITIES: &[&str] = &["sizeLimit", "divisor"];

/// Whether an empty object equals an absent one. The resources of a whole Pod are a pointer.
fn is_plain(parent: &str, key: &str) -> bool {
    PLAIN_OBJECTS.contains(&key) && (parent, key) != (POD_SPEC, "resources")
}

/// Whether a field with this text counts as absent.
fn is_unset(text: &str, parent: &str, key: &str) -> bool {
    match text {
        "null" | "[]" => true,
        "{}" => is_plain(parent, key),
        "false" | "0" | "\"\"" => PLAIN_SCALARS.contains(&key),
        _ => false,
    }
}

/// Whether two JSON texts are equal. `key` is the name of the field, `parent` that of the enclosing object.
fn same(a: &str, b: &str, parent: &str, key: &str) -> bool {
    let (a, b) = (a.trim(), b.trim());
    if a == b || (is_unset(a, parent, key) && is_unset(b, parent, key)) {
        return true;
    }
    let absent_is_empty = is_plain(parent, key);
    let a = if a == "null" && absent_is_empty { "{}" } else { a };
    let b = if b == "null" && absent_is_empty { "{}" } else { b };
    match (first(a), first(b)) {
        (b'{', b'{') => same_objects(a, b, key),
        (b'[', b'[') => same_lists(a, b, key),
        (b'"' | b'0'..=b'9' | b'-', b'"' | b'0'..=b'9' | b'-')
            if QUANTITY_MAPS.contains(&parent) || QUANTITIES.contains(&key) =>
        {
            matches!((quantity(a), quantity(b)), (Some(a), Some(b)) if a == b)
        }
        // The same string or number may be written in two ways.
        _ => matches!(
            (serde_json::from_str::<Value>(a), serde_json::from_str::<Value>(b)),
            (Ok(a), Ok(b)) if a == b
        ),
    }
}

fn first(text: &str) -> u8 {
    text.bytes().next().unwrap_or(b' ')
}

fn same_objects(a: &str, b: &str, key: &str) -> bool {
    type Fields<'a> = BTreeMap<String, &'a RawValue>;
    let (Ok(a), Ok(b)) = (serde_json::from_str::<Fields<'_>>(a), serde_json::from_str::<Fields<'_>>(b)) else {
        return false;
    };
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    names.into_iter().all(|name| {
        let a = a.get(name).map_or("null", |raw| raw.get());
        let b = b.get(name).map_or("null", |raw| raw.get());
        same(a, b, key, name)
    })
}

fn same_lists(a: &str, b: &str, key: &str) -> bool {
    let (Ok(a), Ok(b)) = (serde_json::from_str::<Vec<&RawValue>>(a), serde_json::from_str::<Vec<&RawValue>>(b)) else {
        return false;
    };
    // Elements have no name: an empty one is not equal to an absent one.
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| same(a.get(), b.get(), key, ""))
}

/// Value of a quantity (`100m`, `1.5Gi`, `"2"`, `1e3`) in billionths; `None` if it is not a quantity.
fn quantity(text: &str) -> Option<i128> {
    text.trim_matches('"').parse::<Quantity>().ok().map(Quantity::nanos)
}

/// Canonical text of a value, equal for equal templates: sorted keys, no unset fields.
fn canonical(value: &Value, parent: &str, key: &str, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            out.push('{');
            for name in names {
                let mut text = String::new();
                canonical(&fields[name], key, name, &mut text);
                if !is_unset(&text, key, name) {
                    out.push_str(name);
                    out.push(':');
                    out.push_str(&text);
                    out.push(',');
                }
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, key, "", out);
            }
            out.push(']');
        }
        scalar => {
            let text = scalar.to_string();
            match quantity(&text).filter(|_| QUANTITY_MAPS.contains(&parent) || QUANTITIES.contains(&key)) {
                Some(nanos) => out.push_str(&nanos.to_string()),
                None => out.push_str(&text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(json: &str) -> PodTemplateSpec {
        serde_json::from_str(json).unwrap()
    }

    fn equal(a: &str, b: &str) -> bool {
        let (mut a, mut b) = (template(a), template(b));
        let verdict = equal_ignore_hash(&a, &b);
        assert_eq!(verdict, equal_ignore_hash(&b, &a), "equality is symmetric");
        if verdict {
            a.metadata.labels.remove(HASH_LABEL);
            b.metadata.labels.remove(HASH_LABEL);
            assert_eq!(hash(&a, None), hash(&b, None), "equal templates have equal hashes");
        }
        verdict
    }

    #[test]
    fn the_label_of_the_hash_is_ignored() {
        let with =
            r#"{"metadata":{"labels":{"app":"a","pod-template-hash":"x"}},"spec":{"containers":[{"name":"c"}]}}"#;
        let other =
            r#"{"metadata":{"labels":{"pod-template-hash":"y","app":"a"}},"spec":{"containers":[{"name":"c"}]}}"#;
        let without = r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"name":"c"}]}}"#;
        assert!(equal(with, without));
        assert!(equal(with, other));
        assert!(!equal(with, r#"{"metadata":{"labels":{"app":"b"}},"spec":{"containers":[{"name":"c"}]}}"#));
    }

    #[test]
    fn only_the_hash_on_one_side_equals_no_labels_at_all() {
        assert!(equal(r#"{"metadata":{"labels":{"pod-template-hash":"x"}},"spec":{}}"#, r#"{"spec":{}}"#));
        assert!(equal(r#"{"metadata":{"creationTimestamp":null},"spec":{}}"#, r#"{"metadata":{},"spec":{}}"#));
    }

    #[test]
    fn unset_lists_maps_and_plain_objects_are_equal_to_absent_ones() {
        for (a, b, expected) in [
            (r#"{"containers":[],"nodeSelector":{}}"#, "{}", true),
            (r#"{"containers":[{"name":"c","resources":{}}]}"#, r#"{"containers":[{"name":"c"}]}"#, true),
            (r#"{"containers":[{"resources":{"limits":{}}}]}"#, r#"{"containers":[{}]}"#, true),
            (r#"{"hostNetwork":false}"#, "{}", true),
            (r#"{"resources":{}}"#, "{}", false),
            (r#"{"resources":{"limits":{}}}"#, r#"{"resources":{}}"#, true),
            (
                r#"{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{}}}}}]}"#,
                r#"{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{}}}}]}"#,
                true,
            ),
            (r#"{"securityContext":{}}"#, "{}", false),
            (r#"{"volumes":[{"name":"v","emptyDir":{}}]}"#, r#"{"volumes":[{"name":"v"}]}"#, false),
            (r#"{"automountServiceAccountToken":false}"#, "{}", false),
            (r#"{"terminationGracePeriodSeconds":0}"#, "{}", false),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true),
            (r#"{"l":[1,2]}"#, r#"{"l":[2,1]}"#, false),
        ] {
            let wrap = |spec: &str| format!(r#"{{"spec":{spec}}}"#);
            assert_eq!(equal(&wrap(a), &wrap(b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn quantities_are_equal_by_value() {
        for (a, b, expected) in [
            ("1Gi", "1024Mi", true),
            ("1", "1000m", true),
            ("0.5", "500m", true),
            ("1e3", "1k", true),
            ("1Gi", "1G", false),
        ] {
            let wrap = |q: &str| format!(r#"{{"spec":{{"containers":[{{"resources":{{"limits":{{"x":"{q}"}}}}}}]}}}}"#);
            assert_eq!(equal(&wrap(a), &wrap(b)), expected, "{a} {b}");
        }
        let env = |v: &str| format!(r#"{{"spec":{{"containers":[{{"env":[{{"name":"E","value":"{v}"}}]}}]}}}}"#);
        assert!(!equal(&env("1Gi"), &env("1024Mi")), "only quantities are");
    }

    #[test]
    fn the_hash_is_stable_spelled_without_vowels_and_moves_with_the_collision_count() {
        let a = template(r#"{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"x","name":"c"}]}}"#);
        let b = template(r#"{"spec":{"containers":[{"name":"c","image":"x"}]},"metadata":{"labels":{"app":"a"}}}"#);
        assert_eq!(hash(&a, None), hash(&b, None));
        assert_ne!(hash(&a, None), hash(&a, Some(1)));
        assert_ne!(hash(&a, Some(1)), hash(&a, Some(2)));
        assert!(hash(&a, None).bytes().all(|b| b"bcdfghjklmnpqrstvwxz2456789".contains(&b)));
    }

    #[test]
    fn a_thousand_images_have_a_thousand_hashes() {
        let hashes: BTreeSet<String> = (0..1000)
            .map(|i| hash(&template(&format!(r#"{{"spec":{{"containers":[{{"image":"cats:v0.{i}.0"}}]}}}}"#)), None))
            .collect();
        assert_eq!(hashes.len(), 1000);
    }
}
