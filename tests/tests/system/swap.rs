//! A plugin is loaded, swapped, rolled back, disabled and unloaded while the host runs, by each of the three ways, on the embedded and
//! on the real API server; and what is wrong with a new version leaves the old one as it is, and is told.
//!
//! The plugin is the built-in one that gives each namespace its ServiceAccount `default`, under other names: whether it works shows in
//! a namespace that is new.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::crash::Host;
use pintle_tests::{ApiClient, ControlPlane, Failure, Options, PatchKind, eventually, target_dir, workspace_dir};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// How long the host may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

const RESOURCES: &str = "/apis/pintle.dev/v1alpha1/controllerplugins";

/// The binary under test.
fn pintle() -> PathBuf {
    std::env::var_os("PINTLE_BIN").map_or_else(|| target_dir().join("debug/pintle"), PathBuf::from)
}

/// A build of the plugin: its component with a changed manifest.
fn build(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    const SECTION: &[u8] = b"pintle:manifest";
    let file = workspace_dir().join("target/plugins/serviceaccount-controller.wasm");
    let bytes = std::fs::read(&file).unwrap_or_else(|why| panic!("{}: {why}; run `cargo xtask build`", file.display()));
    let name = bytes.windows(SECTION.len()).rposition(|at| at == SECTION).unwrap();
    let json = &bytes[name + SECTION.len()..];
    let header = 1 + leb128(1 + SECTION.len() + json.len()).len() + 1;
    let mut manifest: Value = serde_json::from_slice(json).unwrap();
    change(&mut manifest);
    let json = manifest.to_string();
    let mut built = bytes[..name - header].to_vec();
    built.push(0);
    built.extend(leb128(1 + SECTION.len() + json.len()));
    built.push(u8::try_from(SECTION.len()).unwrap());
    built.extend(SECTION);
    built.extend(json.as_bytes());
    built
}

fn leb128(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
        n >>= 7;
    }
    bytes.push(u8::try_from(n).unwrap());
    bytes
}

fn version(name: &str, version: &str) -> Vec<u8> {
    build(|manifest| {
        manifest["name"] = name.into();
        manifest["version"] = version.into();
    })
}

