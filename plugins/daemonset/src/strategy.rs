//! The update strategy: limits of unavailable and surge Pods.
//!
//! *Source*: util/daemonset_util.go, update.go.

use pintle_sdk::Error;
use pintle_sdk::int_or_percent::IntOrPercent;

use crate::types::DaemonSet;

/// Limits of a rolling update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Nodes that may have a new Pod next to an available old one.
    pub(crate) surge: usize,
    /// Nodes that may be without an available Pod.
    pub(crate) unavailable: usize,
}

/// Whether it is `RollingUpdate`.
pub(crate) fn is_rolling(set: &DaemonSet) -> bool {
    set.spec.update_strategy.type_ == "RollingUpdate"
}

/// Whether a Node may have more than one Pod.
#[doc(alias = "AllowsSurge")]
pub(crate) fn allows_surge(set: &DaemonSet) -> bool {
    surge(set, 1).is_ok_and(|surge| surge > 0)
}

/// The limits of a rolling update on this many Nodes. Both percentages round up. If both are zero, one Node may be
/// without a Pod, so that the update can progress.
///
/// # Errors
/// A value is not a percentage, or `maxUnavailable` is missing.
#[doc(alias = "updatedDesiredNodeCounts")]
pub(crate) fn limits(set: &DaemonSet, n_nodes: usize) -> Result<Limits, Error> {
    let unavailable = unavailable(set, n_nodes)?;
    let surge = surge(set, n_nodes)?;
    let unavailable = if n_nodes > 0 && unavailable == 0 && surge == 0 { 1 } else { unavailable };
    Ok(Limits { surge, unavailable })
}

#[doc(alias = "SurgeCount")]
fn surge(set: &DaemonSet, n_nodes: usize) -> Result<usize, Error> {
    let rolling = set.spec.update_strategy.rolling_update.as_ref().filter(|_| is_rolling(set));
    match rolling.and_then(|rolling| rolling.max_surge.as_ref()) {
        Some(value) => scaled("maxSurge", value, n_nodes),
        None => Ok(0),
    }
}

#[doc(alias = "UnavailableCount")]
fn unavailable(set: &DaemonSet, n_nodes: usize) -> Result<usize, Error> {
    match set.spec.update_strategy.rolling_update.as_ref().filter(|_| is_rolling(set)) {
        None => Ok(0),
        Some(rolling) => match &rolling.max_unavailable {
            Some(value) => scaled("maxUnavailable", value, n_nodes),
            None => Err(Error::terminal("spec.updateStrategy.rollingUpdate.maxUnavailable is missing")),
        },
    }
}

#[doc(alias = "GetScaledValueFromIntOrPercent")]
fn scaled(name: &str, value: &IntOrPercent, n_nodes: usize) -> Result<usize, Error> {
    let scaled = value.scaled(i32::try_from(n_nodes).unwrap_or(i32::MAX), true).ok_or_else(|| {
        let problem = "is neither a number nor a percentage such as 10%";
        Error::terminal(format!("spec.updateStrategy.rollingUpdate.{name} {problem}: {}", pintle_sdk::json(value)))
    })?;
    Ok(usize::try_from(scaled).unwrap_or(0))
}
