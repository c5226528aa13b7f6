//! A running host: one API server, many plugins.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use pintle_core::lifecycle::Spec;
use pintle_kube::Connection;
use pintle_runtime::manager::{Manager, ManagerConfig, PluginOptions, RateLimit};

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
            start_interval: args.tuning.controller_start_interval,
            ..ManagerConfig::default()
        };
        let manager = Arc::new(Manager::new(connection.reader(), Arc::new(connection.clone()), config.clone()));
        connection.observe(manager.request_observer());
        for Chosen { guest, settings } in chosen {
            let name = guest.manifest().name.clone();
            let rate_limit = RateLimit { qps: config.qps, burst: config.burst };
            let options = PluginOptions {
                spec: Spec { config: settings, ..Spec::default() },
                rate_limit: own_limit(&name, rate_limit),
                ..args.tuning.options(guest.manifest())
            };
            manager.add(guest, options).with_context(|| format!("start plugin {name}"))?;
        }
        let serving = serve::start(address, manager.clone()).await?;
        Ok(Self { manager, serving })
    }
}

/// kube-controller-manager lets these two send more than the others (`cmd/kube-controller-manager/app/core.go`).
fn own_limit(plugin: &str, limit: RateLimit) -> Option<RateLimit> {
    let (more, more_at_once) = match plugin {
        "garbage-collector-controller" => (2, 1),
        "namespace-controller" => (20, 100),
        _ => return None,
    };
    // Small whole numbers are exact in f32.
    let qps = limit.qps.map(|qps| qps * more as f32);
    Some(RateLimit { qps, burst: limit.burst.saturating_mul(more_at_once) })
}
