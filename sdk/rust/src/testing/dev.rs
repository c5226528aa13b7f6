//! A cluster for a test: runs `pintle dev` with a controller from the test program. Needs the feature `dev-cluster`.
//!
//! ```no_run
//! use pintle_sdk::testing::dev::{Dev, DevOptions};
//! use serde_json::json;
//!
//! # fn main() -> Result<(), pintle_sdk::testing::dev::DevError> {
//! let cluster = Dev::start(DevOptions { plugins: vec![".".into()], ..DevOptions::default() })?;
//! cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}))?;
//! let account = cluster.wait("v1/ServiceAccount", "team", "robot", |account| account.is_some())?;
//! # Ok(())
//! # }
//! ```
//!
//! It stops when the value is dropped, and when the test program ends for any reason.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// Polling interval.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit for a graceful stop.
const GRACE: Duration = Duration::from_secs(10);
/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(60);

/// Options of [`Dev::start`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevOptions {
    /// Plugin folders, which are built, or components.
    pub plugins: Vec<PathBuf>,
    /// More flags of `pintle dev`, such as `--controllers=-deployment` or `--nodes=0`.
    pub flags: Vec<String>,
    /// The program. The default is the value of the environment variable `PINTLE_BIN`, or `pintle` on the `PATH`.
    pub program: Option<PathBuf>,
    /// Timeout for the start of the plugins, including builds: ten minutes by default.
    pub start_timeout: Duration,
    /// Timeout of [`Dev::wait`]: one minute by default.
    pub wait_timeout: Duration,
}

impl Default for DevOptions {
    fn default() -> Self {
        Self {
            plugins: Vec::new(),
            flags: Vec::new(),
            program: None,
            start_timeout: Duration::from_secs(600),
            wait_timeout: Duration::from_secs(60),
        }
    }
}

/// Errors of [`Dev`].
#[derive(Debug)]
pub enum DevError {
    /// `pintle dev` does not start, or a plugin does not run; with the reason, or the log.
    Start(String),
    /// An answer of the API server that is not 2xx.
    Api {
        /// HTTP status code.
        code: u16,
        /// `reason` of the `Status`, such as `NotFound`.
        reason: String,
        /// `message` of the `Status`.
        message: String,
    },
    /// The API server does not respond, or not with JSON.
    Request(String),
    /// An object did not fulfil the condition in time; with the object and the log.
    Timeout(String),
}

