//! A real Kubernetes control plane as child processes on loopback.
//!
//! ```text
//! ControlPlane::start -> binary (built when stale) -> keys -> etcd -> kube-apiserver -> /readyz
//!                                    start_kcm -> kube-controller-manager -> /healthz
//! ```
//!
//! Invariants:
//! 1. Every file is in a folder of its own under `target/controlplane/run`, which goes with the value;
//!    what a killed process left there is swept by the next start.
//! 2. kube-apiserver ends before etcd: it does not end by itself once etcd is gone.
//! 3. The ports stay the same over [`ControlPlane::restart_apiserver`], and so does the data.
//! 4. No process outlives the test (see [`crate::process`]).
//!
//! Not here: nodes and kubelets. There are none; Pods run on simulated nodes or not at all.

mod audit;
mod pki;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use pintle_core::kubernetes;
use tokio::sync::{Mutex, OnceCell};

use crate::api::ApiClient;
use crate::ports::free_ports;
use crate::process::Guarded;
use crate::{PATIENCE, eventually, target_dir};
use pki::Pki;

pub use audit::{Audit, AuditEntry, AuditObject, AuditStatus, AuditUser, TimedEntry};
pub use xtask::controlplane::ensure as ensure_binary;
use xtask::controlplane::ensure_version;

/// How long a part may take to end after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// How often a start is tried again when another process took one of the free ports in between.
const PORT_ATTEMPTS: usize = 3;

/// The name of the user that may do everything.
pub const ADMIN: &str = "admin";

/// The name of the user as which programs under test run. It may do everything too, unless [`Options::subject_needs_roles`]; the audit
/// log tells it from [`ADMIN`].
pub const SUBJECT: &str = "subject";

/// What a control plane is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Version of Kubernetes, such as `1.35.4`; the one that is followed by default.
    pub kubernetes: Option<&'static str>,
    /// Users beside [`ADMIN`]. They may do nothing until RBAC says so.
    pub users: Vec<User>,
    /// Flags for kube-apiserver, after ours; of a flag given twice the last one counts.
    pub apiserver_flags: Vec<String>,
    /// Which requests kube-apiserver logs; none by default.
    pub audit: Option<Audit>,
    /// [`SUBJECT`] may do nothing until RBAC says so, either.
    pub subject_needs_roles: bool,
}

/// A user that authenticates with a static token.
#[derive(Debug, Clone)]
pub struct User {
    /// The user name; its token is `<name>-token`.
    pub name: String,
    /// The groups that it is in, `system:authenticated` aside.
    pub groups: Vec<String>,
}

/// A running etcd and kube-apiserver. Dropping it ends both and removes their data.
#[derive(Debug)]
pub struct ControlPlane {
    binary: parking_lot::Mutex<PathBuf>,
    pki: Pki,
    apiserver_port: u16,
    apiserver_args: Vec<String>,
    users: Vec<User>,
    parts: Mutex<Parts>,
    /// Last, so that the folder outlives the processes that write into it.
    run: RunDir,
}

/// Declared in the order in which they must end.
#[derive(Debug)]
struct Parts {
    apiserver: Option<Guarded>,
    etcd: Guarded,
}

/// A running kube-controller-manager. Dropping it ends it without releasing a lease.
#[derive(Debug)]
pub struct KubeControllerManager {
    /// The process, for signals, usage and log.
    pub process: Guarded,
    /// Speaks to its own port: `/metrics`, `/healthz`, `/configz`.
    pub client: ApiClient,
}

