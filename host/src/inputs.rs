//! Inputs of the host for settings of built-in controllers.
//!
//! *Invariant*: a controller without its input does not run, unless the operator sets the value.

use pintle_core::contract::manifest::Input;
use serde_json::json;

use crate::builtins::Catalogue;
use crate::plugins::Chosen;

/// Available inputs.
pub(crate) struct Inputs {
    /// The certificate authority of the API server, in PEM.
    pub(crate) cluster_ca: Option<String>,
}

impl Inputs {
    /// Fills settings that no flag has set, and removes plugins whose input is missing.
    pub(crate) fn fill(&self, chosen: &mut Vec<Chosen>) {
        chosen.retain_mut(|plugin| {
            let manifest = plugin.guest.manifest();
            let Some(section) = Catalogue::carried().section(&manifest.name) else { return true };
            for (setting, input) in &section.inputs {
                if !manifest.config.contains_key(setting) || plugin.settings.get(setting).is_some() {
                    continue;
                }
                let Some(value) = self.of(*input) else {
                    let flag = section.flags.iter().find(|flag| flag.sets.config.as_ref() == Some(setting));
                    let instead = flag.map_or_else(String::new, |flag| format!("; name one with --{}", flag.name));
                    tracing::warn!("{} does not run: {}{instead}", manifest.name, missing(*input));
                    return false;
                };
                plugin.settings[setting] = json!(value);
            }
            true
        });
    }

    fn of(&self, input: Input) -> Option<&str> {
        match input {
            Input::ClusterCa => self.cluster_ca.as_deref(),
        }
    }
}

fn missing(input: Input) -> &'static str {
    match input {
        Input::ClusterCa => "the connection has no certificate authority",
    }
}