fn digest(component: &[u8]) -> String {
    Sha256::digest(component).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the plugin needs, and no more.
fn spec() -> Value {
    json!({
        "grants": [
            {"verbs": ["list", "watch"], "kinds": ["v1/Namespace", "v1/ServiceAccount"]},
            {"verbs": ["create"], "kinds": ["v1/ServiceAccount"]},
        ],
        "strategy": {"probation": {"runs": 1, "forMs": 100}},
    })
}

fn folder() -> Result<TempDir> {
    std::fs::create_dir_all(target_dir())?;
    Ok(tempfile::Builder::new().prefix("swap-").tempdir_in(target_dir())?)
}

/// A host at work on some cluster.
struct Stage {
    client: ApiClient,
    folder: TempDir,
    socket: PathBuf,
    _host: Host,
    n_namespaces: AtomicU32,
}

impl Stage {
    async fn start(name: &str, kubeconfig: &str, folder: TempDir, socket: PathBuf) -> Result<Stage> {
        let client = ApiClient::from_kubeconfig_text(kubeconfig)?;
        std::fs::create_dir_all(folder.path().join("plugins/below"))?;
        let flags = [
            format!("--admin-socket={}", socket.display()),
            format!("--plugin-dir={}", folder.path().join("plugins").display()),
            "--install-crd".to_owned(),
        ];
        let host = Host::start_with(name, kubeconfig, &["namespace-controller"], &flags)?;
        let stage = Stage { client, folder, socket, _host: host, n_namespaces: AtomicU32::new(0) };
        eventually(PATIENCE, "the host to answer", async || stage.plugin(&["list"]).map(Some)).await?;
        Ok(stage)
    }

    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Runs `pintle plugin ... -o json`.
    fn plugin(&self, arguments: &[&str]) -> Result<Value> {
        let output = Command::new(pintle())
            .arg("plugin")
            .args(arguments)
            .args(["-o", "json", "--admin-socket"])
            .arg(&self.socket)
            .output()
            .context("run pintle plugin")?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            ensure!(output.status.code() == Some(1), "{arguments:?}: {}: {errors}", output.status);
            ensure!(errors.lines().count() == 1, "an error is one line: {errors}");
            bail!("{}", errors.trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// What the admin API says of a plugin; null if it does not run.
    fn described(&self, name: &str) -> Result<Value> {
        Ok(self.plugin(&["describe", name])?["plugin"].take())
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        let description = format!("{name}: {what}");
        eventually(PATIENCE, description, async || {
            let plugin = self.described(name)?;
            ensure!(holds(&plugin), "{plugin}");
            Ok(Some(()))
        })
        .await
    }

    async fn until_runs(&self, name: &str, component: &[u8]) -> Result<()> {
        let digest = digest(component);
        self.until(name, &format!("{digest} runs"), |plugin| plugin["current"]["digest"] == digest.as_str()).await
    }

    /// A new namespace gets its ServiceAccount; nobody else but the plugin makes it.
    async fn works(&self) -> Result<()> {
        let namespace = self.namespace().await?;
        self.has_account(&namespace).await
    }

    async fn namespace(&self) -> Result<String> {
        let namespace = format!("swap-{}", self.n_namespaces.fetch_add(1, Ordering::Relaxed));
        self.client.create_namespace(&namespace).await?;
        Ok(namespace)
    }

    fn account(namespace: &str) -> String {
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/default")
    }

    async fn has_account(&self, namespace: &str) -> Result<()> {
        eventually(PATIENCE, format!("the ServiceAccount of {namespace}"), async || {
            self.client.find(&Self::account(namespace)).await
        })
        .await
        .map(drop)
    }

    /// Makes a file or a link and leaves it in the place of a file, at once.
    fn put(&self, file: &str, make: impl FnOnce(&Path)) {
        let new = self.at("new");
        make(&new);
        std::fs::rename(new, self.at(file)).unwrap();
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        self.put(file, |at| std::fs::write(at, bytes).unwrap());
    }
}

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Admin,
    Folder,
    Resource,
}

impl Way {
    fn file(self, name: &str) -> String {
        match self {
            Self::Admin => format!("{name}.wasm"),
            Self::Folder => format!("plugins/{name}.wasm"),
            // The folder takes no files of folders in it.
            Self::Resource => format!("plugins/below/{name}.wasm"),
        }
    }

    /// Asks for what lies in the file, with this spec.
    async fn ask(self, stage: &Stage, name: &str, spec: &Value) -> Result<()> {
        match self {
            Self::Admin => {
                let (file, spec_file) = (stage.at(&self.file(name)), stage.at("spec.yaml"));
                std::fs::write(&spec_file, spec.to_string())?;
                let (file, spec_file) = (file.display().to_string(), spec_file.display().to_string());
                let verb: &[&str] = if stage.described(name).is_ok() { &["swap", name] } else { &["load"] };
                stage.plugin(&[verb, &[&file, "--spec", &spec_file]].concat()).map(drop)
            }
            Self::Folder => {
                stage.write(&format!("plugins/{name}.yaml"), spec.to_string().as_bytes());
                Ok(())
            }
            Self::Resource => {
                let mut spec = spec.clone();
                spec["source"] = json!({"file": format!("below/{name}.wasm")});
                self.resource(stage, name, &spec).await
            }
        }
    }

    async fn resource(self, stage: &Stage, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": name}, "spec": spec,
        });
        eventually(PATIENCE, "the resource to be written", async || {
            let path = format!("{RESOURCES}/{name}");
            match stage.client.find(&path).await? {
                None => stage.client.create(RESOURCES, &object).await.map(Some),
                Some(_) => {
                    let replace = json!([{"op": "replace", "path": "/spec", "value": spec}]);
                    stage.client.patch(&path, PatchKind::Json, &replace).await.map(Some)
                }
            }
        })
        .await
        .map(drop)
    }

    /// A version is asked for, and runs in the end.
    async fn take(self, stage: &Stage, name: &str, component: &[u8], spec: &Value) -> Result<()> {
        stage.write(&self.file(name), component);
        self.ask(stage, name, spec).await?;
        stage.until_runs(name, component).await?;
        stage.works().await
    }

    /// What is asked for is refused with this reason, by a message that says this.
    async fn refused(self, stage: &Stage, name: &str, spec: &Value, reason: &str, says: &str) -> Result<()> {
        let told = match self {
            Self::Admin => {
                let Err(why) = self.ask(stage, name, spec).await else { bail!("{name}: {reason} was taken") };
                why.to_string()
            }
            Self::Folder => {
                self.ask(stage, name, spec).await?;
                let description = format!("a problem {reason} with {name}");
                eventually(PATIENCE, description, async || {
                    let found = stage.plugin(&["describe", name])?;
                    let problem = &found["problems"][0];
                    // What was wrong before may have had the same reason.
                    let told = problem["message"].as_str().unwrap_or_default();
                    ensure!(problem["reason"] == reason && told.contains(says), "{found}");
                    Ok(Some(told.to_owned()))
                })
                .await?
            }
            Self::Resource => {
                self.ask(stage, name, spec).await?;
                let description = format!("{name} not to be accepted: {reason}");
                eventually(PATIENCE, description, async || {
                    let object = stage.client.get(&format!("{RESOURCES}/{name}")).await?;
                    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
                    let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted");
                    let accepted = accepted.cloned().unwrap_or_default();
                    let told = accepted["message"].as_str().unwrap_or_default();
                    ensure!(accepted["status"] == "False" && accepted["reason"] == reason, "{object}");
                    ensure!(told.contains(says), "{object}");
                    ensure!(object["status"]["observedGeneration"] == object["metadata"]["generation"], "{object}");
                    Ok(Some(told.to_owned()))
                })
                .await?
            }
        };
        ensure!(told.contains(says), "{told:?} does not say {says:?}");
        Ok(())
    }

    async fn remove(self, stage: &Stage, name: &str) -> Result<()> {
        match self {
            Self::Admin => drop(stage.plugin(&["unload", name])?),
            Self::Folder => {
                let why = stage.plugin(&["unload", name]).unwrap_err().to_string();
                ensure!(why.contains("Claimed") && why.contains(&format!("{name}.wasm")), "{why}");
                std::fs::remove_file(stage.at(&format!("plugins/{name}.yaml")))?;
                std::fs::remove_file(stage.at(&self.file(name)))?;
            }
            Self::Resource => drop(stage.client.delete(&format!("{RESOURCES}/{name}"), None).await?),
        }
        eventually(PATIENCE, format!("{name} to be unloaded"), async || {
            let listing = stage.plugin(&["list"])?;
            let all = ["items", "problems"].map(|part| listing[part].as_array().cloned().unwrap_or_default());
            let ours = |entry: &Value| entry["name"] == name || entry["plugin"] == name;
            ensure!(!all.iter().flatten().any(ours), "{listing}");
            Ok(Some(()))
        })
        .await
    }
}