impl ControlPlane {
    /// Starts etcd and kube-apiserver and waits until the latter is ready.
    ///
    /// # Errors
    /// The binary cannot be built, or a part ended or was not ready in time; the message holds the
    /// end of its log.
    ///
    /// # Cancel safety
    /// Dropping the future ends what was started.
    pub async fn start(options: Options) -> Result<ControlPlane> {
        let version = options.kubernetes.unwrap_or(kubernetes::VERSION);
        let binary = tokio::task::spawn_blocking(|| ensure_version(version)).await??;
        let mut attempt = 1;
        loop {
            match ControlPlane::try_start(&binary, &options).await {
                Err(error) if attempt < PORT_ATTEMPTS && format!("{error:#}").contains("address already in use") => {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// The control plane that all tests of one test binary share. It is started by the first caller,
    /// and ends with the test process.
    ///
    /// # Errors
    /// As [`ControlPlane::start`]; the next caller tries again.
    pub async fn shared() -> Result<&'static ControlPlane> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED.get_or_try_init(|| ControlPlane::start(Options::default())).await
    }

    async fn try_start(binary: &Path, options: &Options) -> Result<ControlPlane> {
        let run = RunDir::create()?;
        let pki = Pki::create(&run.path.join("pki"))?;
        let [client_port, peer_port, apiserver_port] = free_ports()?;
        let mut users = vec![User { name: ADMIN.to_owned(), groups: vec!["system:masters".to_owned()] }];
        let groups = if options.subject_needs_roles { Vec::new() } else { users[0].groups.clone() };
        users.push(User { name: SUBJECT.to_owned(), groups });
        users.extend(options.users.iter().cloned());
        fs::write(run.path.join("tokens.csv"), token_file(&users)).context("write tokens")?;

        let etcd =
            Guarded::part("etcd", binary, &etcd_args(&run.path, client_port, peer_port), &run.path.join("etcd.log"))?;
        let mut apiserver_args = apiserver_args(&run.path, &pki, client_port, apiserver_port);
        if let Some(audit) = options.audit {
            apiserver_args.extend(audit.flags(&run.path)?);
        }
        apiserver_args.extend(options.apiserver_flags.iter().cloned());
        let plane = ControlPlane {
            binary: parking_lot::Mutex::new(binary.to_owned()),
            pki,
            apiserver_port,
            apiserver_args,
            users,
            parts: Mutex::new(Parts { apiserver: None, etcd }),
            run,
        };
        for user in &plane.users {
            fs::write(plane.kubeconfig_for(&user.name), plane.kubeconfig_text(&user.name))
                .context("write kubeconfig")?;
        }
        plane.start_apiserver().await?;
        Ok(plane)
    }

    /// Starts kube-apiserver again after [`stop_apiserver`](Self::stop_apiserver) or
    /// [`kill_apiserver`](Self::kill_apiserver), on the same port and data, and waits until it is
    /// ready.
    ///
    /// # Errors
    /// It runs already, ended, or was not ready in time.
    pub async fn start_apiserver(&self) -> Result<()> {
        let mut parts = self.parts.lock().await;
        if parts.apiserver.is_some() {
            bail!("kube-apiserver runs already");
        }
        let log = self.run.path.join("kube-apiserver.log");
        let mut apiserver = Guarded::part("kube-apiserver", &self.binary(), &self.apiserver_args, &log)?;
        let client = self.client();
        let started = wait_ready(&mut apiserver, &client, "/readyz").await;
        let started = match started {
            // The server makes these two by itself, a moment after it calls itself ready.
            Ok(()) => {
                eventually(PATIENCE, "the system namespaces", async || {
                    client.get("/api/v1/namespaces/default").await?;
                    client.get("/api/v1/namespaces/kube-system").await?;
                    Ok(Some(()))
                })
                .await
            }
            failed => failed,
        };
        started.map_err(|error| {
            let etcd = crate::process::tail(&self.run.path.join("etcd.log"));
            error.context(format!("start kube-apiserver; etcd said:\n{etcd}\n"))
        })?;
        parts.apiserver = Some(apiserver);
        Ok(())
    }

    /// Stops kube-apiserver in order (SIGTERM); its port then refuses connections.
    pub async fn stop_apiserver(&self) {
        if let Some(mut apiserver) = self.parts.lock().await.apiserver.take() {
            apiserver.stop(STOP_GRACE).await;
        }
    }

    /// Ends kube-apiserver at once (SIGKILL): connections break in the middle of what they said.
    pub async fn kill_apiserver(&self) {
        if let Some(mut apiserver) = self.parts.lock().await.apiserver.take() {
            apiserver.kill();
        }
    }

    /// [`stop_apiserver`](Self::stop_apiserver), then
    /// [`start_apiserver`](Self::start_apiserver).
    ///
    /// # Errors
    /// As `start_apiserver`.
    pub async fn restart_apiserver(&self) -> Result<()> {
        self.stop_apiserver().await;
        self.start_apiserver().await
    }

    /// As [`restart_apiserver`](Self::restart_apiserver), with kube-apiserver of another version. A kube-controller-manager that is
    /// started later is of that version, too.
    ///
    /// # Errors
    /// As `restart_apiserver`, or the binary cannot be built; then nothing was stopped.
    pub async fn upgrade(&self, version: &'static str) -> Result<()> {
        let binary = tokio::task::spawn_blocking(|| ensure_version(version)).await??;
        self.stop_apiserver().await;
        *self.binary.lock() = binary;
        self.start_apiserver().await
    }

    fn binary(&self) -> PathBuf {
        self.binary.lock().clone()
    }

    /// Stops everything in order. Dropping the value does the same at once and without asking.
    pub async fn stop(self) {
        self.stop_apiserver().await;
    }

    /// Where the API server listens, for example `https://127.0.0.1:34567`.
    pub fn base_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.apiserver_port)
    }

    /// The kubeconfig of [`ADMIN`].
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_for(ADMIN)
    }

