//! `pintle dev`: the embedded cluster with the built-in controllers.

mod access;
mod definitions;
mod hints;
mod kubeconfig;
mod metrics;
mod ready;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pintle::cli::PluginArgs;
use pintle::host::Surroundings;
use pintle::host::{Host, Wiring};
use pintle::inputs::Inputs;
use pintle::serve::Ports;
use pintle::stop::Signals;
use pintle::traces::Traces;
use pintle::{logging, output, plugins};
use pintle_author::definitions::Definitions;
use pintle_author::rebuild::Followed;
use pintle_kube::{Connection, Source};
use pintle_nodes::{Connect, SimNodes, SimNodesConfig};
use pintle_sim::{SimCluster, SimConfig};
use pintle_sources::admin::socket;
use pintle_sources::{Claims, PluginSources, Signature, install_crd};
use tokio_util::task::AbortOnDropHandle;

use self::access::Access;
use self::kubeconfig::Kubeconfig;
use self::metrics::Metrics;
use self::ready::{Ready, Started};
use crate::cli::DevArgs;
use crate::unattended::Unattended;

/// Termination time of a deleted Pod: half of a kubelet's polling interval. After a delete, `kubectl delete` polls the
/// object by name, and would mistake a Pod that its controller has recreated with the same name for the old one.
const STOP_DELAY: Duration = Duration::from_millis(500);

/// Kinds whose controllers create the Pods of a Deployment, and the endpoints of a Service.
const NEEDED: [&str; 3] = ["apps/v1/Deployment", "apps/v1/ReplicaSet", "v1/Service"];

/// The default sampling rate.
const ALL_RUNS: u32 = 1_000_000;

