//! Keeps a ConfigMap with the text of each {{Kind}}.

pub mod api;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::{Children, Error, Key, Kind, Lister, Outcome, Resource, Step, patch_status, set_condition};
use serde_json::{Value, json};

use api::{{{Kind}}, {{Kind}}Status};

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

/// Computes the changes for one {{Kind}}. It is pure: the same view gives the same outcome.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(owner) = lister.get::<{{Kind}}>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    if owner.metadata.is_deleting() {
        return Ok(Outcome::new());
    }
    let children = Children::new(&{{Kind}}::KIND, &owner.metadata, "{{name}}");
    let plan = children.own(CONFIG_MAP).want(config_map(&owner)).plan(lister)?;
    let failure = lister.failures().into_iter().next().filter(|_| !plan.mutations.is_empty());
    let (status, reason, message) = match (plan.conflicts.first(), failure) {
        (Some(conflict), _) => ("False", "Conflict", conflict.to_string()),
        (None, Some(failure)) => ("False", "WriteFailed", failure.message),
        (None, None) => ("True", "Applied", "the ConfigMap is up to date".to_owned()),
    };
    let generation = Some(owner.metadata.generation);
    let ready = Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message,
        observed_generation: generation,
        ..Condition::default()
    };
    let status = {{Kind}}Status {
        observed_generation: generation,
        conditions: set_condition(&owner.status.conditions, ready, lister.now()?),
    };
    let patch = patch_status(&{{Kind}}::KIND, &owner.metadata, &owner.status, &status)?;
    // The next write may fail, too.
    let report = Step { always: reason == "WriteFailed", ..Step::sequential(patch) };
    Ok(Outcome::new().step(Step::parallel(plan.mutations)).step(report))
}

/// The ConfigMap of a {{Kind}}.
fn config_map(owner: &{{Kind}}) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": owner.metadata.name{{jsonNamespace}}},
        "data": {"text": owner.spec.text},
    })
}

pintle_sdk::export!(reconcile);
