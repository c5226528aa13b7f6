//! The ports of a host: HTTPS with authentication, and optional plain HTTP on loopback.

pub mod pages;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use pintle_core::policy::roles;
use pintle_core::ports::review::Reviewer;
use pintle_kube::{Connection, Source};
use pintle_runtime::manager::{Manager, PluginStatus};
use pintle_serve::policy::health::Probe;
use pintle_serve::policy::identity::FrontProxy;
use pintle_serve::{
    Access, AccessOptions, Bind, CertificateSource, Check, Checks, ClientAuthorities, Scope, Server, Site, Tls,
    TlsOptions,
};
use tokio_util::task::AbortOnDropHandle;

use self::pages::HostPages;
use crate::cli::PluginArgs;
use crate::cli::serve::ServeArgs;

/// The ports of a command.
#[derive(Clone, Copy)]
pub enum Ports<'a> {
    /// Everything on loopback, in plain HTTP.
    Dev(SocketAddr),
    /// According to the operator's flags.
    Run(&'a ServeArgs),
}

/// The ports, served until dropped.
pub struct Serving {
    /// Address of HTTPS, for the log.
    pub https: Option<String>,
    /// Address of plain HTTP, for the log.
    pub metrics: Option<String>,
    /// The checks of probes. Parts of the host add theirs.
    pub checks: Arc<Checks>,
    plain: Option<Server>,
    _secure: Option<Server>,
    _looking_up: Option<AbortOnDropHandle<()>>,
}

impl Serving {
    /// Starts serving.
    ///
    /// # Errors
    /// An address is unusable, a file cannot be read, or the API server does not publish its client authentication
    /// configuration.
    pub async fn start(
        ports: Ports<'_>,
        manager: &Arc<Manager>,
        connection: &Connection,
        args: &PluginArgs,
    ) -> anyhow::Result<Self> {
        let checks = checks(manager);
        let disabled = match ports {
            Ports::Dev(_) => BTreeSet::new(),
            Ports::Run(args) => args.disabled_metrics.iter().cloned().collect(),
        };
        let pages = Arc::new(HostPages::new(manager.clone(), args, disabled));
        let (plain, scope) = match ports {
            Ports::Dev(address) => (Some(address), Scope::All),
            Ports::Run(args) => (args.serve, Scope::Metrics),
        };
        let plain = plain.map(|address| {
            let site = Site::new(checks.clone(), pages.clone(), None, scope);
            let bind = Bind { address, shared_port: false, max_streams: 0 };
            Server::start(bind, None, Arc::new(site))
                .with_context(|| format!("listen on {address} for /metrics; choose another address with --serve"))
        });
        let plain = plain.transpose()?;
        let metrics = plain.as_ref().map(|server| server.address().to_string());
        let serving = Self { https: None, metrics, checks: checks.clone(), plain, _secure: None, _looking_up: None };
        match ports {
            Ports::Run(args) if args.secure_port != 0 => serving.secure(args, checks, pages, connection).await,
            _ => Ok(serving),
        }
    }

    async fn secure(
        self,
        args: &ServeArgs,
        checks: Arc<Checks>,
        pages: Arc<HostPages>,
        connection: &Connection,
    ) -> anyhow::Result<Self> {
        let tls = Tls::open(tls_options(args)?).await.context("serve HTTPS (--secure-port)")?;
        let tls = Arc::new(tls);
        let authentication = args.authentication_kubeconfig.as_ref();
        let authorization = args.authorization_kubeconfig.as_ref();
        let options = AccessOptions {
            authentication: Some(reviewer(authentication, connection).await.context("--authentication-kubeconfig")?),
            authorization: Some(reviewer(authorization, connection).await.context("--authorization-kubeconfig")?),
            token_ttl: args.authentication_token_webhook_cache_ttl,
            authorized_ttl: args.authorization_webhook_cache_authorized_ttl,
            unauthorized_ttl: args.authorization_webhook_cache_unauthorized_ttl,
            always_allowed: args.always_allowed(),
        };
        let access = Arc::new(Access::new(options, Some(tls.clone()))?);
        let looking_up = match args.authentication_skip_lookup {
            true => None,
            false => {
                look_up(args, &access).await?;
                let access = access.clone();
                Some(AbortOnDropHandle::new(tokio::spawn(async move { access.keep_looking_up().await })))
            }
        };
        let site = Site::new(checks, pages, Some(access), Scope::All);
        let address = SocketAddr::new(args.bind_address, args.secure_port);
        let bind =
            Bind { address, shared_port: args.permit_port_sharing, max_streams: args.http2_max_streams_per_connection };
        let server = Server::start(bind, Some(tls), Arc::new(site)).with_context(|| {
            format!(
                "listen on {address} for HTTPS; choose another port with --secure-port, or none with --secure-port=0"
            )
        })?;
        Ok(Self { https: Some(server.address().to_string()), _secure: Some(server), _looking_up: looking_up, ..self })
    }

