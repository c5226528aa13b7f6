//! The rules of one ClusterRole.

use pintle_sdk::selector::Selector;
use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Query, Resource, Step};
use serde_json::json;

use crate::types::{ClusterRole, ClusterRoleRules};

/// Part of the API: the manager of the field `rules`.
const FIELD_MANAGER: &str = "clusterrole-aggregation-controller";

/// Computes the changes for one ClusterRole.
///
/// # Errors
/// If an object does not fit its type, or a selector is invalid.
#[doc(alias = "syncClusterRole", alias = "applyClusterRoles", alias = "ruleExists")]
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(role) = lister.get::<ClusterRole>("", &key.name)? else { return Ok(Outcome::new()) };
    let Some(aggregation) = &role.aggregation_rule else { return Ok(Outcome::new()) };
    let mut rules: Vec<ClusterRoleRules> = Vec::new();
    for selector in &aggregation.cluster_role_selectors {
        let selector = Selector::from_label_selector(Some(selector))?;
        // The order is upstream's, by selector, name and rule: with another order, both controllers would rewrite it.
        for selected in lister.list::<ClusterRole>(&Query::all().labels(selector))? {
            if selected.metadata.name == role.metadata.name {
                continue;
            }
            for rule in selected.rules {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    if rules == role.rules {
        return Ok(Outcome::new());
    }
    // As upstream, whose apply omits an empty list: rules written by another manager then stay.
    let body = if rules.is_empty() { json!({}) } else { json!({ "rules": rules }) };
    let apply = Mutation::apply(&ClusterRole::KIND, role.metadata.key(), FIELD_MANAGER, true, body);
    Ok(Outcome::new().step(Step::sequential([apply.uid(role.metadata.uid)])))
}
