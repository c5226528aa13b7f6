//! Keeps a ConfigMap with the members of each {{Kind}}.

pub mod api;

use pintle_sdk::api::meta::Condition;
use pintle_sdk::{Children, Error, Key, Kind, Lister, Outcome, Resource, Step, patch_status, set_condition};
use serde_json::{Value, json};

use api::{Format, {{Kind}}, {{Kind}}Status};

const CONFIG_MAP: Kind = Kind::new("", "v1", "ConfigMap");

/// Says what should change for one {{Kind}}. It is pure: the same view gives the same outcome.
///
/// # Errors
/// If an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(owner) = lister.get::<{{Kind}}>(&key.namespace, &key.name)? else { return Ok(Outcome::new()) };
    if owner.metadata.is_deleting() {
        return Ok(Outcome::new());
    }
    if let Some(lead) = owner.spec.lead.as_ref().filter(|lead| !owner.spec.members.contains(lead)) {
        let problem = format!("spec.lead {lead} is not in spec.members");
        return Ok(Outcome::new().step(report(&owner, lister, "False", "InvalidSpec", &problem)?));
    }
    let plan = Children::new(&{{Kind}}::KIND, &owner.metadata, "{{name}}").own(CONFIG_MAP).want(members(&owner)).plan(lister)?;
    let conflict = plan.conflicts.first().map(ToString::to_string);
    let (status, reason, message) = match &conflict {
        Some(conflict) => ("False", "Conflict", conflict.as_str()),
        None => ("True", "Applied", "the ConfigMap is up to date"),
    };
    let report = report(&owner, lister, status, reason, message)?;
    Ok(Outcome::new().step(Step::parallel(plan.mutations)).step(report))
}

/// The ConfigMap of a {{Kind}}.
fn members(owner: &{{Kind}}) -> Value {
    let separator = match owner.spec.format {
        Format::Lines => "\n",
        Format::Commas => ", ",
    };
    let mut data = json!({"members": owner.spec.members.join(separator)});
    if let Some(lead) = &owner.spec.lead {
        data["lead"] = json!(lead);
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{}-members", owner.metadata.name){{jsonNamespace}}},
        "data": data,
    })
}

/// Writes the status, unless it is right.
fn report(owner: &{{Kind}}, lister: &impl Lister, status: &str, reason: &str, message: &str) -> Result<Step, Error> {
    let ready = Condition {
        type_: "Ready".into(),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: Some(owner.metadata.generation),
        ..Condition::default()
    };
    let wanted = {{Kind}}Status {
        members: i32::try_from(owner.spec.members.len()).ok(),
        observed_generation: Some(owner.metadata.generation),
        conditions: set_condition(&owner.status.conditions, ready, lister.now()?),
    };
    Ok(Step::sequential(patch_status(&{{Kind}}::KIND, &owner.metadata, &owner.status, &wanted)?))
}

pintle_sdk::export!(reconcile);
