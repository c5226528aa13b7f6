//! What this process has seen of each Node, by a clock that nobody sets.
//!
//! A sign of life is a change: another heartbeat in the condition `Ready`, or another time in the Lease. The times in
//! them are only compared with those seen before, because they are those of the Node's own clock.

use pintle_sdk::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::lease::Renewal;
use crate::types::{Node, READY, Settings};

/// The health of one Node, kept between passes.
#[doc(alias = "nodeHealthData")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    /// Uid of the Node.
    pub(crate) uid: String,
    /// The last sign of life, in milliseconds since the host started.
    #[doc(alias = "probeTimestamp")]
    pub(crate) probe: u64,
    /// Status of the condition `Ready`; `None` without the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<String>,
    /// Time of the last heartbeat, in microseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) beat: Option<i64>,
    /// Time in the Lease, in microseconds since 1970, 0 if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<i64>,
    /// Since when the Node waits for a taint with the effect `NoExecute`, in milliseconds since the host started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waits: Option<u64>,
    /// Whether the last pass has sent this taint.
    #[serde(skip_serializing_if = "pintle_sdk::api::is_default")]
    pub(crate) is_tainted: bool,
}

impl Health {
    /// The health at `now`, from that of the last pass. A Node that was not seen before lives.
    #[doc(alias = "tryUpdateNodeHealth")]
    pub(crate) fn observe(saved: Option<&Self>, node: &Node, lease: Option<&Renewal>, now: u64) -> Self {
        let ready = node.condition(READY);
        let renewed = lease.map(|lease| lease.micros);
        let mut health = Self {
            uid: node.metadata.uid.clone(),
            probe: now,
            ready: ready.map(|ready| ready.status.clone()),
            beat: ready.and_then(|ready| ready.last_heartbeat_time).map(Timestamp::as_micros),
            lease: renewed,
            ..Self::default()
        };
        if let Some(saved) = saved {
            let is_renewed = renewed.is_some() && renewed != saved.lease;
            let is_posted = saved.ready.is_some() != health.ready.is_some() || saved.beat != health.beat;
            if !is_renewed && !is_posted {
                health.probe = saved.probe;
            }
            health.lease = renewed.or(saved.lease);
            health.waits = saved.waits;
        }
        health
    }

    /// Whether the last sign of life was longer ago than the Node may be silent.
    pub(crate) fn is_silent(&self, now: u64, settings: &Settings) -> bool {
        let grace = match self.ready {
            Some(_) => settings.monitor_grace_period,
            None => settings.startup_grace_period,
        };
        now > self.probe.saturating_add(grace)
    }
}