    /// The address of plain HTTP.
    pub fn plain_address(&self) -> Option<SocketAddr> {
        self.plain.as_ref().map(Server::address)
    }
}

async fn look_up(args: &ServeArgs, access: &Access) -> anyhow::Result<()> {
    let Err(why) = access.look_up().await else { return Ok(()) };
    let what =
        "the authorities of clients cannot be read from the ConfigMap kube-system/extension-apiserver-authentication";
    if args.authentication_tolerate_lookup_failure {
        tracing::warn!("{what}: {why}; clients of the HTTPS port need tokens until it can be read");
        return Ok(());
    }
    anyhow::bail!(
        "{what}: {why}; {}, or start with --authentication-tolerate-lookup-failure, --authentication-skip-lookup or --secure-port=0",
        roles::advice(&why.to_string())
    )
}

/// The API server of a kubeconfig, or the host's own.
async fn reviewer(
    kubeconfig: Option<&std::path::PathBuf>,
    connection: &Connection,
) -> anyhow::Result<Arc<dyn Reviewer>> {
    let connection = match kubeconfig {
        None => connection.clone(),
        Some(path) => Connection::open(&Source::File { path: path.clone(), context: None }).await?,
    };
    Ok(Arc::new(connection.reviewer()))
}

fn tls_options(args: &ServeArgs) -> anyhow::Result<TlsOptions> {
    let certificate = match (&args.tls_cert_file, &args.tls_private_key_file, &args.cert_dir) {
        (Some(certificate), Some(key), _) => {
            CertificateSource::Files { certificate: certificate.clone(), key: key.clone() }
        }
        (_, _, Some(folder)) => CertificateSource::Folder(folder.clone()),
        _ => CertificateSource::SelfSigned,
    };
    let proxy = FrontProxy {
        allowed_names: args.requestheader_allowed_names.clone(),
        username_headers: args.requestheader_username_headers.clone(),
        uid_headers: args.requestheader_uid_headers.clone(),
        group_headers: args.requestheader_group_headers.clone(),
        extra_header_prefixes: args.requestheader_extra_headers_prefix.clone(),
    };
    let front_proxy = args.requestheader_client_ca_file.clone().map(|file| (file, proxy));
    let suites = args.tls_cipher_suites.iter().map(|name| pintle_serve::cipher_suites(name));
    let curves = args.tls_curve_preferences.iter().map(|number| pintle_serve::curves(number));
    Ok(TlsOptions {
        certificate,
        clients: ClientAuthorities { client_ca: args.client_ca_file.clone(), front_proxy },
        versions: pintle_serve::min_version(&args.tls_min_version).map_err(anyhow::Error::msg)?,
        cipher_suites: suites.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?,
        curves: curves.collect::<Result<_, _>>().map_err(anyhow::Error::msg)?,
        http2: !args.disable_http2_serving,
        addresses: vec![args.bind_address],
    })
}

/// Validates the certificate flags of HTTPS without creating anything.
///
/// # Errors
/// A file cannot be read or is invalid.
pub async fn check(args: &ServeArgs) -> anyhow::Result<()> {
    let options = tls_options(args)?;
    // A certificate may have to be created in the folder first.
    if args.secure_port != 0 && !matches!(options.certificate, CertificateSource::Folder(_)) {
        Tls::open(options).await.context("serve HTTPS (--secure-port)")?;
    }
    Ok(())
}

