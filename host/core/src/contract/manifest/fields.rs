//! The field paths of a manifest, and their check against the schemas of their kinds.
//!
//! A path that does not exist reads nothing, and a plugin could delete objects because of the missing value. So a wrong
//! path is reported as early as possible.

use super::{Manifest, To, Watch};
use crate::object::field::FieldPath;
use crate::object::id::Kind;
use crate::object::schema::{KindSchema, UnknownField};
use crate::text::several;

/// A path of a manifest that no object can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {error}")]
pub struct WrongPath {
    /// Position in the manifest, for example `watches[0].fields[1]`.
    pub place: String,
    /// The path as written in the manifest.
    pub path: String,
    /// The problem, and the nearest fields.
    pub error: Box<UnknownField>,
}

/// All wrong paths of a manifest, in its order; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", several(&.0.iter().map(ToString::to_string).collect::<Vec<_>>()))]
pub struct WrongPaths(pub Vec<WrongPath>);

impl WrongPaths {
    fn check(wrong: Vec<WrongPath>) -> Result<(), Self> {
        if wrong.is_empty() { Ok(()) } else { Err(Self(wrong)) }
    }
}

impl Watch {
    /// The field paths, each with its position in the watch.
    pub fn paths(&self) -> impl Iterator<Item = (String, &str)> {
        let fields = self.fields.iter().enumerate().map(|(i, path)| (format!("fields[{i}]"), path.as_str()));
        let indexes =
            self.indexes.iter().enumerate().map(|(i, index)| (format!("indexes[{i}].field"), index.field.as_str()));
        let selects = self.selects.iter().map(|selects| ("selects.field".to_owned(), selects.field.as_str()));
        let rules = self.enqueue.iter().enumerate().flat_map(|(i, rule)| {
            let changed = rule.changed.iter().enumerate();
            let changed = changed.map(move |(j, path)| (format!("enqueue[{i}].changed[{j}]"), path.as_str()));
            let field = rule.field.as_deref().filter(|_| matches!(rule.to, To::Field | To::Indexed));
            let namespace = rule.namespace_field.as_deref();
            let others = [("field", field), ("namespaceField", namespace), ("present", rule.present.as_deref())];
            let others = others.into_iter().filter_map(|(name, path)| Some((name, path?)));
            changed.chain(others.map(move |(name, path)| (format!("enqueue[{i}].{name}"), path)))
        });
        fields.chain(indexes).chain(selects).chain(rules)
    }
}

impl Manifest {
    /// Checks the paths of watches against the schemas of their kinds; kinds without a schema are not checked.
    ///
    /// # Errors
    /// The paths that no object can have.
    pub fn check_paths(&self, schema: impl Fn(&Kind) -> Option<KindSchema>) -> Result<(), WrongPaths> {
        let mut wrong = Vec::new();
        for (i, watch) in self.watches.iter().enumerate() {
            let (schema, every) = match &watch.kind {
                Some(kind) => (schema(kind), false),
                None => (Some(KindSchema::of_any("every kind")), true),
            };
            let Some(schema) = schema else { continue };
            for (place, path) in watch.paths() {
                // The syntax has already been checked.
                let Ok(parsed) = path.parse::<FieldPath>() else { continue };
                // An `every` watch reads only metadata; its rules may use fields that only some kinds have.
                if every && !parsed.in_metadata() {
                    continue;
                }
                wrong.extend(schema.check(&parsed).err().map(|error| WrongPath {
                    place: format!("watches[{i}].{place}"),
                    path: path.to_owned(),
                    error: Box::new(error),
                }));
            }
        }
        WrongPaths::check(wrong)
    }

    /// Checks the kinds in watches, rules and grants against the kinds of Kubernetes. For authors: a host may be older
    /// than its cluster.
    ///
    /// # Errors
    /// The kinds whose spelling is close to a kind of Kubernetes.
    pub fn check_kinds(&self) -> Result<(), WrongPaths> {
        let mut wrong = Vec::new();
        let mut check = |place: String, kind: &Kind| {
            wrong.extend(KindSchema::misspelled(kind).map(|error| WrongPath {
                place,
                path: error.path.clone(),
                error: Box::new(error),
            }));
        };
        for (i, watch) in self.watches.iter().enumerate() {
            if let Some(kind) = &watch.kind {
                check(format!("watches[{i}].kind"), kind);
            }
            for (j, kind) in watch.enqueue.iter().enumerate().filter_map(|(j, rule)| Some((j, rule.kind.as_ref()?))) {
                check(format!("watches[{i}].enqueue[{j}].kind"), kind);
            }
        }
        for (i, grant) in self.grants.iter().enumerate() {
            for (j, kind) in grant.kinds.iter().enumerate().filter_map(|(j, kind)| Some((j, kind.parse().ok()?))) {
                check(format!("grants[{i}].kinds[{j}]"), &kind);
            }
        }
        WrongPaths::check(wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ManifestError;
    use super::*;

    fn parse(watch: Value) -> String {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "watches": [watch], "queues": [{"name": "p"}],
        });
        match Manifest::parse(manifest.to_string().as_bytes()) {
            Ok(_) => "ok".to_owned(),
            Err(ManifestError::Path(wrong)) => wrong.to_string(),
            Err(why) => format!("another error: {why}"),
        }
    }