impl fmt::Display for DevError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api { code, reason, message } => write!(f, "{code} {reason}: {message}"),
            Self::Start(text) | Self::Request(text) | Self::Timeout(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for DevError {}

/// A running `pintle dev`.
#[derive(Debug)]
pub struct Dev {
    kubeconfig: PathBuf,
    ready: Value,
    server: String,
    agent: Agent,
    wait_timeout: Duration,
    /// Name in URLs, and whether it is namespaced, by kind.
    resources: Mutex<BTreeMap<String, (String, bool)>>,
    // Last, so that the folder is removed after the process has ended.
    process: Process,
}

/// The process. Dropping it stops the process.
#[derive(Debug)]
struct Process {
    child: Child,
    log: PathBuf,
    folder: tempfile::TempDir,
}

impl Dev {
    /// Starts `pintle dev`, and waits until the plugins run.
    ///
    /// # Errors
    /// [`DevError::Start`].
    pub fn start(options: DevOptions) -> Result<Self, DevError> {
        let named = options.program.or_else(|| std::env::var_os("PINTLE_BIN").map(PathBuf::from));
        let program = named.unwrap_or_else(|| "pintle".into());
        let failed = |what: &str, error: &dyn fmt::Display| DevError::Start(format!("{what}: {error}"));
        let folder = tempfile::Builder::new().prefix("pintle-dev-").tempdir();
        let folder = folder.map_err(|error| failed("create a temporary folder", &error))?;
        let (log, ready) = (folder.path().join("log"), folder.path().join("ready.json"));
        let output = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = output.map_err(|error| failed("create the log", &error))?;
        let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let mut command = Command::new(&program);
        command.args(["dev", "--stop-with-stdin"]).arg(flag("ready-file", &ready));
        command.arg(flag("kubeconfig", &folder.path().join("kubeconfig")));
        command.arg(flag("admin-socket", &folder.path().join("admin.sock")));
        command.args(options.plugins.iter().map(|plugin| flag("plugin", plugin))).args(&options.flags);
        // The pipe closes when this process ends for any reason, which stops `pintle dev`.
        command.stdin(Stdio::piped()).stdout(stdout).stderr(stderr);
        let child = command.spawn().map_err(|error| {
            let what = format!("start {}", program.display());
            let advice = "install pintle, or name the program by the environment variable PINTLE_BIN";
            DevError::Start(format!("{what}: {error}; {advice}"))
        })?;
        let mut process = Process { child, log, folder };
        process.wait_for(&ready, options.start_timeout)?;
        let text = std::fs::read_to_string(&ready).map_err(|error| failed("read the ready file", &error))?;
        let ready: Value = serde_json::from_str(&text).map_err(|error| failed("read the ready file", &error))?;
        if let Some(error) = ready["error"].as_str() {
            return Err(DevError::Start(format!("a plugin does not run: {error}")));
        }
        let kubeconfig = PathBuf::from(ready["kubeconfig"].as_str().unwrap_or_default());
        let (server, agent) =
            connect(&kubeconfig).map_err(|error| failed(&format!("use {}", kubeconfig.display()), &error))?;
        let (resources, wait_timeout) = (Mutex::default(), options.wait_timeout);
        Ok(Self { kubeconfig, ready, server, agent, wait_timeout, resources, process })
    }

    /// Path of the kubeconfig, for kubectl and for clients such as kube.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Content of `--ready-file`: `pid`, `server`, `serving`, `adminSocket`.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// The output so far, including the lines of the plugins.
    pub fn log(&self) -> String {
        self.process.text()
    }

    /// Creates or changes an object, as `kubectl apply --server-side --force-conflicts`. Returns it.
    ///
    /// # Errors
    /// [`DevError::Api`], or [`DevError::Request`].
    pub fn apply(&self, object: &Value) -> Result<Value, DevError> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let kind = format!("{}/{}", text("/apiVersion"), text("/kind"));
        let path = self.path(&kind, text("/metadata/namespace"), text("/metadata/name"))?;
        let path = format!("{path}?fieldManager=test&force=true");
        self.request("PATCH", &path, Some(object), "application/apply-patch+yaml")
    }

    /// An object, if it exists. `kind` is as in the manifest: `apps/v1/Deployment`. An empty namespace is `default`.
    ///
    /// # Errors
    /// [`DevError::Api`], for example if the API server does not serve the kind; or [`DevError::Request`].
    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, DevError> {
        let path = self.path(kind, namespace, name)?;
        match self.request("GET", &path, None, "application/json") {
            Ok(object) => Ok(Some(object)),
            Err(DevError::Api { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes an object, as `kubectl delete --wait=false`.
    ///
    /// # Errors
    /// As [`get`](Self::get); also if the object does not exist.
    pub fn delete(&self, kind: &str, namespace: &str, name: &str) -> Result<(), DevError> {
        let path = self.path(kind, namespace, name)?;
        self.request("DELETE", &path, None, "application/json").map(drop)
    }

    /// Waits until the object, `None` if it does not exist, fulfils the condition. Returns it.
    ///
    /// # Errors
    /// [`DevError::Timeout`], or those of [`get`](Self::get).
    pub fn wait(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        until: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>, DevError> {
        let begun = Instant::now();
        loop {
            let found = self.get(kind, namespace, name)?;
            if until(found.as_ref()) {
                return Ok(found);
            }
            if begun.elapsed() >= self.wait_timeout {
                let object = found.map_or_else(|| "there is none".to_owned(), |object| format!("{object:#}"));
                let (timeout, log) = (self.wait_timeout, self.log());
                let message =
                    format!("{kind} {namespace}/{name} is not as expected after {timeout:?}: {object}\n{log}");
                return Err(DevError::Timeout(message));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a request to the API server, and returns its answer.
    ///
    /// # Errors
    /// [`DevError::Api`], or [`DevError::Request`].
    pub fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        content_type: &str,
    ) -> Result<Value, DevError> {
        let failed = |error: &dyn fmt::Display| DevError::Request(format!("{method} {path}: {error}"));
        let request = Request::builder().method(method).uri(format!("{}{path}", self.server));
        let request = request.header("Accept", "application/json").header("Content-Type", content_type);
        let answer = match body {
            Some(body) => self.agent.run(request.body(body.to_string()).map_err(|error| failed(&error))?),
            None => self.agent.run(request.body(()).map_err(|error| failed(&error))?),
        };
        let mut answer = answer.map_err(|error| failed(&error))?;
        let text = answer.body_mut().read_to_string().map_err(|error| failed(&error))?;
        if answer.status().is_success() {
            return serde_json::from_str(&text).map_err(|error| failed(&error));
        }
        let status: Value = serde_json::from_str(&text).unwrap_or_default();
        let field = |name: &str| status[name].as_str().map(str::to_owned);
        Err(DevError::Api {
            code: answer.status().as_u16(),
            reason: field("reason").unwrap_or_default(),
            message: field("message").unwrap_or(text),
        })
    }

    fn path(&self, kind: &str, namespace: &str, name: &str) -> Result<String, DevError> {
        let (version, kind_name) = kind.rsplit_once('/').unwrap_or(("", kind));
        let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let known = self.resources.lock().unwrap_or_else(PoisonError::into_inner).get(kind).cloned();
        let (plural, is_namespaced) = match known {
            Some(known) => known,
            None => {
                let found = self.request("GET", &root, None, "application/json")?;
                let resources = found["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
                let resource = resources.iter().find_map(|resource| {
                    let plural = resource["name"].as_str()?;
                    let is_it = resource["kind"] == kind_name && !plural.contains('/');
                    is_it.then(|| (plural.to_owned(), resource["namespaced"] == true))
                });
                let resource = resource.ok_or_else(|| DevError::Api {
                    code: 404,
                    reason: "NotFound".to_owned(),
                    message: format!("the API server does not serve {kind}"),
                })?;
                let mut known = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(kind.to_owned(), resource.clone());
                resource
            }
        };
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        let scope = if is_namespaced { format!("/namespaces/{}", quoted(namespace)) } else { String::new() };
        Ok(format!("{root}{scope}/{plural}/{}", quoted(name)))
    }
}

impl Process {
    /// Waits for a file.
    fn wait_for(&mut self, file: &Path, timeout: Duration) -> Result<(), DevError> {
        let begun = Instant::now();
        while !file.exists() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(DevError::Start(format!("`pintle dev` ended:\n{}", self.text())));
            }
            if begun.elapsed() >= timeout {
                return Err(DevError::Start(format!("`pintle dev` is not ready after {timeout:?}:\n{}", self.text())));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn text(&self) -> String {
        std::fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() >= GRACE {
                // Failures are ignored: there is nothing else to do.
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(PAUSE);
        }
        // The rest is removed, too.
        let _ = std::fs::remove_dir_all(self.folder.path());
    }
}

/// The API server's URL, and a client with the certificate of the kubeconfig.
fn connect(kubeconfig: &Path) -> Result<(String, Agent), Box<dyn std::error::Error>> {
    let config: Value = serde_norway::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let data = |of: &Value, name: &str| STANDARD.decode(of[name].as_str().unwrap_or_default());
    let authority = Certificate::from_pem(&data(cluster, "certificate-authority-data")?)?;
    let certificate = Certificate::from_pem(&data(user, "client-certificate-data")?)?;
    let key = PrivateKey::from_pem(&data(user, "client-key-data")?)?;
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&[authority]))
        .client_cert(Some(ClientCert::new_with_certs(&[certificate], key)))
        .build();
    let agent = Agent::config_builder()
        .tls_config(tls)
        // The server is on this machine.
        .proxy(None)
        .http_status_as_error(false)
        .timeout_global(Some(REQUEST))
        .allow_non_standard_methods(true)
        .build()
        .new_agent();
    Ok((cluster["server"].as_str().unwrap_or_default().to_owned(), agent))
}

/// Encodes a name as a path segment.
fn quoted(name: &str) -> String {
    name.bytes().fold(String::new(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(path, "%{byte:02X}");
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_part_of_a_path() {
        assert_eq!(quoted("web-1.a"), "web-1.a");
        assert_eq!(quoted("../ä?"), "..%2F%C3%A4%3F");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error_with_advice() {
        let options = DevOptions { program: Some("/nonexistent/pintle".into()), ..DevOptions::default() };
        let error = Dev::start(options).unwrap_err().to_string();
        assert!(error.starts_with("start /nonexistent/pintle: ") && error.contains("PINTLE_BIN"), "{error}");
    }
}
