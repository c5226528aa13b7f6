//! Declared fields of custom kinds that objects do not have, according to their schema or the objects seen so far.
//!
//! Only fields that no schema describes are compared with objects: an optional field that no object uses is not an
//! error.
//!
//! Not here: built-in kinds, whose paths are checked with the manifest (`contract::manifest`).

use std::collections::BTreeMap;

use crate::contract::manifest::Manifest;
use crate::object::field::FieldPath;
use crate::object::id::Kind;
use crate::object::schema::{KindSchema, Known};

/// The fields declared by one version of a plugin that seem to be wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredFields {
    /// One sentence per path that a schema does not have.
    unknown: Vec<String>,
    unseen: BTreeMap<Kind, Unseen>,
}

/// Paths of a kind that no object has had so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unseen {
    paths: Vec<FieldPath>,
    n_objects: u64,
}

impl DeclaredFields {
    /// The declared fields of the watched custom kinds, checked against the available schemas.
    pub fn new(manifest: &Manifest, schemas: &BTreeMap<Kind, KindSchema>) -> Self {
        let mut fields = Self::default();
        for watch in &manifest.watches {
            let Some(kind) = watch.kind.as_ref().filter(|kind| KindSchema::of_kubernetes(kind).is_none()) else {
                continue;
            };
            let nothing = KindSchema::of_any(&kind.to_string());
            let schema = schemas.get(kind).unwrap_or(&nothing);
            let mut unseen = Unseen::default();
            for path in watch.paths().filter_map(|(_, path)| path.parse::<FieldPath>().ok()) {
                match schema.check(&path) {
                    Ok(Known::Field) => {}
                    Ok(Known::Open) if unseen.paths.contains(&path) => {}
                    Ok(Known::Open) => unseen.paths.push(path),
                    Err(unknown) => fields.unknown.push(unknown.to_string()),
                }
            }
            if !unseen.paths.is_empty() {
                fields.unseen.insert(kind.clone(), unseen);
            }
        }
        fields.unknown.dedup();
        fields
    }

    /// Kinds whose objects must be passed to `object`.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.unseen.keys()
    }

    /// Whether objects of this kind must be passed to `object`.
    pub fn wants(&self, kind: &Kind) -> bool {
        self.unseen.contains_key(kind)
    }

    /// Checks the JSON text of the declared fields of an object. `is_new`: the object was not passed before. Returns
    /// whether the verdict has changed.
    pub fn object(&mut self, kind: &Kind, text: &str, is_new: bool) -> bool {
        let Some(unseen) = self.unseen.get_mut(kind) else { return false };
        let n_before = unseen.paths.len();
        unseen.paths.retain(|path| !path.is_present(text));
        let is_first = is_new && unseen.n_objects == 0;
        unseen.n_objects += u64::from(is_new);
        let has_changed = unseen.paths.len() < n_before || is_first;
        if unseen.paths.is_empty() {
            self.unseen.remove(kind);
        }
        has_changed
    }

    /// Paths that the schema of a kind does not have, one sentence each.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Reason and message of a condition; `None` if no problem was found so far.
    pub fn verdict(&self) -> Option<(&'static str, String)> {
        let unseen =
            self.unseen.iter().filter(|(_, unseen)| unseen.n_objects > 0).map(|(kind, Unseen { paths, n_objects })| {
                let paths = paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                match n_objects {
                    1 => format!("the only object of {kind} has no {paths}"),
                    _ => format!("none of the {n_objects} objects of {kind} has {paths}"),
                }
            });
        let reason = if self.unknown.is_empty() { "NeverPresent" } else { "NotInSchema" };
        let sentences: Vec<String> = self.unknown.iter().cloned().chain(unseen).collect();
        (!sentences.is_empty()).then(|| (reason, sentences.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn team() -> Kind {
        "example.org/v1/Team".parse().unwrap()
    }

    fn manifest() -> Manifest {
        let manifest = json!({
            "name": "p", "version": "1", "contract": "0.2", "queues": [{"name": "p"}],
            "watches": [
                {"kind": team(), "fields": ["metadata.labels", "metadata.deletionTimestamp", "spec.membrs", "spec.size"]},
                {"kind": "v1/Pod", "fields": ["spec.nodeName"]},
            ],
        });
        Manifest::parse(manifest.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_field_that_no_object_has_is_named_until_one_has_it() {
        let mut fields = DeclaredFields::new(&manifest(), &BTreeMap::new());
        assert_eq!(fields.kinds().collect::<Vec<_>>(), [&team()]);
        assert_eq!(fields.verdict(), None, "there are no objects");
        let object = |fields: &mut DeclaredFields, spec, is_new| {
            fields.object(&team(), &json!({"spec": spec}).to_string(), is_new)
        };
        assert!(object(&mut fields, json!({"size": 1}), true));
        assert_eq!(
            fields.verdict().unwrap(),
            ("NeverPresent", "the only object of example.org/v1/Team has no spec.membrs".into())
        );
        assert!(!object(&mut fields, json!({}), false), "the same object");
        assert!(!object(&mut fields, json!({"membrs": null}), true));
        assert_eq!(fields.verdict().unwrap().1, "none of the 2 objects of example.org/v1/Team has spec.membrs");
        assert!(object(&mut fields, json!({"membrs": []}), true));
        assert_eq!((fields.verdict(), fields.wants(&team())), (None, false));
        assert!(!object(&mut fields, json!({}), true));
    }

    #[test]
    fn a_schema_decides_before_objects_do() {
        let spec = |properties| json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        let with =
            |schema| DeclaredFields::new(&manifest(), &[(team(), KindSchema::of_definition(&team(), &schema))].into());
        let wrong = with(spec(json!({"members": {}, "size": {}})));
        let (reason, message) = wrong.verdict().unwrap();
        assert_eq!((reason, wrong.wants(&team())), ("NotInSchema", false));
        assert_eq!(message, "spec.membrs: example.org/v1/Team has no such field; did you mean spec.members?");
        assert_eq!(wrong.unknown(), [message]);
        let mut right = with(spec(json!({"membrs": {}, "size": {}})));
        assert_eq!((right.object(&team(), "{}", true), right.verdict()), (false, None), "an optional field");
    }
}
