//! `pintle version`.

use pintle_core::contract::manifest::{BuiltIn, CONTRACT_VERSIONS};
use serde::Serialize;

use crate::cli::VersionArgs;
use crate::{output, plugins};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    contract: Vec<&'static str>,
    plugins: Vec<Plugin>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plugin {
    name: String,
    version: String,
    /// What has to be given for it to start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    start_conditions: Vec<String>,
}

pub(crate) fn version(args: &VersionArgs) -> anyhow::Result<()> {
    let builtins = plugins::carried()?;
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        contract: CONTRACT_VERSIONS.to_vec(),
        plugins: builtins
            .iter()
            .map(|plugin| Plugin {
                name: plugin.manifest.name.clone(),
                version: plugin.manifest.version.clone(),
                start_conditions: plugin.manifest.built_in.as_ref().map(BuiltIn::start_conditions).unwrap_or_default(),
            })
            .collect(),
    };
    output::answer(args.output, &version, || {
        let mut text = format!("pintle {}, contract {}", version.version, version.contract.join(", "));
        for plugin in &version.plugins {
            let conditions: String = plugin.start_conditions.iter().map(|condition| format!(", {condition}")).collect();
            text += &format!("\n  {} {}{conditions}", plugin.name, plugin.version);
        }
        text
    })
}
