//! `pintle run` as a child process that does not outlive its test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::pintle::{self, Answer};
use crate::process::Guarded;
use crate::{ApiClient, eventually, target_dir};

/// How long a host may take until its caches are synced. The first host compiles all components before that; an unoptimised one beside
/// other tests needs minutes for an engine of JavaScript.
const READY_DEADLINE: Duration = Duration::from_secs(900);

/// How long a host may take to end when it is asked to.
const STOP_GRACE: Duration = Duration::from_secs(300);

/// The field of the log line that contains the address of `/metrics`.
const ADDRESS: &str = " metrics=";

/// A `pintle run` process. Dropping it ends it at once.
#[derive(Debug)]
pub struct HostProcess {
    /// The process, for signals, usage and log.
    pub process: Guarded,
    program: PathBuf,
    args: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// The length of the log when the process started: of an earlier process of this host.
    log_start: usize,
    socket: PathBuf,
    folder: TempDir,
}

impl HostProcess {
    /// Starts the binary under test against the cluster of a kubeconfig (its text), without a client rate limit and without leader election
    /// unless a flag asks for them.
    ///
    /// # Errors
    /// There is no binary, or it cannot be started.
    pub fn start(kubeconfig: &str, flags: &[String]) -> Result<HostProcess> {
        HostProcess::start_binary(&pintle::host_binary()?, kubeconfig, flags)
    }

    /// As [`HostProcess::start`], with another binary.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_binary(program: &Path, kubeconfig: &str, flags: &[String]) -> Result<HostProcess> {
        HostProcess::start_all(program, kubeconfig, flags, &[])
    }

    /// As [`HostProcess::start`], with more variables in its environment.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with_environment(
        kubeconfig: &str,
        flags: &[String],
        environment: &[(&'static str, String)],
    ) -> Result<HostProcess> {
        HostProcess::start_all(&pintle::host_binary()?, kubeconfig, flags, environment)
    }

    fn start_all(
        program: &Path,
        kubeconfig: &str,
        flags: &[String],
        environment: &[(&'static str, String)],
    ) -> Result<HostProcess> {
        let target = target_dir();
        std::fs::create_dir_all(&target).context("make the target folder")?;
        let folder = tempfile::Builder::new().prefix("host-").tempdir_in(&target)?;
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).context("write the kubeconfig")?;
        let socket = flags.iter().find_map(|flag| flag.strip_prefix("--admin-socket=")).map(PathBuf::from);
        let mut args = vec![
            "run".to_owned(),
            format!("--kubeconfig={}", folder.path().join("kubeconfig").display()),
            // All hosts under test share it, so that each component is compiled once.
            format!("--cache-dir={}", target.join("host-code").display()),
            "--serve=127.0.0.1:0".to_owned(),
        ];
        if !flags.iter().any(|flag| flag.starts_with("--kube-api-qps=")) {
            args.push("--kube-api-qps=0".to_owned());
        }
        if !flags.iter().any(|flag| flag.starts_with("--secure-port=")) {
            // Several hosts run at once.
            args.push("--secure-port=0".to_owned());
        }
        // A host that is killed and started again would wait until its Lease expires.
        if !flags.iter().any(|flag| flag.starts_with("--leader-elect")) {
            args.push("--leader-elect=false".to_owned());
        }
        if socket.is_none() {
            args.push(format!("--admin-socket={}", folder.path().join("admin.sock").display()));
        }
        args.extend_from_slice(flags);
        let socket = socket.unwrap_or_else(|| folder.path().join("admin.sock"));
        let environment = environment.to_vec();
        let process = spawn(program, &args, &environment, folder.path())?;
        Ok(HostProcess { process, program: program.to_owned(), args, environment, log_start: 0, socket, folder })
    }

    /// A flag that selects controllers.
    pub fn controllers(names: &[&str]) -> String {
        format!("--controllers={}", names.join(","))
    }

    /// Ends the process at once, by SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Asks the process to end, and waits.
    pub async fn stop(mut self) {
        self.process.stop(STOP_GRACE).await;
    }

    /// Starts the host again after [`HostProcess::kill`].
    ///
    /// # Errors
    /// As [`HostProcess::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.log_start = self.log().len();
        self.process = spawn(&self.program, &self.args, &self.environment, self.folder.path())?;
        Ok(())
    }

    /// As [`HostProcess::restart`], with more flags from now on.
    ///
    /// # Errors
    /// As [`HostProcess::start`].
    pub fn restart_with(&mut self, flags: &[&str]) -> Result<()> {
        self.args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.restart()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.exited().is_none()
    }

    /// Whether it takes part in the leader election under this identity.
    pub fn is_of(&self, identity: &str) -> bool {
        self.log().contains(&format!("identity=\"{identity}\""))
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// Waits until the caches of all plugins are synced; answers a client of the host's own address.
    ///
    /// # Errors
    /// The host ended, or was not ready in time. The message contains the end of its log.
    pub async fn ready(&mut self) -> Result<ApiClient> {
        let outcome = eventually(READY_DEADLINE, "pintle to be ready", async || {
            if let Some(status) = self.process.exited() {
                // The last answer: there is nothing to wait for.
                return Ok(Some(Err(anyhow::anyhow!("pintle ended: {status}"))));
            }
            let client = self.client()?;
            let answer = client.request("GET", "/readyz", &[], None).await?;
            ensure!(answer.status == 200, "{}", answer.text());
            Ok(Some(Ok(client)))
        });
        let outcome = outcome.await.and_then(|ready| ready);
        outcome.with_context(|| format!("the log of pintle ends with:\n{}\n", self.log_tail()))
    }

    /// Waits until the admin socket answers.
    ///
    /// # Errors
    /// It does not, in time. The message contains the end of the log.
    pub async fn answers(&self) -> Result<()> {
        let answered = eventually(READY_DEADLINE, "the host to answer", async || self.plugin(&["list"]).map(Some));
        answered.await.map(drop).with_context(|| self.log_tail())
    }

    /// A client of the host's own address, which its log contains.
    fn client(&self) -> Result<ApiClient> {
        let log = self.log();
        let address = log.get(self.log_start..).and_then(|log| log.split_once(ADDRESS)).map(|(_, rest)| rest);
        let address = address.and_then(|rest| rest.split_whitespace().next()).context("no address in the log")?;
        Ok(ApiClient::new(&format!("http://{address}"), None, None))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap_or_default()
    }

    /// The path of its admin socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What `pintle plugin ... -o json` prints.
    ///
    /// # Errors
    /// It fails. The message is the line that it prints.
    pub fn plugin(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = Command::new(&self.program);
        command.arg("plugin").args(arguments).args(["-o", "json", "--admin-socket"]).arg(&self.socket);
        let answer = Answer::of(&mut command)?;
        let is_one_line = answer.code == Some(1) && answer.errors.lines().count() == 1;
        ensure!(answer.is_good() || is_one_line, "an error is one line and exit code 1: {answer:?}");
        answer.json()
    }
}

fn spawn(program: &Path, args: &[String], environment: &[(&'static str, String)], folder: &Path) -> Result<Guarded> {
    let mut command = Command::new(program);
    Guarded::tied("pintle", command.args(args).envs(environment.iter().cloned()), &folder.join("log"))
}
