//! Contents of `/configz`, `/flagz`, `/statusz` and `/debug/controllers/NAME`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use clap::{ArgMatches, Command, CommandFactory as _};
use jiff::Timestamp;
use pintle_runtime::manager::{MAX_KEYS, Manager, PluginStatus};
use pintle_serve::{About, Pages};
use serde_json::{Value, json};

use crate::builtins::Catalogue;
use crate::cli::Cli;

/// The version of Kubernetes that the host behaves as.
pub(crate) const EMULATES: &str = "1.36";
/// Flags whose values may be secret, and what is shown instead, as upstream.
const SECRET: [&str; 1] = ["set"];
const CLASSIFIED: &str = "CLASSIFIED";

pub(super) struct HostPages {
    manager: Arc<Manager>,
    flags: BTreeMap<String, String>,
    started: (Timestamp, Instant),
}

impl HostPages {
    /// Of a host that starts now, with the flags of this process.
    pub(super) fn new(manager: Arc<Manager>) -> Self {
        let mut command = Cli::command();
        // The process has parsed them before; a test has other ones.
        let matches = command.try_get_matches_from_mut(std::env::args_os()).ok();
        let flags = matches.map(|matches| flags(&command, &matches)).unwrap_or_default();
        Self { manager, flags, started: (Timestamp::now(), Instant::now()) }
    }

    fn status(&self, name: &str) -> Option<PluginStatus> {
        self.manager.status().into_iter().find(|plugin| plugin.name == name)
    }
}

/// The values of all flags of a command, defaults included.
fn flags(command: &Command, matches: &ArgMatches) -> BTreeMap<String, String> {
    let Some((command, matches)) =
        matches.subcommand().and_then(|(name, matches)| Some((command.find_subcommand(name)?, matches)))
    else {
        return BTreeMap::new();
    };
    let of_controllers = Catalogue::carried().flags().iter().map(|carried| &carried.flag);
    let defaults: BTreeMap<&str, &Value> =
        of_controllers.filter_map(|flag| Some((flag.name.as_str(), flag.default.as_ref()?))).collect();
    let value = |name: &str, id: &str| -> String {
        let given = matches
            .try_get_raw(id)
            .ok()
            .flatten()
            .map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect::<Vec<_>>().join(","));
        match (given, defaults.get(name)) {
            (Some(given), _) if SECRET.contains(&name) && !given.is_empty() => CLASSIFIED.to_owned(),
            (Some(given), _) => given,
            (None, Some(Value::String(text))) => text.clone(),
            (None, default) => default.map_or_else(String::new, ToString::to_string),
        }
    };
    let named = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_id())));
    let named = named.filter(|(name, _)| *name != "help");
    named.map(|(name, id)| (name.to_owned(), value(name, id.as_str()))).collect()
}

impl Pages for HostPages {
    fn metrics(&self) -> String {
        self.manager.metrics_text()
    }

    fn config(&self) -> Value {
        let controllers = self.manager.status().into_iter().map(|plugin| {
            let queues = self.manager.queue_contents(&plugin.name).unwrap_or_default();
            let queues = queues.into_iter().map(|queue| json!({"name": queue.name, "workers": queue.workers}));
            json!({
                "name": plugin.name, "phase": plugin.phase, "version": plugin.current,
                "queues": queues.collect::<Vec<_>>(),
            })
        });
        json!({"pintle.dev": {
            "apiVersion": "pintle.dev/v1alpha1", "kind": "HostConfiguration",
            "flags": self.flags, "controllers": controllers.collect::<Vec<_>>(),
        }})
    }

    fn flags(&self) -> BTreeMap<String, String> {
        self.flags.clone()
    }

    fn about(&self) -> About {
        let (started, since) = self.started;
        About {
            started,
            up: since.elapsed(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            emulates: EMULATES.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_shown_with_their_defaults_and_without_secrets() {
        let mut command = Cli::command();
        let arguments = ["pintle", "run", "--kube-api-qps=7", "--set=a.b=secret", "--controllers=a,b", "widgets.wasm"];
        let matches = command.try_get_matches_from_mut(arguments).unwrap();
        let flags = flags(&command, &matches);
        let shown = |name: &str| flags.get(name).map(String::as_str);
        assert_eq!(shown("kube-api-qps"), Some("7"));
        assert_eq!(shown("secure-port"), Some("10257"));
        assert_eq!(shown("authorization-always-allow-paths"), Some("/healthz,/readyz,/livez"));
        assert_eq!(shown("controllers"), Some("a,b"));
        assert_eq!(shown("set"), Some("CLASSIFIED"));
        assert_eq!(shown("tls-cert-file"), Some(""));
        assert!(!flags.values().any(|value| value.contains("secret")), "{flags:?}");
        assert_eq!(shown("help"), None);
        // Those of controllers, with the defaults of their manifests.
        assert!(Catalogue::carried().flags().iter().all(|carried| shown(&carried.flag.name).is_some()));
    }
}
