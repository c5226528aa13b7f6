//! A real control plane that writes down who does what, and hosts on it that may do what `pintle rbac` prints and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::controlplane::free_ports;
use crate::process::Guarded;
use crate::{ApiClient, ControlPlane, Options, crash, eventually, kubectl};

/// Where the service accounts of hosts and plugins are.
pub const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";

/// How long a host may take until its caches are filled; the first time it compiles all components before that.
const READY_DEADLINE: Duration = Duration::from_secs(300);

/// What `pintle rbac` prints.
///
/// # Errors
/// It fails; the text is what it says.
pub fn rbac(args: &[&str]) -> Result<String> {
    let output = Command::new(crash::binary()?).arg("rbac").args(args).output().context("run pintle rbac")?;
    if !output.status.success() {
        bail!("pintle rbac {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The objects of a printed list.
///
/// # Errors
/// The text is no list.
pub fn items(text: &str) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(text)?;
    Ok(list["items"].as_array().context("no items")?.clone())
}

/// The control plane, and a folder for files beside it.
#[derive(Debug)]
pub struct Audited {
    /// The control plane.
    pub plane: ControlPlane,
    /// May do everything.
    pub client: ApiClient,
    folder: TempDir,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub struct Deed {
    /// Name of the service account in kube-system.
    pub account: String,
    /// Who of the host, as its user agent says: a plugin, `informers` or `accounts`.
    pub who: String,
    /// `VERB RESOURCE[/SUBRESOURCE]`.
    pub what: String,
}

impl Deed {
    /// Whether it may have changed anything.
    pub fn is_write(&self) -> bool {
        !["get ", "list ", "watch "].iter().any(|read| self.what.starts_with(read))
    }
}

/// A host as `kube-system/pintle`. Dropping it ends it at once.
#[derive(Debug)]
pub struct Host {
    /// The process.
    pub process: Guarded,
    /// Speaks to its own port.
    pub client: ApiClient,
    socket: PathBuf,
}

impl Audited {
    /// Starts the control plane.
    ///
    /// # Errors
    /// As [`ControlPlane::start`].
    pub async fn start() -> Result<Audited> {
        let folder = tempfile::tempdir()?;
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        });
        let policy_file = folder.path().join("policy.yaml");
        fs::write(&policy_file, policy.to_string())?;
        let log = folder.path().join("audit.log");
        let apiserver_flags = vec![
            format!("--audit-policy-file={}", policy_file.display()),
            format!("--audit-log-path={}", log.display()),
        ];
        let plane = ControlPlane::start(Options { apiserver_flags, ..Options::default() }).await?;
        Ok(Audited { client: plane.client(), plane, folder })
    }

    /// A folder that goes with this value.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
        Ok(file)
    }

    /// Creates objects, as an administrator does. `name` is that of a file.
    ///
    /// # Errors
    /// kubectl fails.
    pub async fn create(&self, name: &str, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        let file = self.write(name, &list)?;
        kubectl(&self.plane.kubeconfig(), &["apply", "-f", &file.display().to_string()]).await?;
        Ok(())
    }

    /// Runs the built-in plugins with a token of the host's account, which must be there.
    ///
    /// # Errors
    /// The host does not start; the message holds the end of its log.
    pub async fn run(&self, flags: &[&str]) -> Result<Host> {
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let token = self.client.create(&format!("{ACCOUNTS}/pintle/token"), &request).await?;
        let mut kubeconfig: Value = serde_json::from_str(&fs::read_to_string(self.plane.kubeconfig())?)?;
        kubeconfig["users"][0]["user"] = json!({"token": token["status"]["token"]});
        let kubeconfig = self.write("host.kubeconfig", &kubeconfig.to_string())?;
        let [port] = free_ports()?;
        let socket = self.folder.path().join("admin.sock");
        let mut args = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--serve=127.0.0.1:{port}"),
            format!("--admin-socket={}", socket.display()),
        ];
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let process = self.plane.start_program("pintle", &crash::binary()?, &args).await?;
        let host = Host { process, client: ApiClient::new(&format!("http://127.0.0.1:{port}"), None, None), socket };
        let ready = eventually(READY_DEADLINE, "pintle to be ready", async || {
            let answer = host.client.request("GET", "/readyz", &[], None).await?;
            ensure!(answer.status == 200, "{}", answer.text());
            Ok(Some(()))
        });
        ready.await.with_context(|| host.process.log_tail())?;
        Ok(host)
    }

    /// What accounts of kube-system have done since the log was cleared. Nobody may have been refused anything.
    ///
    /// # Errors
    /// There is no log, or somebody was refused something.
    pub fn deeds(&self) -> Result<Vec<Deed>> {
        let mut deeds = Vec::new();
        for line in fs::read_to_string(self.folder.path().join("audit.log"))?.lines() {
            // The last line may be half written.
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let user = entry["user"]["username"].as_str().unwrap_or_default();
            let Some(account) = user.strip_prefix("system:serviceaccount:kube-system:") else { continue };
            let Some(resource) = entry["objectRef"]["resource"].as_str() else { continue };
            ensure!(entry["responseStatus"]["code"] != 403, "refused: {entry:#}");
            let part = entry["objectRef"]["subresource"].as_str().map_or_else(String::new, |part| format!("/{part}"));
            let agent = entry["userAgent"].as_str().unwrap_or_default();
            deeds.push(Deed {
                account: account.to_owned(),
                who: agent.rsplit(' ').next().unwrap_or_default().to_owned(),
                what: format!("{} {resource}{part}", entry["verb"].as_str().unwrap_or_default()),
            });
        }
        Ok(deeds)
    }

    /// Clears the log.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn forget(&self) -> Result<()> {
        fs::write(self.folder.path().join("audit.log"), "").context("clear the audit log")
    }
}

impl Host {
    /// What `pintle plugin ... -o json` prints.
    ///
    /// # Errors
    /// It fails; the text is what it says.
    pub fn plugin(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(crash::binary()?);
        command.arg("plugin").args(arguments).args(["-o", "json", "--admin-socket"]).arg(&self.socket);
        let output = command.output().context("run pintle plugin")?;
        ensure!(
            output.status.success(),
            "pintle plugin {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Asks it to end, and waits.
    pub async fn stop(mut self) {
        self.process.stop(Duration::from_secs(10)).await;
    }
}