    #[test]
    fn every_path_of_a_watch_of_a_built_in_kind_is_checked() {
        let advice = "labls: v1/Namespace has no such field; did you mean metadata.labels?";
        for (member, wrong, right, place) in [
            ("fields", json!(["metadata.labels", "metadata.labls"]), json!(["metadata.labels"]), "fields[1]"),
            (
                "indexes",
                json!([{"name": "i", "field": "metadata.labls"}]),
                json!([{"name": "i", "field": "spec.finalizers"}]),
                "indexes[0].field",
            ),
            (
                "selects",
                json!({"field": "metadata.labls", "form": "map"}),
                json!({"field": "metadata.labels", "form": "map"}),
                "selects.field",
            ),
            (
                "enqueue",
                json!([{"to": "self", "changed": ["status", "metadata.labls"]}]),
                json!([{"to": "self", "changed": ["status"]}]),
                "enqueue[0].changed[1]",
            ),
            (
                "enqueue",
                json!([{"to": "self"}, {"to": "self", "present": "metadata.labls"}]),
                json!([{"to": "self", "present": "metadata.deletionTimestamp"}]),
                "enqueue[1].present",
            ),
            (
                "enqueue",
                json!([{"to": "field", "kind": "v1/Pod", "field": "metadata.labls"}]),
                json!([{"to": "label", "kind": "v1/Pod", "field": "labls"}]),
                "enqueue[0].field",
            ),
            (
                "enqueue",
                json!([{"to": "field", "kind": "v1/Pod", "field": "metadata.name", "namespaceField": "metadata.labls"}]),
                json!([{"to": "field", "kind": "v1/Pod", "field": "metadata.name", "namespaceField": "metadata.namespace"}]),
                "enqueue[0].namespaceField",
            ),
        ] {
            assert_eq!(
                parse(json!({"kind": "v1/Namespace", member: wrong})),
                format!("watches[0].{place}: metadata.{advice}")
            );
            assert_eq!(parse(json!({"kind": "v1/Namespace", member: right})), "ok");
        }
    }

    #[test]
    fn kinds_that_are_almost_those_of_kubernetes_are_errors() {
        let manifest = |kind: &str| {
            let manifest = json!({
                "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "p"}],
                "watches": [{"kind": kind, "enqueue": [{"to": "controller", "kind": kind}]}],
                "grants": [{"verbs": ["patch"], "kinds": ["v1/Pod", kind]}],
            });
            Manifest::parse(manifest.to_string().as_bytes()).unwrap()
        };
        for (kind, meant) in [
            ("apps/v1/Deploymnt", "apps/v1/Deployment"),
            ("apps/v1/Statefulset", "apps/v1/StatefulSet"),
            ("apps/v2/DaemonSets", "apps/v2/DaemonSet"),
            ("v1/Confgmap", "v1/ConfigMap"),
            ("app/v1/Deployment", "apps/v1/Deployment"),
            ("networkin.k8s.io/v1/Ingress", "networking.k8s.io/v1/Ingress"),
        ] {
            let why = manifest(kind).check_kinds().unwrap_err().to_string();
            let at = |place: &str| format!("{place}: {kind}: Kubernetes has no such kind; did you mean {meant}?");
            let places = ["watches[0].kind", "watches[0].enqueue[0].kind", "grants[0].kinds[1]"].map(at);
            assert_eq!(why, format!("3 errors: {}", places.join("; ")));
        }
        // Fields of another version of Kubernetes, or of an aggregated API.
        for kind in [
            "apps/v1/Website",
            "apps/v2/Deployment",
            "v1/Box",
            "apps.example.org/v1/Deploymnt",
            "gateway.networking.k8s.io/v1/Gateway",
        ] {
            assert_eq!(manifest(kind).check_kinds(), Ok(()), "{kind}");
        }
    }

    #[test]
    fn paths_of_unknown_kinds_pass_and_of_every_kind_only_metadata_is_known() {
        assert_eq!(parse(json!({"kind": "example.org/v1/Team", "fields": ["spec.membrs"]})), "ok");
        assert_eq!(parse(json!({"every": {}, "fields": ["metadata.labels", "spec.x"]})), "ok");
        assert_eq!(
            parse(json!({"every": {}, "fields": ["metadata.labls"]})),
            "watches[0].fields[0]: metadata.labls: every kind has no such field; did you mean metadata.labels?"
        );
    }

    #[test]
    fn paths_of_a_custom_kind_are_checked_with_its_schema() {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "p"}],
            "watches": [{"kind": "example.org/v1/Team", "fields": ["spec.members", "spec.membrs"]}],
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
        let team = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"members": {"type": "array"}}}}});
        let wrong = manifest.check_paths(|kind| Some(KindSchema::of_definition(kind, &team))).unwrap_err();
        let found: Vec<_> = wrong.0.iter().map(|wrong| (wrong.place.as_str(), wrong.path.as_str())).collect();
        assert_eq!(found, [("watches[0].fields[1]", "spec.membrs")]);
        assert_eq!(manifest.check_paths(|_| None), Ok(()));
    }
}