    /// The kubeconfig of one of the users that the control plane was started with.
    pub fn kubeconfig_for(&self, user: &str) -> PathBuf {
        self.run.path.join(format!("{user}.kubeconfig"))
    }

    /// A client that may do everything. Make one for each async runtime: its connections are bound to
    /// the runtime that opened them.
    pub fn client(&self) -> ApiClient {
        self.client_for(ADMIN)
    }

    /// A client of a server with the certificate of [`ControlPlane::serving`] that is `user`.
    pub fn client_of(&self, url: &str, user: &str) -> ApiClient {
        ApiClient::new(url, Some(&token(user)), Some(&self.pki.ca_pem))
    }

    /// A client that is `user`.
    pub fn client_for(&self, user: &str) -> ApiClient {
        ApiClient::new(&self.base_url(), Some(&token(user)), Some(&self.pki.ca_pem))
    }

    /// The flags that name the keys by which controllers sign tokens and certificates.
    pub fn signing_flags(&self) -> [String; 3] {
        signing_flags(&self.pki)
    }

    /// The authority that signed the certificate of the API server, as PEM.
    pub fn authority(&self) -> &str {
        &self.pki.ca_pem
    }

    /// The files with the certificate of the API server, for 127.0.0.1 and any port, and its key.
    pub fn serving(&self) -> (&Path, &Path) {
        (&self.pki.serving_cert, &self.pki.serving_key)
    }

    /// The folder that holds logs, keys and data while the value lives.
    pub fn folder(&self) -> &Path {
        &self.run.path
    }

    /// The requests that kube-apiserver has logged.
    ///
    /// # Errors
    /// It logs none, or the log cannot be read.
    pub fn audit_log(&self) -> Result<Vec<AuditEntry>> {
        audit::read(&self.run.path)
    }

    /// The requests that kube-apiserver has logged, with their times.
    ///
    /// # Errors
    /// It logs none, or the log cannot be read.
    pub fn timed_audit_log(&self) -> Result<Vec<TimedEntry>> {
        audit::read(&self.run.path)
    }

