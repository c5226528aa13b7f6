//! Contents of `/configz`, `/flagz`, `/statusz` and `/debug/controllers/NAME`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use pintle_metrics::without;
use pintle_runtime::manager::{MAX_KEYS, Manager, PluginStatus};
use pintle_serve::{About, Pages};
use serde_json::{Value, json};

use crate::cli::PluginArgs;
use crate::config::effective::Effective;

pub(super) struct HostPages {
    manager: Arc<Manager>,
    effective: Arc<Effective>,
    /// Names of metrics that are not served.
    disabled: BTreeSet<String>,
    /// Minor version of Kubernetes.
    emulates: String,
    started: (Timestamp, Instant),
}

impl HostPages {
    /// The pages of a host that starts now, with this configuration, without these metrics.
    pub(super) fn new(manager: Arc<Manager>, args: &PluginArgs, disabled: BTreeSet<String>) -> Self {
        let (effective, emulates) = (args.effective.clone(), args.controller_flags.versions.emulates().to_owned());
        Self { manager, effective, disabled, emulates, started: (Timestamp::now(), Instant::now()) }
    }

    fn status(&self, name: &str) -> Option<PluginStatus> {
        self.manager.status().into_iter().find(|plugin| plugin.name == name)
    }
}

impl Pages for HostPages {
    fn metrics(&self) -> String {
        without(self.manager.metrics_text(), &self.disabled)
    }

    fn config(&self) -> Value {
        let plugins = self.manager.status().into_iter().map(|plugin| {
            let queues = self.manager.queue_contents(&plugin.name).unwrap_or_default();
            let queues = queues.into_iter().map(|queue| json!({"name": queue.name, "workers": queue.workers}));
            json!({
                "name": plugin.name, "phase": plugin.phase, "version": plugin.current,
                "queues": queues.collect::<Vec<_>>(),
            })
        });
        json!({
            "pintle.dev": self.effective.file(false),
            "plugins.pintle.dev": {"plugins": plugins.collect::<Vec<_>>()},
        })
    }

    fn flags(&self) -> BTreeMap<String, String> {
        self.effective.flags().clone()
    }

    fn about(&self) -> About {
        let (started, since) = self.started;
        About {
            started,
            up: since.elapsed(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            emulates: self.emulates.clone(),
        }
    }

    fn overview(&self) -> Value {
        json!(self.manager.overview())
    }

    fn detail(&self, name: &str) -> Option<Value> {
        self.manager.plugin_detail(name).map(|detail| json!(detail))
    }

    fn controller(&self, name: &str) -> Option<Value> {
        let status = self.status(name)?;
        let queues = self.manager.queue_contents(name)?;
        Some(json!({
            "name": status.name, "phase": status.phase, "queues": queues, "keysOfEachQueueAtMost": MAX_KEYS,
        }))
    }
}
