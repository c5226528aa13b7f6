//! A running host: one API server, many plugins.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use pintle_kube::Connection;
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions};

use crate::cli::PluginArgs;
use crate::plugins::Chosen;
use crate::serve;

/// Plugins wired to an API server, not running yet.
pub(crate) struct Host {
    pub(crate) manager: Arc<Manager>,
    /// Where /metrics is served.
    pub(crate) serving: SocketAddr,
}

impl Host {
    /// Wires the parts and starts to serve metrics.
    pub(crate) async fn new(
        connection: &Connection,
        chosen: Vec<Chosen>,
        args: &PluginArgs,
        address: SocketAddr,
    ) -> anyhow::Result<Self> {
        let config = ManagerConfig {
            qps: (args.kube_api_qps > 0.0).then_some(args.kube_api_qps),
            burst: args.kube_api_burst,
            ..ManagerConfig::default()
        };
        let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config));
        for Chosen { guest, settings } in chosen {
            let name = guest.manifest().name.clone();
            manager
                .add(guest, PluginOptions { config: settings, ..PluginOptions::default() })
                .with_context(|| format!("start plugin {name}"))?;
        }
        let serving = serve::start(address, manager.clone()).await?;
        Ok(Self { manager, serving })
    }
}
