//! A real browser without a window: Chromium, over the pipe of its DevTools protocol.
//!
//! The protocol is JSON with a zero byte after each message. Crates for it bring WebSockets, a runtime or a browser that they fetch; the
//! tests need eight commands.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Lifeline;
use crate::{PATIENCE, eventually, target_dir};

/// Names of the program.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// What the browser has sent.
#[derive(Debug, Default)]
struct Received {
    answers: BTreeMap<u64, Value>,
    events: Vec<Value>,
}

/// A browser with one page. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    _lifeline: Lifeline,
    child: Child,
    commands: ChildStdin,
    received: Arc<Mutex<Received>>,
    n_sent: u64,
    session: String,
    // Removed last.
    _profile: TempDir,
}

impl Browser {
    /// Starts the browser with an empty page, which accepts every certificate.
    ///
    /// # Errors
    /// There is no browser, or it does not answer.
    pub async fn start() -> Result<Browser> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |program: &&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        let Some(program) = PROGRAMS.iter().find(|program| is_there(program)) else {
            bail!("there is no browser: `cargo xtask test` installs it, or `apt-get install chromium`");
        };
        std::fs::create_dir_all(target_dir())?;
        let profile = tempfile::Builder::new().prefix("browser-").tempdir_in(target_dir())?;
        // The pipe has the numbers 3 and 4.
        let script = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh", program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox"]);
        command.args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"]);
        command.args(["--disable-component-update", "--disable-sync", "--ignore-certificate-errors"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().context("start the browser")?;
        let lifeline = Lifeline::of_group(child.id())?;
        let commands = child.stdin.take().context("a pipe")?;
        let mut messages = BufReader::new(child.stdout.take().context("a pipe")?);
        let received = Arc::new(Mutex::new(Received::default()));
        let into = received.clone();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(1..) = messages.read_until(0, &mut message) {
                let text = message.strip_suffix(&[0]).unwrap_or(&message);
                if let Ok(value) = serde_json::from_slice::<Value>(text) {
                    let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
                    match value["id"].as_u64() {
                        Some(id) => drop(into.answers.insert(id, value)),
                        None => into.events.push(value),
                    }
                }
                message.clear();
            }
        });
        let mut browser = Browser {
            _lifeline: lifeline,
            child,
            commands,
            received,
            n_sent: 0,
            session: String::new(),
            _profile: profile,
        };
        let page = browser.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": page["targetId"], "flatten": true})).await?;
        browser.session = attached["sessionId"].as_str().context("no session")?.to_owned();
        for part in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{part}.enable"), json!({})).await?;
        }
        Ok(browser)
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command of the protocol, and waits for its answer.
    ///
    /// # Errors
    /// The browser refuses it, or does not answer.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.n_sent += 1;
        let id = self.n_sent;
        let mut command = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        let mut text = command.to_string().into_bytes();
        text.push(0);
        self.commands.write_all(&text).and_then(|()| self.commands.flush()).context("speak to the browser")?;
        let answer =
            eventually(PATIENCE, format!("the answer to {method}"), async || Ok(self.received().answers.remove(&id)));
        let answer = answer.await?;
        ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }

    /// Opens an address.
    ///
    /// # Errors
    /// As [`Browser::call`], or nothing answers there.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        let opened = self.call("Page.navigate", json!({ "url": url })).await?;
        ensure!(opened["errorText"].is_null(), "{url}: {opened}");
        Ok(())
    }

    /// The value of an expression in the page.
    ///
    /// # Errors
    /// As [`Browser::call`], or the expression throws.
    pub async fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let found = self.call("Runtime.evaluate", parameters).await?;
        ensure!(found["exceptionDetails"].is_null(), "{expression}: {found}");
        Ok(found["result"]["value"].clone())
    }

    /// Waits until an expression is true in the page.
    ///
    /// # Errors
    /// It is not, in time.
    pub async fn becomes(&mut self, expression: &str) -> Result<()> {
        // A page that is being loaded has no elements.
        let became =
            eventually(PATIENCE, expression, async || Ok((self.evaluate(expression).await? == true).then_some(())));
        let Err(why) = became.await else { return Ok(()) };
        let text = self.evaluate("document.body.innerText").await?;
        bail!("{why:#}; the page shows:\n{}", text.as_str().unwrap_or_default());
    }

    /// The parameters of all events of this name so far.
    pub fn events(&self, method: &str) -> Vec<Value> {
        let received = self.received();
        let of_name = received.events.iter().filter(|event| event["method"] == method);
        of_name.map(|event| event["params"].clone()).collect()
    }

    /// What went wrong in the page so far: exceptions, errors on the console, refusals of the page's policy.
    pub fn complaints(&self) -> Vec<String> {
        let thrown = self.events("Runtime.exceptionThrown");
        let console = self.events("Runtime.consoleAPICalled").into_iter().filter(|call| call["type"] != "log");
        let entries = self.events("Log.entryAdded").into_iter().filter(|log| log["entry"]["level"] == "error");
        thrown.into_iter().chain(console).chain(entries).map(|event| event.to_string()).collect()
    }

    /// The addresses that the page has asked for.
    pub fn requests(&self) -> Vec<String> {
        let sent = self.events("Network.requestWillBeSent");
        sent.iter().filter_map(|sent| sent["request"]["url"].as_str().map(str::to_owned)).collect()
    }

    /// Shows the page in this size, in dark colours or not.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub async fn look(&mut self, width: u32, height: u32, dark: bool) -> Result<()> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics).await?;
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// Photographs the whole page.
    ///
    /// # Errors
    /// As [`Browser::call`], or the file cannot be written.
    pub async fn photograph(&mut self, file: &Path) -> Result<()> {
        let size = self.call("Page.getLayoutMetrics", json!({})).await?["cssContentSize"].take();
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1});
        let picture = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.call("Page.captureScreenshot", picture).await?;
        let bytes = STANDARD.decode(picture["data"].as_str().context("no picture")?)?;
        std::fs::write(file, bytes).with_context(|| format!("write {}", file.display()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // They fail only when it has ended already.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
