//! `pintle run`.

use std::time::Instant;

use anyhow::Context as _;
use pintle_core::contract::settings::{self, SettingsError};
use pintle_core::kubernetes::VERSION;
use pintle_kube::{Connection, Source};
use pintle_sources::{Claims, PluginSources, Signature, install_crd};
use tokio_util::task::AbortOnDropHandle;
use tracing::field::display;

use crate::beside::Stance;
use crate::cli::RunArgs;
use crate::cli::tracing::DEFAULT_RATE;
use crate::flags::controllers_flag::ControllersFlag;
use crate::flags::upstream;
use crate::host::{Host, Surroundings, Wiring};
use crate::inputs::Inputs;
use crate::leader::Candidacy;
use crate::plugins::Chosen;
use crate::serve::{self, Ports, Serving};
use crate::stop::Signals;
use crate::traces::Traces;
use crate::{beside, logging, output, plugins, unattended};

pub(crate) async fn run(mut args: RunArgs) -> anyhow::Result<()> {
    logging::install(&args.log)?;
    args.plugins.plugins.append(&mut args.more_plugins);
    args.leader.times()?;
    plugins::check_controllers(&args.plugins)?;
    let source = source(&args);
    // The Pod is unknown here.
    if args.check && matches!(source, Source::InCluster) {
        return check(&args).await;
    }
    // Sends nothing yet: kubeconfig errors come before compiling components, and component errors before contacting the
    // cluster.
    let connection = Connection::open(&source).await?;
    if args.check {
        return check(&args).await;
    }
    let stop = || {
        let signals = Signals::catch()?;
        Ok(async move { signals.requested().await })
    };
    on(&args, &connection, Surroundings::default(), stop).await
}

/// Runs a host until the future of `stop` is ready. `stop` is called when everything has started.
///
/// # Errors
/// The error that prevented the start; its text is for the user.
///
/// # Cancel safety
/// Dropping the future stops the host like a crash.
pub async fn on<F: Future<Output = ()>>(
    args: &RunArgs,
    connection: &Connection,
    surroundings: Surroundings,
    stop: impl FnOnce() -> anyhow::Result<F>,
) -> anyhow::Result<()> {
    let traces = Traces::open(&args.tracing, DEFAULT_RATE)?;
    // Before any slow step.
    let sources = PluginSources::new(&args.plugins)?;
    let mut choice = plugins::choose(&args.plugins, surroundings.engine.clone()).await?;
    choice.log_not_started();
    Inputs { cluster_ca: connection.root_ca() }.fill(&mut choice);
    connection.check().await?;
    choice.adapt(connection.server_version().await);
    let of_kube_controller_manager = choice.of_kube_controller_manager();
    let flag = ControllersFlag::beside(!args.plugins.plugins.is_empty(), &args.plugins.controllers)?;
    let (runs_some, leader_elect) = (!of_kube_controller_manager.is_empty(), args.leader.lease.leader_elect);
    let stance = Stance::of(runs_some, args.beside_kube_controller_manager, &flag, leader_elect);
    // Whether no other process runs controllers of kube-controller-manager.
    let replaces = stance.replaces();
    let candidacy = Candidacy::new(args, replaces, &surroundings)?;
    // An explicit request for an election is permission to take over.
    if leader_elect != Some(true) {
        beside::check(&*connection.reader(), &of_kube_controller_manager, stance, candidacy.is_some()).await?;
    }
    if args.plugins.install_crd {
        install_crd(connection).await?;
    }
    let claims = if args.plugins.start_claimed { Claims::default() } else { sources.claims(connection).await? };
    let ports = Ports::Run(&args.serving);
    let wiring = Wiring {
        signature: Signature {
            host: surroundings.identity(),
            lease: candidacy.as_ref().map(|candidacy| candidacy.lease.clone()),
        },
        own_accounts: args.use_service_account_credentials,
        fences: candidacy.as_ref().map(Candidacy::fences),
        tracer: traces.tracer(),
        clock: Some(surroundings.clock.clone()),
        seed: surroundings.seed,
    };
    let server_version = choice.api_server.clone();
    let host = Host::new(connection, choice, &claims, &args.plugins, ports, wiring).await?;
    let socket = sources.socket().map(|socket| socket.display().to_string());
    let Serving { https, metrics, .. } = &host.serving;
    let (https, metrics) = (https.as_ref().map(display), metrics.as_ref().map(display));
    let api_server = connection.url();
    tracing::info!(kubernetes = VERSION, api_server, server_version, https, metrics, admin_socket = socket, "running");
    if replaces {
        let missing = upstream::missing();
        let (n, names) = (missing.len(), missing.join(", "));
        tracing::info!("{n} controllers of kube-controller-manager are not part of this Pintle yet: {names}");
    }
    let stop = stop()?;
    let manager = host.manager.clone();
    let unattended = unattended::report(
        connection.reader(),
        move || manager.reconciled(),
        |why| tracing::warn!("{why}; this cluster has such objects"),
    );
    let _unattended = replaces.then(|| AbortOnDropHandle::new(tokio::spawn(unattended)));
    let election = candidacy.map(|candidacy| candidacy.start(&host.manager, &host.serving.checks));
    let mut stopping = None;
    host.manager
        .run(async {
            let open = sources.open(&host, connection);
            stop.await;
            stopping = Some(Instant::now());
            // While the host may still write.
            open.close().await;
        })
        .await;
    if let Some(election) = election {
        election.stop().await;
    }
    traces.close(stopping, args.plugins.controller_shutdown_timeout).await;
    Ok(())
}

/// The connection source.
fn source(args: &RunArgs) -> Source {
    let kubeconfig = args.kubeconfig.as_ref().filter(|list| !list.as_os_str().is_empty());
    let file = kubeconfig.map(|path| Source::File { path: path.clone(), context: args.context.clone() });
    match (&args.master, file) {
        (Some(server), of) => Source::At { server: server.clone(), of: of.map(Box::new) },
        (None, Some(file)) => file,
        (None, None) => Source::InCluster,
    }
}

/// `pintle run --check`: all steps of a start before the cluster is contacted.
async fn check(args: &RunArgs) -> anyhow::Result<()> {
    serve::check(&args.serving).await?;
    let choice = plugins::choose(&args.plugins, None).await?;
    choice.log_not_started();
    for Chosen { guest, settings, .. } in &choice.plugins {
        let manifest = guest.manifest();
        match settings::resolve(&manifest.config, settings) {
            // Some values come from the cluster.
            Ok(_) | Err(SettingsError::Missing(_)) => {}
            Err(why) => return Err(why).with_context(|| format!("configure plugin {}", manifest.name)),
        }
    }
    output::yaml(&args.plugins.effective.file(true))
}