    /// Empties the log of requests.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn clear_audit_log(&self) -> Result<()> {
        audit::clear(&self.run.path)
    }

    /// The process ids of etcd and, unless it is stopped, kube-apiserver.
    pub async fn process_ids(&self) -> Vec<u32> {
        let parts = self.parts.lock().await;
        let apiserver = parts.apiserver.as_ref().map(Guarded::id);
        std::iter::once(parts.etcd.id()).chain(apiserver).collect()
    }

    /// Starts the real kube-controller-manager with these controllers, rate limits lifted, and waits
    /// until it is healthy. Without a lease, unless `flags` ask for one with `--leader-elect=true`.
    ///
    /// # Errors
    /// It ended, or was not healthy in time; the message holds the end of its log.
    pub async fn start_kcm(&self, controllers: &[&str], flags: &[&str]) -> Result<KubeControllerManager> {
        let [port] = free_ports()?;
        let mut process = self.spawn_kcm(port, controllers, flags)?;
        let url = format!("https://127.0.0.1:{port}");
        let client = ApiClient::new(&url, Some(&token(ADMIN)), Some(&self.pki.ca_pem));
        wait_ready(&mut process, &client, "/healthz").await?;
        Ok(KubeControllerManager { process, client })
    }

    fn spawn_kcm(&self, port: u16, controllers: &[&str], flags: &[&str]) -> Result<Guarded> {
        let log = self.run.path.join(format!("kcm-{port}.log"));
        let mut args = kcm_args(&self.kubeconfig_for(SUBJECT), &self.pki, port);
        args.push(format!("--controllers={}", controllers.join(",")));
        args.extend(flags.iter().map(|f| (*f).to_owned()));
        Guarded::part("kube-controller-manager", &self.binary(), &args, &log)
    }

    /// Starts any other program so that it does not outlive the test, for example `pintle run`.
    ///
    /// # Errors
    /// The program cannot be started, or ended at once; the message holds the end of its log.
    pub async fn start_program(&self, name: &str, program: &Path, args: &[String]) -> Result<Guarded> {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let log = self.run.path.join(format!("{name}-{n}.log"));
        let started = Guarded::program(name, &self.binary(), program, args, &log)?;
        eventually(PATIENCE, format!("{name} to start"), async || started.inner_id().map(Some))
            .await
            .with_context(|| started.log_tail())?;
        Ok(started)
    }

    fn kubeconfig_text(&self, user: &str) -> String {
        let config = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "clusters": [{"name": "test", "cluster": {
                "server": self.base_url(),
                "certificate-authority": self.pki.ca,
            }}],
            "users": [{"name": user, "user": {"token": token(user)}}],
        });
        format!("{config:#}\n")
    }
}

/// Waits until `path` answers 200, or says why it never will.
async fn wait_ready(process: &mut Guarded, client: &ApiClient, path: &str) -> Result<()> {
    let name = process.name().to_owned();
    let outcome = eventually(PATIENCE, format!("{name} to be ready"), async || {
        if let Some(status) = process.exited() {
            // An answer, not a "not yet": there is nothing to wait for.
            return Ok(Some(Err(anyhow!("{name} ended: {status}"))));
        }
        let answer = client.request("GET", path, &[], None).await?;
        match answer.status {
            200 => Ok(Some(Ok(()))),
            status => Err(anyhow!("{path} answers {status}: {}", answer.text())),
        }
    })
    .await;
    let tail = process.log_tail();
    outcome.and_then(|inner| inner).map_err(|error| error.context(format!("the log of {name} ends with:\n{tail}\n")))
}

fn token(user: &str) -> String {
    format!("{user}-token")
}

/// Lines of `token,user,uid,"group,group"`, as kube-apiserver's `--token-auth-file` wants them.
fn token_file(users: &[User]) -> String {
    users
        .iter()
        .map(|u| {
            let groups = u.groups.join(",");
            format!("{},{},{}-uid,\"{groups}\"\n", token(&u.name), u.name, u.name)
        })
        .collect()
}