pub(crate) async fn dev(args: &DevArgs) -> anyhow::Result<()> {
    logging::install(&args.log)?;
    // Before any slow step.
    Kubeconfig::check(&args.kubeconfig)?;
    let ready = args.ready_file.as_deref().map(Ready::new).transpose()?;
    let sources = PluginSources::new(&args.plugins)?;
    let access = Access::new()?;
    let mut loaded = PluginArgs { keep_functions: !args.plugin.is_empty(), ..args.plugins.clone() };
    loaded.controller_flags.default_files("cluster-signing-", access.authority_flags());
    let (flag, file) = access.token_flag();
    loaded.controller_flags.default_files(flag, [(flag, file)]);
    let mut choice = plugins::choose(&loaded, None).await?;
    definitions::check(&args.crds)?;
    let followed = args.plugin.iter().map(|path| Followed::new(path)).collect::<anyhow::Result<Vec<_>>>()?;
    // An author runs few keys, and examines each.
    let traces = Traces::open(&args.tracing, ALL_RUNS)?;
    // Hints omit the option for the default socket.
    let socket =
        sources.socket().filter(|path| **path != socket::default_path()).map(|path| path.display().to_string());
    let has_socket = sources.socket().is_some();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let unattended = Arc::new(Unattended::default());
    let config = SimConfig {
        address,
        history_writes: 0,
        notices: Some(unattended.clone()),
        aggregated: Some(Arc::new(Metrics)),
        tls: Some(access.tls.clone()),
        token_key: Some(access.tokens.clone()),
        ..SimConfig::default()
    };
    let cluster =
        SimCluster::start(config).await.context("start the embedded cluster; choose another port with --port")?;
    let kubeconfig = access.kubeconfig(&cluster.base_url())?;
    let connection = Connection::open(&Source::Text(kubeconfig.clone())).await?;
    if args.plugins.install_crd {
        install_crd(&connection).await?;
    }
    // Before loading plugins that use their kinds.
    let applied = definitions::apply(&connection, &followed, &args.crds).await?;
    Inputs { cluster_ca: Some(access.authority.clone()) }.fill(&mut choice);
    let claims = if args.plugins.start_claimed { Claims::default() } else { sources.claims(&connection).await? };
    let signature = Signature { host: Surroundings::default().identity(), lease: None };
    let wiring = Wiring { signature, tracer: traces.tracer(), ..Wiring::default() };
    let host = Host::new(&connection, choice, &claims, &args.plugins, Ports::Dev(args.serve), wiring).await?;
    unattended.by(&host.manager);
    let serving = host.serving.plain_address().context("nothing is served")?;
    let nodes = SimNodes::start(SimNodesConfig {
        n_nodes: args.nodes as usize,
        ready_delay: Duration::from_millis(u64::from(args.ready_delay_ms)),
        stop_delay: STOP_DELAY,
        volumes: true,
        ..SimNodesConfig::new(Connect::Kubeconfig(kubeconfig.clone()))
    })
    .await
    .context("start the simulated nodes")?;
    // From now on a signal removes the file, too.
    let signals = Signals::catch()?;
    let stdin_ends = ready::stdin_ends(args.stop_with_stdin);
    let written = Kubeconfig::write(&args.kubeconfig, &kubeconfig)?;
    let acted_on = host.manager.reconciled();
    let has_controllers = NEEDED.iter().all(|kind| acted_on.iter().any(|of| of.to_string() == **kind));
    output::line(&greeting(args, &cluster.base_url(), serving, has_controllers))?;
    for line in &applied.lines {
        output::line(line)?;
    }
    let about = ready::about(args, &cluster.base_url(), serving, sources.socket());
    let mut stopping = None;
    host.manager
        .run(async {
            let open = sources.open(&host, &connection);
            // Without standard output, messages are dropped.
            let report = |line: &str| drop(output::line(line));
            let started = Arc::new(Started::new(followed.len()));
            let follow = |(n, (plugin, definitions)): (usize, (Followed, Definitions))| {
                let started = started.clone();
                let renewed = move |result: Result<(), &str>| started.report(n, result);
                AbortOnDropHandle::new(tokio::spawn(plugin.follow(host.control.clone(), definitions, report, renewed)))
            };
            let _following: Vec<_> = followed.into_iter().zip(applied.of_plugins).enumerate().map(follow).collect();
            let _ready = ready.map(|ready| {
                AbortOnDropHandle::new(tokio::spawn(ready.write_when(about, started, host.manager.clone())))
            });
            let follow = |definitions: Definitions| AbortOnDropHandle::new(tokio::spawn(definitions.follow(report)));
            let _applying: Vec<_> = applied.of_folders.into_iter().map(follow).collect();
            let hints = hints::tell(host.manager.clone(), socket);
            let _hints = has_socket.then(|| AbortOnDropHandle::new(tokio::spawn(hints)));
            tokio::select! {
                () = signals.requested() => {}
                () = stdin_ends => tracing::info!("stopping: standard input has ended (--stop-with-stdin)"),
            }
            stopping = Some(Instant::now());
            open.close().await;
        })
        .await;
    traces.close(stopping, args.plugins.controller_shutdown_timeout).await;
    nodes.stop().await;
    cluster.shutdown().await;
    // The cluster has stopped, so its kubeconfig is useless.
    drop(written);
    Ok(())
}

/// `has_controllers`: whether the controllers of all [`NEEDED`] kinds run.
fn greeting(args: &DevArgs, url: &str, serving: SocketAddr, has_controllers: bool) -> String {
    let kubeconfig = args.kubeconfig.display();
    let commands = if has_controllers {
        "kubectl create deployment web --image=nginx --replicas=3
  kubectl expose deployment web --port=80
  kubectl get deployments,replicasets,pods,services,endpointslices
  kubectl set image deployment/web nginx=nginx:2 && kubectl rollout status deployment/web"
    } else {
        "kubectl get nodes,namespaces
  kubectl api-resources"
    };
    format!(
        "The embedded cluster runs at {url} with {} simulated nodes. Its objects are gone when it stops.
Its API server answers only clients with the certificate in {kubeconfig}, which only you can read,
or with a certificate or a token that the cluster has issued.

  export KUBECONFIG={kubeconfig}
  {commands}

Metrics are at http://{serving}/metrics, and a page with plots at http://{serving}/debug/pintle/. Ctrl-C stops.",
        args.nodes
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn only_commands_that_have_an_effect_are_proposed() {
        let Command::Dev(args) = Cli::parse_from(["pintle", "dev"]).command else { panic!("dev does not parse") };
        let proposed = |all| greeting(&args, "https://x", (Ipv4Addr::LOCALHOST, 1).into(), all);
        assert!(proposed(true).contains("  kubectl create deployment web "));
        let without = proposed(false);
        assert!(without.contains("  kubectl get nodes") && !without.contains("deployment"), "{without}");
    }
}
