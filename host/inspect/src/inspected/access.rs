//! Reads and writes of a plugin, by kind: its watches and its requested grants combined.

use std::collections::BTreeMap;

use pintle_core::contract::manifest::{Grant, Manifest, Of, Watch};
use serde_json::{Value, json};

/// Read-only verbs.
const READING: [&str; 3] = ["get", "list", "watch"];

/// The requests for one kind, or one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// `v1/Pod`, `*`, or a path.
    pub(super) target: String,
    /// With watches, and live.
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
}

impl Access {
    pub(super) fn json(&self) -> Value {
        json!({"target": self.target, "reads": self.reads, "writes": self.writes})
    }
}

/// By kind, including requests for every kind, and paths.
pub(super) fn of(manifest: &Manifest) -> Vec<Access> {
    let mut by_target: BTreeMap<String, Access> = BTreeMap::new();
    for watch in &manifest.watches {
        let (target, text) = watched(watch);
        by_target.entry(target).or_default().reads.push(text);
    }
    for grant in &manifest.grants {
        for target in grant.kinds.iter().chain(&grant.paths) {
            let access = by_target.entry(target.clone()).or_default();
            let (reads, writes): (Vec<&str>, Vec<&str>) =
                grant.verbs.iter().map(String::as_str).partition(|verb| READING.contains(verb));
            if !reads.is_empty() {
                access.reads.push(format!("live {}{}", reads.join(", "), limits(grant)));
            }
            if !writes.is_empty() {
                access.writes.push(writes.join(", ") + &limits(grant));
            }
        }
    }
    by_target.into_iter().map(|(target, access)| Access { target, ..access }).collect()
}

/// A kind, and the kept fields of its objects.
fn watched(watch: &Watch) -> (String, String) {
    let target = watch.kind.as_ref().map_or_else(|| "*".to_owned(), ToString::to_string);
    let mut text = String::from("watch");
    if let Some(every) = watch.every.as_ref().filter(|every| !every.verbs.is_empty()) {
        text += &format!(" of kinds that offer {}", every.verbs.join(", "));
    }
    text += &within(watch.namespace.iter());
    for selector in [&watch.label_selector, &watch.field_selector].into_iter().flatten() {
        text += &format!(" where {selector}");
    }
    text += &match (watch.whole, watch.fields.len()) {
        (true, _) => ", whole objects".to_owned(),
        (false, 0) => ", names only".to_owned(),
        (false, 1) => format!(", {}", watch.fields[0]),
        (false, n_fields) => format!(", {n_fields} fields"),
    };
    (target, text)
}

/// The objects that a grant covers.
fn limits(grant: &Grant) -> String {
    let mut text = String::new();
    if !grant.subresources.is_empty() {
        text += &format!(" of {}", grant.subresources.join(", "));
    }
    text += match grant.of {
        Of::Any => "",
        Of::Key => " of the key",
        Of::Controlled if grant.adopt => " of what the key controls or adopts",
        Of::Controlled => " of what the key controls",
    };
    text += &within(grant.namespaces.iter());
    if !grant.names.is_empty() {
        text += &format!(" named {}", grant.names.join(", "));
    }
    if !grant.signers.is_empty() {
        text += &format!(" for signers {}", grant.signers.join(", "));
    }
    text
}

fn within<'a>(namespaces: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = namespaces.map(String::as_str).collect();
    match names[..] {
        [] => String::new(),
        ["*"] => " in all namespaces".to_owned(),
        _ => format!(" in {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_and_grants_of_a_kind_stand_together() {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "q"}],
            "watches": [
                {"kind": "v1/Pod", "fields": ["spec.nodeName"], "namespace": "a", "labelSelector": "app=web"},
                {"kind": "v1/ConfigMap", "whole": true},
                {"kind": "v1/Node", "fields": ["spec.taints", "spec.podCIDRs"]},
                {"every": {"verbs": ["delete"]}},
            ],
            "grants": [
                {"verbs": ["get", "delete"], "kinds": ["v1/Pod"], "of": "controlled"},
                {"verbs": ["patch"], "kinds": ["v1/Pod", "v1/Node"], "subresources": ["status"], "of": "key"},
                {"verbs": ["create"], "kinds": ["v1/Secret"], "namespaces": ["a", "b"], "names": ["s"]},
                {"verbs": ["patch"], "kinds": ["v1/Secret"], "namespaces": ["*"], "names": ["*"], "of": "controlled", "adopt": true},
                {"verbs": ["attest", "create"], "kinds": ["certificates.k8s.io/v1/ClusterTrustBundle"], "signers": ["example.com/a"]},
                {"verbs": ["get"], "paths": ["/metrics"]},
            ],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let shown: Vec<String> = of(&manifest)
            .iter()
            .map(|a| format!("{} | {} | {}", a.target, a.reads.join("; "), a.writes.join("; ")))
            .collect();
        assert_eq!(
            shown,
            [
                "* | watch of kinds that offer delete, names only | ",
                "/metrics | live get | ",
                "certificates.k8s.io/v1/ClusterTrustBundle |  | attest, create for signers example.com/a",
                "v1/ConfigMap | watch, whole objects | ",
                "v1/Node | watch, 2 fields | patch of status of the key",
                "v1/Pod | watch in a where app=web, spec.nodeName; live get of what the key controls | delete of what the key controls; patch of status of the key",
                "v1/Secret |  | create in a, b named s; patch of what the key controls or adopts in all namespaces named *",
            ]
        );
    }
}
