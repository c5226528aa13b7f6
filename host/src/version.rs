//! `pintle version`.

use pintle_core::contract::manifest::{CONTRACT_VERSIONS, NEXT_CONTRACT};
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
struct Plugin {
    name: String,
    version: String,
}

pub(crate) fn version(args: &VersionArgs) -> anyhow::Result<()> {
    let builtins = plugins::carried()?;
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        contract: CONTRACT_VERSIONS.to_vec(),
        plugins: builtins
            .iter()
            .map(|plugin| Plugin { name: plugin.manifest.name.clone(), version: plugin.manifest.version.clone() })
            .collect(),
    };
    output::answer(args.output, &version, || {
        let contract = |version: &&str| match *version == NEXT_CONTRACT {
            true => format!("{version} (next)"),
            false => (*version).to_owned(),
        };
        let contracts: Vec<String> = version.contract.iter().map(contract).collect();
        let mut text = format!("pintle {}, contract {}", version.version, contracts.join(", "));
        for plugin in &version.plugins {
            text += &format!("\n  {} {}", plugin.name, plugin.version);
        }
        text
    })
}