/// The life of a plugin.
async fn life(stage: &Stage, way: Way, name: &str) -> Result<()> {
    let (first, second) = (version(name, "1.0.1"), version(name, "1.0.2"));
    way.take(stage, name, &first, &spec()).await?;
    way.take(stage, name, &second, &spec()).await?;
    let plugin = stage.described(name)?;
    ensure!(plugin["previous"]["digest"] == digest(&first).as_str(), "{plugin}");
    ensure!(plugin["source"] == format!("{way:?}").to_lowercase(), "{plugin}");

    // By hand, whoever brought the plugin.
    stage.plugin(&["rollback", name])?;
    stage.until_runs(name, &first).await?;
    stage.works().await?;
    way.take(stage, name, &version(name, "1.0.3"), &spec()).await?;

    let mut disabled = spec();
    disabled["disabled"] = true.into();
    let phase = |phase: &'static str| move |plugin: &Value| plugin["phase"] == phase;
    if way == Way::Admin {
        stage.plugin(&["disable", name, "--why", "to see"])?;
    } else {
        way.ask(stage, name, &disabled).await?;
    }
    stage.until(name, "disabled", phase("Disabled")).await?;
    let waiting = stage.namespace().await?;
    if way == Way::Admin {
        ensure!(stage.client.find(&Stage::account(&waiting)).await?.is_none(), "a disabled plugin has written");
        stage.plugin(&["enable", name])?;
    } else {
        way.ask(stage, name, &spec()).await?;
        stage.plugin(&["enable", name])?;
    }
    stage.until(name, "enabled", phase("Running")).await?;
    stage.has_account(&waiting).await
}

