//! `pintle version`.

use anyhow::Context as _;
use pintle_core::contract::manifest::{BuiltIn, CONTRACT_VERSIONS};
use pintle_core::kubernetes::{self, VERSION};
use pintle_kube::Connection;
use serde::Serialize;

use crate::cli::VersionArgs;
use crate::flags::upstream;
use crate::{output, plugins};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    /// The Kubernetes version that the controllers follow.
    kubernetes: &'static str,
    /// The API server's version, if a kubeconfig is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_server: Option<String>,
    contract: Vec<&'static str>,
    plugins: Vec<Plugin>,
    /// The controllers that kube-controller-manager runs by default, or with certain flags, and this program lacks.
    missing: Vec<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plugin {
    name: String,
    version: String,
    /// Start conditions of the controller.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    start_conditions: Vec<String>,
}

pub(crate) async fn version(args: &VersionArgs) -> anyhow::Result<()> {
    let builtins = plugins::carried()?;
    let api_server = match &args.kubeconfig {
        None => None,
        Some(path) => {
            let connection = Connection::to(path, args.context.as_deref()).await?;
            Some(connection.server_version().await.context("the API server did not answer with its version")?)
        }
    };
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        kubernetes: VERSION,
        api_server,
        contract: CONTRACT_VERSIONS.to_vec(),
        plugins: builtins
            .iter()
            .map(|plugin| Plugin {
                name: plugin.manifest.name.clone(),
                version: plugin.manifest.version.clone(),
                start_conditions: plugin.manifest.built_in.as_ref().map(BuiltIn::start_conditions).unwrap_or_default(),
            })
            .collect(),
        missing: upstream::missing(),
    };
    output::answer(args.output, &version, || {
        let contract = version.contract.join(", ");
        let mut text = format!("pintle {}, Kubernetes {}, contract {contract}", version.version, version.kubernetes);
        if let Some(api_server) = &version.api_server {
            let unsupported = kubernetes::unsupported(api_server).map(|why| format!("\n{why}")).unwrap_or_default();
            text += &format!("\nAPI server {api_server}{unsupported}");
        }
        for plugin in &version.plugins {
            let conditions: String = plugin.start_conditions.iter().map(|condition| format!(", {condition}")).collect();
            text += &format!("\n  {} {}{conditions}", plugin.name, plugin.version);
        }
        if !version.missing.is_empty() {
            text += &format!("\nnot part of this Pintle yet: {}", version.missing.join(", "));
        }
        text
    })
}
