//! `pintle version`.

use serde::Serialize;

use crate::cli::{Output, VersionArgs};
use crate::{output, plugins};

#[derive(Serialize)]
struct Version {
    version: &'static str,
    contract: Vec<&'static str>,
    plugins: Vec<Plugin>,
}

#[derive(Serialize)]
struct Plugin {
    name: String,
    version: String,
}

pub(crate) fn version(args: &VersionArgs) -> anyhow::Result<()> {
    let builtins = plugins::carried()?;
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        contract: pintle_core::contract::manifest::CONTRACT_VERSIONS.to_vec(),
        plugins: builtins
            .iter()
            .map(|plugin| Plugin { name: plugin.manifest.name.clone(), version: plugin.manifest.version.clone() })
            .collect(),
    };
    match args.output {
        Output::Json => output::json(&version),
        Output::Text => {
            output::line(&format!("pintle {}, contract {}", version.version, version.contract.join(", ")))?;
            for plugin in version.plugins {
                output::line(&format!("  {} {}", plugin.name, plugin.version))?;
            }
            Ok(())
        }
    }
}