fn flag(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

fn etcd_args(dir: &Path, client_port: u16, peer_port: u16) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    vec![
        flag("name", "test"),
        flag("data-dir", dir.join("etcd").display()),
        flag("listen-client-urls", &client),
        flag("advertise-client-urls", &client),
        flag("listen-peer-urls", &peer),
        flag("initial-advertise-peer-urls", &peer),
        flag("initial-cluster", format!("test={peer}")),
        flag("log-level", "warn"),
        // The data is thrown away anyway; syncing would make every write wait for the disk.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn apiserver_args(dir: &Path, pki: &Pki, etcd_port: u16, port: u16) -> Vec<String> {
    vec![
        flag("etcd-servers", format!("http://127.0.0.1:{etcd_port}")),
        flag("bind-address", "127.0.0.1"),
        flag("secure-port", port),
        flag("cert-dir", dir.join("pki").display()),
        flag("tls-cert-file", pki.serving_cert.display()),
        flag("tls-private-key-file", pki.serving_key.display()),
        flag("client-ca-file", pki.ca.display()),
        flag("token-auth-file", dir.join("tokens.csv").display()),
        flag("authorization-mode", "RBAC"),
        // As on OpenShift: who makes an object that blocks the deletion of its owner may update the owner's finalizers.
        flag("enable-admission-plugins", "OwnerReferencesPermissionEnforcement"),
        flag("service-account-issuer", "https://kubernetes.default.svc"),
        flag("service-account-key-file", pki.service_account_public_key.display()),
        flag("service-account-signing-key-file", pki.service_account_key.display()),
        flag("service-cluster-ip-range", "10.96.0.0/16"),
    ]
}

fn kcm_args(kubeconfig: &Path, pki: &Pki, port: u16) -> Vec<String> {
    vec![
        flag("kubeconfig", kubeconfig.display()),
        flag("bind-address", "127.0.0.1"),
        flag("secure-port", port),
        flag("tls-cert-file", pki.serving_cert.display()),
        flag("tls-private-key-file", pki.serving_key.display()),
        flag("authentication-skip-lookup", true),
        flag("authorization-always-allow-paths", "/metrics,/healthz"),
        flag("leader-elect", false),
        flag("kube-api-qps", 5000),
        flag("kube-api-burst", 10000),
        flag("root-ca-file", pki.ca.display()),
    ]
    .into_iter()
    .chain(signing_flags(pki))
    .collect()
}

fn signing_flags(pki: &Pki) -> [String; 3] {
    [
        flag("service-account-private-key-file", pki.service_account_key.display()),
        flag("cluster-signing-cert-file", pki.ca.display()),
        flag("cluster-signing-key-file", pki.ca_key.display()),
    ]
}

/// A folder that is locked while its owner lives and removed when it goes.
#[derive(Debug)]
struct RunDir {
    path: PathBuf,
    /// Unlocked by the kernel when the process ends, which tells the next start that the folder is
    /// left over.
    _lock: File,
}

impl RunDir {
    fn create() -> Result<RunDir> {
        let all = target_dir().join("controlplane/run");
        fs::create_dir_all(&all).context("make the folder for runs")?;
        RunDir::sweep(&all);
        let dir = tempfile::Builder::new().prefix("run-").tempdir_in(&all).context("make the folder of this run")?;
        let lock = File::create(dir.path().join("lock")).context("make the lock of this run")?;
        lock.lock().context("lock the folder of this run")?;
        Ok(RunDir { path: dir.keep(), _lock: lock })
    }

    /// Removes the folders whose owner is gone. A folder without a lock file is just being made.
    fn sweep(all: &Path) {
        for entry in fs::read_dir(all).into_iter().flatten().flatten() {
            if let Ok(lock) = File::open(entry.path().join("lock"))
                && lock.try_lock().is_ok()
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
