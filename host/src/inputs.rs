//! Host-provided values for settings of built-in controllers.
//!
//! *Invariant*: a controller without its input does not run, unless the operator sets the value.

use pintle_core::contract::manifest::Input;
use pintle_sources::wire::NotStarted;
use serde_json::json;

use crate::builtins::Catalogue;
use crate::plugins::Choice;

/// Available inputs.
pub struct Inputs {
    /// The certificate authority of the API server, in PEM.
    pub cluster_ca: Option<String>,
}

impl Inputs {
    /// Fills settings that no flag has set, and removes plugins without their input.
    pub fn fill(&self, choice: &mut Choice) {
        let Choice { plugins, not_started, .. } = choice;
        plugins.retain_mut(|plugin| {
            let manifest = plugin.guest.manifest();
            let Some(section) = Catalogue::carried().section(&manifest.name) else { return true };
            for (setting, input) in &section.inputs {
                if !manifest.config.contains_key(setting) || plugin.settings.get(setting).is_some() {
                    continue;
                }
                let Some(value) = self.of(*input) else {
                    let flag = section.flags.iter().find(|flag| flag.sets.config.as_ref() == Some(setting));
                    let instead = flag.map_or_else(String::new, |flag| format!("; name one with --{}", flag.name));
                    let message = format!("{}{instead}", missing(*input));
                    tracing::warn!("{} does not run: {message}", manifest.name);
                    let (plugin, reason) = (manifest.name.clone(), "MissingInput".to_owned());
                    not_started.push(NotStarted { plugin, reason, message });
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