/// Each wrong version leaves the running one as it is, at work, and is told.
async fn wrong_versions(stage: &Stage, way: Way, name: &str) -> Result<()> {
    let good = version(name, "2.0.0");
    way.take(stage, name, &good, &spec()).await?;
    let file = way.file(name);
    let mut tampered = spec();
    tampered["digest"] = format!("sha256:{}", digest(&good)).into();
    let unreadable = if way == Way::Admin { "" } else { "Unreadable" };

    stage.put(&file, |at| std::os::unix::fs::symlink("nowhere", at).unwrap());
    way.refused(stage, name, &spec(), unreadable, "No such file").await?;
    let folder = stage.at("plugins/below");
    stage.put(&file, |at| std::os::unix::fs::symlink(folder, at).unwrap());
    way.refused(stage, name, &spec(), unreadable, "it is not a regular file").await?;
    if way != Way::Admin {
        // Whoever follows the file must know of the digest before there is something to take.
        way.refused(stage, name, &tampered, unreadable, "it is not a regular file").await?;
    }
    stage.write(&file, &version(name, "2.0.1"));
    way.refused(stage, name, &tampered, "DigestMismatch", "was tampered with").await?;
    stage.write(
        &file,
        &build(|manifest| {
            manifest["name"] = name.into();
            manifest["contract"] = "0.0".into();
        }),
    );
    way.refused(stage, name, &spec(), "BadComponent", "version \"0.0\" is not known to this host").await?;
    stage.write(
        &file,
        &build(|manifest| {
            manifest["name"] = name.into();
            manifest["grants"] = json!([{"verbs": ["delete"], "kinds": ["v1/Secret"]}]);
        }),
    );
    way.refused(stage, name, &spec(), "NotGranted", "v1/Secret").await?;
    stage.write(&file, &version("another", "1"));
    way.refused(stage, name, &spec(), "OtherPlugin", "another").await?;
    let half = version(name, "2.0.2");
    stage.write(&file, &half[..half.len() / 2]);
    way.refused(stage, name, &spec(), "BadComponent", "").await?;

    let plugin = stage.described(name)?;
    ensure!(plugin["current"]["digest"] == digest(&good).as_str(), "{plugin}");
    ensure!(plugin["phase"] == "Running" && plugin["nFaults"] == 0, "{plugin}");
    stage.works().await?;
    // The whole file is another one than the half.
    way.take(stage, name, &half, &spec()).await
}

/// A component from a ConfigMap; what is built in gives way to a resource and comes back; a file waits below a resource.
async fn sources(stage: &Stage) -> Result<()> {
    let name = "swap-map";
    let put = async |component: &[u8]| {
        let data = base64::engine::general_purpose::STANDARD.encode(component);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": {"component": data},
        });
        stage.client.apply(&format!("/api/v1/namespaces/default/configmaps/{name}"), "test", true, &map).await
    };
    let first = version(name, "1.0.1");
    let mut from_map = spec();
    from_map["source"] = json!({"configMap": {"namespace": "default", "name": name, "key": "component"}});
    Way::Resource.resource(stage, name, &from_map).await?;
    put(&first).await?;
    stage.until_runs(name, &first).await?;
    let second = version(name, "1.0.2");
    put(&second).await?;
    stage.until_runs(name, &second).await?;
    stage.works().await?;

    // A file of the same name waits.
    let third = version(name, "1.0.3");
    stage.write(&format!("plugins/{name}.yaml"), spec().to_string().as_bytes());
    stage.write(&format!("plugins/{name}.wasm"), &third);
    eventually(PATIENCE, "the file to be told of", async || {
        let found = stage.plugin(&["describe", name])?;
        ensure!(found["problems"][0]["reason"] == "Claimed", "{found}");
        Ok(Some(()))
    })
    .await?;
    stage.client.delete(&format!("{RESOURCES}/{name}"), None).await?;
    stage.until_runs(name, &third).await?;
    Way::Folder.remove(stage, name).await?;

    let builtin = "namespace-controller";
    Way::Resource.resource(stage, builtin, &json!({"source": {"builtin": builtin}})).await?;
    let origin = |is: String| move |plugin: &Value| plugin["current"]["origin"] == is.as_str();
    let by_resource = format!("ControllerPlugin {builtin} (built-in {builtin})");
    stage.until(builtin, "run by its resource", origin(by_resource)).await?;
    stage.client.delete(&format!("{RESOURCES}/{builtin}"), None).await?;
    stage.until(builtin, "back", origin(format!("built-in {builtin}"))).await
}

/// What cannot be a spec is refused by the API server, or by the host with the field.
async fn wrong_resources(stage: &Stage) -> Result<()> {
    let object = |spec: Value| json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": "wrong"}, "spec": spec});
    let why = stage.client.create(RESOURCES, &object(json!({}))).await.err();
    ensure!(why.as_ref().and_then(Failure::code_of) == Some(422), "{why:?}");
    let specs = [
        (json!({"source": {}}), "name one of file, builtin, configMap"),
        (json!({"source": {"builtin": "a", "file": "b"}}), "name one of file, builtin, configMap"),
        (json!({"source": {"builtin": "nobody"}}), "it carries deployment-controller"),
        (json!({"source": {"file": "../../etc/passwd"}}), "leads out of the plugin folder"),
    ];
    for (spec, says) in specs {
        match stage.client.create(RESOURCES, &object(spec.clone())).await {
            // A server that counts properties refuses by itself.
            Err(why) if Failure::code_of(&why) == Some(422) => continue,
            created => drop(created?),
        }
        eventually(PATIENCE, format!("the refusal of {spec}"), async || {
            let object = stage.client.get(&format!("{RESOURCES}/wrong")).await?;
            let accepted = &object["status"]["conditions"][0];
            let told = accepted["message"].as_str().unwrap_or_default();
            ensure!(accepted["reason"] == "Invalid" && told.contains(says), "{object}");
            ensure!(object["status"]["phase"] == "Refused", "{object}");
            Ok(Some(()))
        })
        .await?;
        if says != "leads out of the plugin folder" {
            stage.client.delete(&format!("{RESOURCES}/wrong"), None).await?;
        }
    }
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let before = version(&stage.client.get(&format!("{RESOURCES}/wrong")).await?);
    // Other statuses are written meanwhile; this one must stay as it is.
    life(stage, Way::Resource, "swap-beside").await?;
    Way::Resource.remove(stage, "swap-beside").await?;
    let after = version(&stage.client.get(&format!("{RESOURCES}/wrong")).await?);
    ensure!(before == after, "a status that says the same was written again");
    stage.client.delete(&format!("{RESOURCES}/wrong"), None).await.map(drop)
}

