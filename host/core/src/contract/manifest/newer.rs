//! Parts of a manifest that contract 0.1 does not have. A host of 0.1 would reject them as unknown; a manifest of 0.1 therefore must
//! not use them.

use super::{EmptySelector, Grant, Manifest, SettingType, serde_name};

/// # Errors
/// The first part that needs a newer contract than that of the manifest.
pub(super) fn check(manifest: &Manifest) -> Result<(), String> {
    if manifest.contract != "0.1" {
        return Ok(());
    }
    let newer =
        |place: String| format!("{place}: needs contract 0.2, and this manifest declares {}", manifest.contract);
    for (i, watch) in manifest.watches.iter().enumerate() {
        if watch.selects.as_ref().is_some_and(|selects| selects.empty == EmptySelector::Everything) {
            return Err(newer(format!("watches[{i}].selects.empty: everything")));
        }
        for (j, rule) in watch.enqueue.iter().enumerate() {
            if rule.to.is_new_in_0_2() {
                return Err(newer(format!("watches[{i}].enqueue[{j}].to: {}", serde_name(&rule.to))));
            }
            if rule.namespace_field.is_some() {
                return Err(newer(format!("watches[{i}].enqueue[{j}].namespaceField")));
            }
        }
    }
    if let Some(i) = manifest.queues.iter().position(|queue| queue.metric.is_some()) {
        return Err(newer(format!("queues[{i}].metric")));
    }
    if let Some(i) = manifest.metrics.iter().position(|metric| metric.per.is_some()) {
        return Err(newer(format!("metrics[{i}].per: key")));
    }
    if manifest.limits.series.is_some() {
        return Err(newer("limits.series".to_owned()));
    }
    for (name, setting) in &manifest.config {
        if setting.kind == SettingType::Duration {
            return Err(newer(format!("config.{name}.type: duration")));
        }
        if setting.optional {
            return Err(newer(format!("config.{name}.optional")));
        }
        if setting.follow {
            return Err(newer(format!("config.{name}.follow")));
        }
    }
    if let Some(i) = manifest.grants.iter().position(|grant| grant.verbs.iter().any(|verb| verb == Grant::ESCALATE)) {
        return Err(newer(format!("grants[{i}].verbs: {}", Grant::ESCALATE)));
    }
    match manifest.first_driven() {
        Some(path) => Err(newer(format!("{path}.config"))),
        None => Ok(()),
    }
}
