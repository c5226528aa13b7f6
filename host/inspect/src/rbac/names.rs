//! Resource names of kinds, which RBAC uses.
//!
//! A cluster's discovery is authoritative. Without a cluster, kube's pluralization applies, which is right for all built-in
//! kinds except those listed here (a test compares them with the real API server), and for nearly all others.

use std::collections::BTreeMap;

use pintle_core::object::id::{Kind, guessed_plural};
use pintle_core::ports::api::{ApiResource, Discovery};

/// Built-in kinds with an irregular resource name.
const IRREGULAR: [(&str, &str, &str); 3] = [
    ("", "Endpoints", "endpoints"),
    ("metrics.k8s.io", "PodMetrics", "pods"),
    ("metrics.k8s.io", "NodeMetrics", "nodes"),
];

/// Resource names.
#[derive(Default)]
pub struct Names {
    /// From a cluster, by group and name of the kind.
    found: BTreeMap<(String, String), ApiResource>,
}

impl Names {
    /// Names from a cluster's discovery.
    pub fn of_cluster(discovery: Discovery) -> Self {
        Self { found: discovery.resources.into_iter().map(|resource| (key(&resource.kind), resource)).collect() }
    }

    /// Resource name of the kind.
    pub(super) fn plural(&self, kind: &Kind) -> String {
        self.found.get(&key(kind)).map_or_else(|| guess(kind), |resource| resource.plural.clone())
    }

    /// Its subresources, if discovery lists the kind.
    pub(super) fn subresources(&self, kind: &Kind) -> Option<&[String]> {
        self.found.get(&key(kind)).map(|resource| &*resource.subresources)
    }
}

/// All versions of a kind are one resource.
fn key(kind: &Kind) -> (String, String) {
    (kind.group.to_string(), kind.name.to_string())
}

/// The irregular name, or the guess of Kubernetes' tools.
fn guess(kind: &Kind) -> String {
    let (group, name) = (&*kind.group, &*kind.name);
    if let Some((_, _, plural)) = IRREGULAR.iter().find(|(of, irregular, _)| *of == group && *irregular == name) {
        return (*plural).to_owned();
    }
    guessed_plural(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_guessed_like_upstream() {
        let plural = |kind: &str| guess(&kind.parse().unwrap());
        for (kind, expected) in [
            ("v1/Pod", "pods"),
            ("v1/Endpoints", "endpoints"),
            ("networking.k8s.io/v1/Ingress", "ingresses"),
            ("networking.k8s.io/v1/NetworkPolicy", "networkpolicies"),
            ("example.com/v1/Widget", "widgets"),
            ("example.com/v1/Endpoints", "endpointses"),
        ] {
            assert_eq!(plural(kind), expected, "{kind}");
        }
    }
}