/// A new version is another one's shadow first, and success is told only once it is proven; the spec stays as it was.
async fn shadow(stage: &Stage, name: &str) -> Result<()> {
    Way::Admin.take(stage, name, &version(name, "1.0.0"), &spec()).await?;
    let ([second, third], file) = ([version(name, "1.0.1"), version(name, "1.0.2")], stage.at("shadow.wasm"));
    std::fs::write(&file, &second)?;
    let file = file.display().to_string();
    let swap = ["swap", name, &file, "--shadow", "5", "--shadow-for", "500ms", "--probation-runs", "0"];
    let report = stage.plugin(&[&swap[..], &["--probation-for", "50ms", "--wait", "proven"]].concat())?;
    ensure!(report["result"] == "Proven" && report["to"]["digest"] == digest(&second).as_str(), "{report}");
    let diff = stage.plugin(&["diff", name])?;
    ensure!(diff["shadow"]["nDifferences"] == 0, "{diff}");
    // Without a spec it has the grants of the version before, and without these it would be refused.
    std::fs::write(&file, &third)?;
    let report = stage.plugin(&["swap", name, &file, "--digest", &digest(&third)])?;
    ensure!(report["result"] == "Switched", "{report}");
    stage.works().await?;
    Way::Admin.remove(stage, name).await
}

async fn by_each_way(name: &str, kubeconfig: &str) -> Result<()> {
    let folder = folder()?;
    let socket = folder.path().join("admin.sock");
    let stage = Stage::start(name, kubeconfig, folder, socket).await?;
    for (way, plugin) in [(Way::Admin, "swap-admin"), (Way::Folder, "swap-folder"), (Way::Resource, "swap-resource")] {
        life(&stage, way, plugin).await.with_context(|| format!("the life of a plugin by {way:?}"))?;
        wrong_versions(&stage, way, plugin).await.with_context(|| format!("wrong versions by {way:?}"))?;
        way.remove(&stage, plugin).await?;
    }
    shadow(&stage, "swap-shadow").await.context("a shadow")?;
    sources(&stage).await.context("sources")?;
    wrong_resources(&stage).await.context("wrong resources")
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_change_by_each_way_on_the_embedded_cluster() -> Result<()> {
    let cluster = SimCluster::start(SimConfig::default()).await?;
    by_each_way("swap-sim", &cluster.kubeconfig()).await?;
    cluster.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_change_by_each_way_on_a_real_cluster() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    by_each_way("swap-real", &std::fs::read_to_string(plane.kubeconfig())?).await?;
    plane.stop().await;
    Ok(())
}

/// Root may let another user through to the socket, and the host still does not answer. Needs root, to be another user.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_not_answered() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let cluster = SimCluster::start(SimConfig::default()).await?;
    // One that others may enter, which folders above that of the build need not be.
    let open = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir()?;
    let (binary, socket) = (open.path().join("pintle"), open.path().join("admin.sock"));
    std::fs::copy(pintle(), &binary)?;
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755))?;
    let stage = Stage::start("swap-user", &cluster.kubeconfig(), folder()?, socket.clone()).await?;
    let as_nobody = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        let output = command.args(["plugin", "list", "--admin-socket"]).arg(&socket).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap().replace(&socket.display().to_string(), "$SOCKET")
    };
    assert_eq!(as_nobody(), "pintle: you may not use the socket $SOCKET: run as root, or as uid 0\n");
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666))?;
    assert_eq!(
        as_nobody(),
        "pintle: Forbidden: uid 65534 may not use the admin API of this host; run as root, or as uid 0\n"
    );
    stage.plugin(&["list"])?;
    cluster.shutdown().await;
    Ok(())
}
