//! The host as a child process that does not outlive its test.
//!
//! Invariant: the process ends when [`Host`] is dropped, and when the test process ends in whatever way: beside each
//! host a shell waits at a pipe from the test process, and kills the host when the pipe closes.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::binary;
use crate::process::Guarded;
use crate::target_dir;

/// What a rollout needs.
const CONTROLLERS: [&str; 3] = ["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

/// A `pintle run` process.
#[derive(Debug)]
pub struct Host {
    // The order of the fields is that in which they are dropped: no pid is killed that may be somebody else's.
    lifeline: Lifeline,
    process: Guarded,
    args: Vec<String>,
    folder: TempDir,
}

/// A shell that kills a process, or a group of them, when the pipe from this one closes.
#[derive(Debug)]
pub(crate) struct Lifeline(Child);

impl Host {
    /// Starts the host against the cluster of a kubeconfig.
    ///
    /// # Errors
    /// There is no binary, or it cannot be started.
    pub fn start(name: &str, kubeconfig: &str) -> Result<Host> {
        Host::start_with(name, kubeconfig, &CONTROLLERS, &[])
    }

    /// As [`Host::start`], with other controllers and more flags.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_with(name: &str, kubeconfig: &str, controllers: &[&str], flags: &[String]) -> Result<Host> {
        let target = target_dir();
        std::fs::create_dir_all(&target).context("make the target folder")?;
        let folder = tempfile::Builder::new().prefix(&format!("crash-{name}-")).tempdir_in(target)?;
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).context("write the kubeconfig")?;
        let mut args = vec![
            format!("--kubeconfig={}", folder.path().join("kubeconfig").display()),
            format!("--controllers={}", controllers.join(",")),
            // Shared by all hosts under test, so that each component is compiled once.
            format!("--cache-dir={}", target_dir().join("crash-code").display()),
            "--serve=127.0.0.1:0".to_owned(),
            "--kube-api-qps=0".to_owned(),
        ];
        args.extend_from_slice(flags);
        let process = spawn(&folder, &args)?;
        Ok(Host { lifeline: Lifeline::of(&process)?, process, args, folder })
    }

    /// Ends the process at once, by SIGKILL.
    pub fn kill(&mut self) {
        self.lifeline.cut();
        self.process.kill();
    }

    /// Starts the host again after [`Host::kill`].
    ///
    /// # Errors
    /// As [`Host::start`].
    pub fn restart(&mut self) -> Result<()> {
        self.process = spawn(&self.folder, &self.args)?;
        self.lifeline = Lifeline::of(&self.process)?;
        Ok(())
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.exited().is_none()
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

fn spawn(folder: &TempDir, args: &[String]) -> Result<Guarded> {
    Guarded::part("run", &binary()?, args, &folder.path().join("log"))
}

impl Lifeline {
    /// Ties `process` to this one.
    pub(crate) fn of(process: &Guarded) -> Result<Lifeline> {
        Lifeline::to(&process.id().to_string())
    }

    /// Ties all processes of a group to this one, by the number of its leader.
    pub(crate) fn of_group(leader: u32) -> Result<Lifeline> {
        Lifeline::to(&format!("-{leader}"))
    }

    fn to(target: &str) -> Result<Lifeline> {
        let script = "read -r order || kill -KILL -- \"$0\" 2>/dev/null";
        let shell = Command::new("sh")
            .args(["-c", script, target])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Lifeline(shell.context("start a shell that watches a process")?))
    }

    /// The host is about to be ended by its owner.
    fn cut(&mut self) {
        // Both fail only when the shell has ended already, which is what is wanted.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(b"end\n");
        }
        let _ = self.0.wait();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.cut();
    }
}
