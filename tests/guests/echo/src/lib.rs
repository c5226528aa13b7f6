//! Copies one value of a ConfigMap to another one: the well-behaved neighbour of the attacks.

use hostile::{Action, Key, Lister, Outcome, Patch, PatchType, Preconditions, nothing, writing};

hostile::attack!(echo);

fn echo(key: Key, lister: Lister) -> Outcome {
    let object = lister.get(&key.kind, &key.object).unwrap_or_default();
    match (value(&object, "n"), value(&object, "echo")) {
        (Some(wanted), found) if found != Some(wanted) => writing(vec![Action::Patch(Patch {
            kind: key.kind,
            object: key.object,
            subresource: None,
            patch_type: PatchType::Merge,
            body: format!(r#"{{"data":{{"echo":"{wanted}"}}}}"#),
            preconditions: Preconditions { uid: None, resource_version: None },
        })]),
        _ => nothing(),
    }
}

/// The value of a member that holds a string without escapes.
fn value<'o>(object: &'o str, name: &str) -> Option<&'o str> {
    let (_, rest) = object.split_once(&format!(r#""{name}":""#))?;
    rest.split_once('"').map(|(value, _)| value)
}