/// The host's own checks, and one for each plugin.
fn checks(manager: &Arc<Manager>) -> Arc<Checks> {
    let checks = Checks::default();
    let of = |test: fn(&Manager) -> Result<(), String>| {
        let manager = manager.clone();
        move || test(&manager)
    };
    checks.add(Check::new("tasks", &Probe::ALL, of(tasks)));
    checks.add(Check::new("api-server", &[Probe::Readyz], of(Manager::api_server_answers)));
    checks.add(Check::new("informer-sync", &[Probe::Readyz], of(Manager::caches_have_synced)));
    let manager = manager.clone();
    checks.set_controllers(Box::new(move || {
        manager.status().into_iter().map(|plugin| (plugin.name.clone(), works(&plugin))).collect()
    }));
    Arc::new(checks)
}

/// Alive unless a task of the host panics repeatedly.
fn tasks(manager: &Manager) -> Result<(), String> {
    match &manager.failing()[..] {
        [] => Ok(()),
        tasks => Err(format!("tasks that panic repeatedly: {}; see the log", tasks.join(", "))),
    }
}

/// Whether a plugin is working. A plugin with syncing caches counts as working.
fn works(plugin: &PluginStatus) -> Result<(), String> {
    let failed = plugin.conditions.iter().find(|condition| {
        matches!(&*condition.kind, "Ready" | "Healthy")
            && condition.status == "False"
            && condition.reason != "CachesFilling"
    });
    failed.map_or(Ok(()), |condition| Err(format!("{}: {}", condition.reason, condition.message)))
}

#[cfg(test)]
mod tests {
    use pintle_core::contract::outcome::Outcome;
    use pintle_core::lifecycle::Condition;
    use pintle_runtime::manager::{ManagerConfig, PluginOptions};
    use pintle_testing::{FakeGuest, FakeServer, FakeWriter, FakeWriters, manifest, until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn liveness_fails_when_a_task_keeps_panicking() {
        let server = FakeServer::listing(|_| panic!("boom"));
        server.state().streams = false;
        let writers = Arc::new(FakeWriters(FakeWriter::agreeable()));
        let manager = Arc::new(Manager::new(server, writers, ManagerConfig::default()));
        let guest = FakeGuest::new(manifest(|_| {}), |_, _| Ok(Ok(Outcome::default())));
        manager.add(Arc::new(guest), PluginOptions::default()).unwrap();
        let checks = checks(&manager);
        let answer = |probe| {
            let answer = checks.answer(probe, &std::collections::BTreeSet::new(), false);
            (answer.ok, answer.body)
        };
        assert_eq!(answer(Probe::Livez), (true, "ok".to_owned()));
        let running = manager.clone();
        let running = tokio::spawn(async move { running.run(std::future::pending()).await });
        let panicked = |n: u64| format!("pintle_task_panics_total{{task=\"informer\"}} {n}\n");
        until("four panics", || manager.metrics_text().contains(&panicked(4))).await;
        assert_eq!(answer(Probe::Livez), (true, "ok".to_owned()));
        until("five panics", || manager.metrics_text().contains(&panicked(5))).await;
        for probe in [Probe::Livez, Probe::Healthz] {
            let (ok, body) = answer(probe);
            assert!(!ok && body.contains("[-]tasks failed: reason withheld\n"), "{body}");
            let why = "internal server error: tasks that panic repeatedly: informer; see the log\n";
            assert_eq!(checks.single(probe, "tasks"), Some((false, why.to_owned())));
        }
        running.abort();
    }

    #[test]
    fn a_plugin_works_unless_a_condition_says_otherwise() {
        let manager = |conditions: &[(&str, &str, &str)]| {
            let condition = |(kind, status, reason): &(&str, &str, &str)| Condition {
                kind: (*kind).into(),
                status: (*status).into(),
                reason: (*reason).into(),
                message: "m".into(),
                last_transition_time: String::new(),
            };
            let status = serde_json::json!({
                "name": "a", "phase": "Running", "source": "", "current": {"version": "1", "digest": "", "origin": "", "since": ""},
            });
            let mut status: PluginStatus = serde_json::from_value(status).unwrap();
            status.conditions = conditions.iter().map(condition).collect();
            works(&status)
        };
        assert_eq!(manager(&[("Ready", "True", "Running"), ("Progressing", "False", "x")]), Ok(()));
        assert_eq!(manager(&[("Ready", "False", "CachesFilling")]), Ok(()));
        assert_eq!(manager(&[("Ready", "False", "Quarantined")]), Err("Quarantined: m".to_owned()));
        assert_eq!(
            manager(&[("Ready", "True", "Running"), ("Healthy", "False", "RunsFail")]),
            Err("RunsFail: m".to_owned())
        );
    }
}
