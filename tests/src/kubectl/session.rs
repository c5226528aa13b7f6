//! A shell with kubectl and one cluster, in which the script is played.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::normalize;
use super::script::{Action, Step, matches};
use crate::{PATIENCE, eventually, process};

/// What a step printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Where the step stands in the script.
    pub line: usize,
    /// The step.
    pub step: String,
    /// What it printed, normalized.
    pub lines: Vec<String>,
    /// Why the step is not as it should be, apart from what it printed.
    pub failure: Option<String>,
}

/// A shell of its own.
pub struct Session {
    folder: TempDir,
    watches: HashMap<String, (Child, Lines<BufReader<ChildStdout>>)>,
}

impl Session {
    /// A session on the cluster of a kubeconfig, with a copy of it, an empty home and an empty working folder.
    ///
    /// # Errors
    /// The folders cannot be made, or there is no kubectl.
    pub fn new(kubeconfig: &Path) -> Result<Session> {
        let folder = tempfile::tempdir().context("make a folder for kubectl")?;
        let path = folder.path();
        for name in ["home", "bin", "work"] {
            fs::create_dir(path.join(name)).context("make a folder for kubectl")?;
        }
        fs::copy(kubeconfig, path.join("kubeconfig")).context("copy the kubeconfig")?;
        // Which is why the script can say `kubectl` whatever is installed.
        let program: Vec<String> = super::program()?.iter().map(|word| format!("'{word}'")).collect();
        let wrapper = format!("#!/bin/sh\nexec {} \"$@\"\n", program.join(" "));
        process::write_program(&path.join("bin/kubectl"), &wrapper)?;
        Ok(Session { folder, watches: HashMap::new() })
    }

    /// Plays one step. What it printed is for the caller to judge; only of a polled command `step.expected` is awaited.
    ///
    /// # Errors
    /// The shell cannot be started, or a watch printed nothing in time.
    pub async fn play(&mut self, step: &Step) -> Result<Printed> {
        let mut failure = None;
        let lines = match &step.action {
            Action::Run(command, succeeds) => {
                let (success, text) = self.run(command).await?;
                if success != *succeeds {
                    failure = Some(format!("it {}", if success { "succeeded" } else { "failed" }));
                }
                normalize::normalize(&text)
            }
            Action::Poll(command) => {
                let mut last = Vec::new();
                let done = eventually(PATIENCE, command, async || {
                    let (success, text) = self.run(command).await?;
                    last = normalize::normalize(&text);
                    Ok((success && matches(&step.expected, &last)).then_some(()))
                })
                .await;
                failure = done.err().map(|error| format!("{error:#}"));
                last
            }
            Action::Watch(id, command) => {
                let mut child = self
                    .command(command)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .kill_on_drop(true)
                    .spawn()
                    .context("start a shell")?;
                let out = child.stdout.take().context("standard output is a pipe")?;
                self.watches.insert(id.clone(), (child, BufReader::new(out).lines()));
                Vec::new()
            }
            Action::Lines(id, n) => {
                let (_, lines) = self.watches.get_mut(id).context("no such watch")?;
                let mut read = Vec::new();
                for _ in 0..*n {
                    let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
                    let line = line.with_context(|| format!("{id} printed only {read:#?}"))??;
                    read.push(normalize::line(&line.context("the watch ended")?));
                }
                read
            }
            Action::End(id) => {
                let (mut child, _) = self.watches.remove(id).context("no such watch")?;
                child.kill().await.context("end a watch")?;
                Vec::new()
            }
        };
        Ok(Printed { line: step.line, step: step.action.shown(), lines, failure })
    }

    async fn run(&self, command: &str) -> Result<(bool, String)> {
        let running = self.command(command).stderr(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).output();
        let Ok(output) = tokio::time::timeout(PATIENCE, running).await else { bail!("{command}: it does not end") };
        let output = output.context("run a shell")?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Ok((output.status.success(), text))
    }

    fn command(&self, command: &str) -> Command {
        let folder = self.folder.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            // A watch must be the child itself, so that ending the child ends it.
            .args(["-c", command])
            .current_dir(folder.join("work"))
            .env("PATH", format!("{}:{path}", folder.join("bin").display()))
            .env("HOME", folder.join("home"))
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .env("KUBE_EDITOR", "false")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        shell
    }
}
