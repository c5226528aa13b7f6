//! Each of the three plugin sources loads, swaps, rolls back, disables and unloads a plugin of a running host, on the embedded and on
//! the real API server. A faulty version is reported, and the running one continues.
//!
//! The plugin is the built-in one that gives each namespace its ServiceAccount `default`, under other names. A new namespace shows
//! whether it works.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use pintle_tests::{
    ApiClient, Failure, HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, pintle, target_dir,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

const RESOURCES: &str = "/apis/pintle.dev/v1alpha1/controllerplugins";

/// A build of the plugin: its component with a changed manifest.
fn build(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    components::with_manifest(&components::plugin("serviceaccount-controller").unwrap(), change).unwrap()
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

/// A running host, and the folder of its plugins.
struct Fixture {
    client: ApiClient,
    folder: TempDir,
    host: HostProcess,
    n_namespaces: AtomicU32,
}

impl Fixture {
    async fn start(cluster: &TestCluster, flags: &[String]) -> Result<Fixture> {
        let folder = tempfile::Builder::new().prefix("swap-").tempdir_in(target_dir())?;
        std::fs::create_dir_all(folder.path().join("plugins/below"))?;
        let own = [
            HostProcess::controllers(&["namespace-controller", "root-ca-certificate-publisher-controller"]),
            format!("--plugin-dir={}", folder.path().join("plugins").display()),
            "--install-crd".to_owned(),
        ];
        let host = cluster.host(&[&own, flags].concat())?;
        host.answers().await?;
        Ok(Fixture { client: cluster.client.clone(), folder, host, n_namespaces: AtomicU32::new(0) })
    }

    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Runs `pintle plugin ... -o json`.
    fn plugin(&self, arguments: &[&str]) -> Result<Value> {
        self.host.plugin(arguments)
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

    /// A new namespace gets its ServiceAccount; only the plugin creates it.
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

/// A plugin source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Admin,
    Folder,
    Resource,
}

impl Source {
    fn file(self, name: &str) -> String {
        match self {
            Self::Admin => format!("{name}.wasm"),
            Self::Folder => format!("plugins/{name}.wasm"),
            // The folder takes no files of folders in it.
            Self::Resource => format!("plugins/below/{name}.wasm"),
        }
    }

    /// Requests the component of the file, with this spec.
    async fn request(self, fixture: &Fixture, name: &str, spec: &Value) -> Result<()> {
        match self {
            Self::Admin => {
                let (file, spec_file) = (fixture.at(&self.file(name)), fixture.at("spec.yaml"));
                std::fs::write(&spec_file, spec.to_string())?;
                let (file, spec_file) = (file.display().to_string(), spec_file.display().to_string());
                let verb: &[&str] = if fixture.described(name).is_ok() { &["swap", name] } else { &["load"] };
                fixture.plugin(&[verb, &[&file, "--spec", &spec_file]].concat()).map(drop)
            }
            Self::Folder => {
                fixture.write(&format!("plugins/{name}.yaml"), spec.to_string().as_bytes());
                Ok(())
            }
            Self::Resource => {
                let mut spec = spec.clone();
                spec["source"] = json!({"file": format!("below/{name}.wasm")});
                self.resource(fixture, name, &spec).await
            }
        }
    }

    async fn resource(self, fixture: &Fixture, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": name}, "spec": spec,
        });
        eventually(PATIENCE, "the resource to be written", async || {
            let path = format!("{RESOURCES}/{name}");
            match fixture.client.find(&path).await? {
                None => fixture.client.create(RESOURCES, &object).await.map(Some),
                Some(_) => {
                    let replace = json!([{"op": "replace", "path": "/spec", "value": spec}]);
                    fixture.client.patch(&path, PatchKind::Json, &replace).await.map(Some)
                }
            }
        })
        .await
        .map(drop)
    }

    /// A version is requested, and runs in the end.
    async fn accept(self, fixture: &Fixture, name: &str, component: &[u8], spec: &Value) -> Result<()> {
        fixture.write(&self.file(name), component);
        self.request(fixture, name, spec).await?;
        fixture.until_runs(name, component).await?;
        fixture.works().await
    }

    /// The request is rejected with this reason; the message contains this text.
    async fn rejects(self, fixture: &Fixture, name: &str, spec: &Value, reason: &str, says: &str) -> Result<()> {
        let message = match self {
            Self::Admin => {
                let Err(why) = self.request(fixture, name, spec).await else { bail!("{name}: {reason} was taken") };
                why.to_string()
            }
            Self::Folder => {
                self.request(fixture, name, spec).await?;
                let description = format!("a problem {reason} with {name}");
                eventually(PATIENCE, description, async || {
                    let found = fixture.plugin(&["describe", name])?;
                    let problem = &found["problems"][0];
                    // What was wrong before may have had the same reason.
                    let told = problem["message"].as_str().unwrap_or_default();
                    ensure!(problem["reason"] == reason && told.contains(says), "{found}");
                    Ok(Some(told.to_owned()))
                })
                .await?
            }
            Self::Resource => {
                self.request(fixture, name, spec).await?;
                let description = format!("{name} not to be accepted: {reason}");
                eventually(PATIENCE, description, async || {
                    let object = fixture.client.get(&format!("{RESOURCES}/{name}")).await?;
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
        ensure!(message.contains(says), "{message:?} does not contain {says:?}");
        Ok(())
    }

    async fn remove(self, fixture: &Fixture, name: &str) -> Result<()> {
        match self {
            Self::Admin => drop(fixture.plugin(&["unload", name])?),
            Self::Folder => {
                let why = fixture.plugin(&["unload", name]).unwrap_err().to_string();
                ensure!(why.contains("Claimed") && why.contains(&format!("{name}.wasm")), "{why}");
                std::fs::remove_file(fixture.at(&format!("plugins/{name}.yaml")))?;
                std::fs::remove_file(fixture.at(&self.file(name)))?;
            }
            Self::Resource => drop(fixture.client.delete(&format!("{RESOURCES}/{name}"), None).await?),
        }
        eventually(PATIENCE, format!("{name} to be unloaded"), async || {
            let listing = fixture.plugin(&["list"])?;
            let all = ["items", "problems"].map(|part| listing[part].as_array().cloned().unwrap_or_default());
            let ours = |entry: &Value| entry["name"] == name || entry["plugin"] == name;
            ensure!(!all.iter().flatten().any(ours), "{listing}");
            Ok(Some(()))
        })
        .await
    }
}

/// The life of a plugin.
async fn life(fixture: &Fixture, source: Source, name: &str) -> Result<()> {
    let (first, second) = (version(name, "1.0.1"), version(name, "1.0.2"));
    source.accept(fixture, name, &first, &spec()).await?;
    source.accept(fixture, name, &second, &spec()).await?;
    let plugin = fixture.described(name)?;
    ensure!(plugin["previous"]["digest"] == digest(&first).as_str(), "{plugin}");
    ensure!(plugin["source"] == format!("{source:?}").to_lowercase(), "{plugin}");

    // By hand, whoever brought the plugin.
    fixture.plugin(&["rollback", name])?;
    fixture.until_runs(name, &first).await?;
    fixture.works().await?;
    source.accept(fixture, name, &version(name, "1.0.3"), &spec()).await?;

    let mut disabled = spec();
    disabled["disabled"] = true.into();
    let phase = |phase: &'static str| move |plugin: &Value| plugin["phase"] == phase;
    if source == Source::Admin {
        fixture.plugin(&["disable", name, "--why", "to see"])?;
    } else {
        source.request(fixture, name, &disabled).await?;
    }
    fixture.until(name, "disabled", phase("Disabled")).await?;
    let waiting = fixture.namespace().await?;
    if source == Source::Admin {
        ensure!(fixture.client.find(&Fixture::account(&waiting)).await?.is_none(), "a disabled plugin has written");
        fixture.plugin(&["enable", name])?;
    } else {
        source.request(fixture, name, &spec()).await?;
        fixture.plugin(&["enable", name])?;
    }
    fixture.until(name, "enabled", phase("Running")).await?;
    fixture.has_account(&waiting).await
}

/// Each faulty version is reported, and the running one continues to work.
async fn wrong_versions(fixture: &Fixture, source: Source, name: &str) -> Result<()> {
    let good = version(name, "2.0.0");
    source.accept(fixture, name, &good, &spec()).await?;
    let file = source.file(name);
    let mut tampered = spec();
    tampered["digest"] = format!("sha256:{}", digest(&good)).into();
    let unreadable = if source == Source::Admin { "" } else { "Unreadable" };

    fixture.put(&file, |at| std::os::unix::fs::symlink("nowhere", at).unwrap());
    source.rejects(fixture, name, &spec(), unreadable, "No such file").await?;
    let folder = fixture.at("plugins/below");
    fixture.put(&file, |at| std::os::unix::fs::symlink(folder, at).unwrap());
    source.rejects(fixture, name, &spec(), unreadable, "it is not a regular file").await?;
    if source != Source::Admin {
        // Whoever follows the file must know of the digest before there is something to take.
        source.rejects(fixture, name, &tampered, unreadable, "it is not a regular file").await?;
    }
    fixture.write(&file, &version(name, "2.0.1"));
    source.rejects(fixture, name, &tampered, "DigestMismatch", "was tampered with").await?;
    fixture.write(
        &file,
        &build(|manifest| {
            manifest["name"] = name.into();
            manifest["contract"] = "0.0".into();
        }),
    );
    source.rejects(fixture, name, &spec(), "BadComponent", "contract \"0.0\", and this host supports 0.2").await?;
    fixture.write(
        &file,
        &build(|manifest| {
            manifest["name"] = name.into();
            manifest["grants"] = json!([{"verbs": ["delete"], "kinds": ["v1/Secret"]}]);
        }),
    );
    source.rejects(fixture, name, &spec(), "NotGranted", "v1/Secret").await?;
    fixture.write(&file, &version("another", "1"));
    source.rejects(fixture, name, &spec(), "OtherPlugin", "another").await?;
    let half = version(name, "2.0.2");
    fixture.write(&file, &half[..half.len() / 2]);
    source.rejects(fixture, name, &spec(), "BadComponent", "").await?;

    let plugin = fixture.described(name)?;
    ensure!(plugin["current"]["digest"] == digest(&good).as_str(), "{plugin}");
    ensure!(plugin["phase"] == "Running" && plugin["nFaults"] == 0, "{plugin}");
    fixture.works().await?;
    // The whole file is another one than the half.
    source.accept(fixture, name, &half, &spec()).await
}

/// A component from a ConfigMap; what is built in gives source to a resource and comes back; a file waits below a resource.
async fn sources(fixture: &Fixture) -> Result<()> {
    let name = "swap-map";
    let put = async |component: &[u8]| {
        let data = base64::engine::general_purpose::STANDARD.encode(component);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": {"component": data},
        });
        fixture.client.apply(&format!("/api/v1/namespaces/default/configmaps/{name}"), "test", true, &map).await
    };
    let first = version(name, "1.0.1");
    let mut from_map = spec();
    from_map["source"] = json!({"configMap": {"namespace": "default", "name": name, "key": "component"}});
    Source::Resource.resource(fixture, name, &from_map).await?;
    put(&first).await?;
    let refused = async |reason: &str, says: &str| {
        eventually(PATIENCE, format!("{name} to be refused: {reason}"), async || {
            let object = fixture.client.get(&format!("{RESOURCES}/{name}")).await?;
            let accepted = &object["status"]["conditions"][0];
            let told = accepted["message"].as_str().unwrap_or_default();
            ensure!(accepted["reason"] == reason && told.contains(says), "{object}");
            Ok(Some(()))
        })
        .await
    };
    refused("Unpinned", "whoever can edit the ConfigMap would choose what runs; set spec.digest").await?;
    from_map["digest"] = digest(&first).into();
    Source::Resource.resource(fixture, name, &from_map).await?;
    fixture.until_runs(name, &first).await?;
    // Somebody who may write to the namespace changes it; the operator of the plugin decides.
    let second = version(name, "1.0.2");
    put(&second).await?;
    refused("DigestMismatch", "is required").await?;
    ensure!(fixture.described(name)?["current"]["digest"] == digest(&first).as_str());
    from_map["digest"] = digest(&second).into();
    Source::Resource.resource(fixture, name, &from_map).await?;
    fixture.until_runs(name, &second).await?;
    fixture.works().await?;

    // A file of the same name waits.
    let third = version(name, "1.0.3");
    fixture.write(&format!("plugins/{name}.yaml"), spec().to_string().as_bytes());
    fixture.write(&format!("plugins/{name}.wasm"), &third);
    eventually(PATIENCE, "the file to be told of", async || {
        let found = fixture.plugin(&["describe", name])?;
        ensure!(found["problems"][0]["reason"] == "Claimed", "{found}");
        Ok(Some(()))
    })
    .await?;
    fixture.client.delete(&format!("{RESOURCES}/{name}"), None).await?;
    fixture.until_runs(name, &third).await?;
    Source::Folder.remove(fixture, name).await?;

    let builtin = "namespace-controller";
    // With more than the host writes for it.
    let declared = json!({"source": {"builtin": builtin}, "disabled": false});
    Source::Resource.resource(fixture, builtin, &declared).await?;
    let origin = |is: String| move |plugin: &Value| plugin["current"]["origin"] == is.as_str();
    let by_resource = format!("ControllerPlugin {builtin} (built-in {builtin})");
    fixture.until(builtin, "run by its resource", origin(by_resource)).await?;
    fixture.client.delete(&format!("{RESOURCES}/{builtin}"), None).await?;
    fixture.until(builtin, "back", origin(format!("built-in {builtin}"))).await
}

/// The API server rejects what cannot be a spec, or the host does and names the field.
async fn wrong_resources(fixture: &Fixture) -> Result<()> {
    let object = |spec: Value| json!({"apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": "wrong"}, "spec": spec});
    let why = fixture.client.create(RESOURCES, &object(json!({}))).await.err();
    ensure!(why.as_ref().and_then(Failure::code_of) == Some(422), "{why:?}");
    let specs = [
        (json!({"source": {}}), "name one of file, builtin, configMap"),
        (json!({"source": {"builtin": "a", "file": "b"}}), "name one of file, builtin, configMap"),
        (json!({"source": {"builtin": "nobody"}}), "it carries "),
        (json!({"source": {"file": "../../etc/passwd"}}), "leads out of the plugin folder"),
    ];
    // A file of the host, and by whom it would be readable afterwards: everybody.
    let publisher = "root-ca-certificate-publisher-controller";
    let token = json!({"source": {"builtin": publisher}, "config": {"rootCa": {"file": "/etc/hostname"}}});
    Source::Resource.resource(fixture, publisher, &token).await?;
    eventually(PATIENCE, "the refusal of a file", async || {
        let object = fixture.client.get(&format!("{RESOURCES}/{publisher}")).await?;
        let accepted = &object["status"]["conditions"][0];
        let told = accepted["message"].as_str().unwrap_or_default();
        ensure!(accepted["reason"] == "BadSpec" && told.contains("only on the command line of the host"), "{object}");
        Ok(Some(()))
    })
    .await?;
    fixture.client.delete(&format!("{RESOURCES}/{publisher}"), None).await?;
    for (spec, says) in specs {
        match fixture.client.create(RESOURCES, &object(spec.clone())).await {
            // A server that counts properties refuses by itself.
            Err(why) if Failure::code_of(&why) == Some(422) => continue,
            created => drop(created?),
        }
        eventually(PATIENCE, format!("the refusal of {spec}"), async || {
            let object = fixture.client.get(&format!("{RESOURCES}/wrong")).await?;
            let accepted = &object["status"]["conditions"][0];
            let told = accepted["message"].as_str().unwrap_or_default();
            ensure!(accepted["reason"] == "Invalid" && told.contains(says), "{object}");
            ensure!(object["status"]["phase"] == "Refused", "{object}");
            Ok(Some(()))
        })
        .await?;
        if says != "leads out of the plugin folder" {
            fixture.client.delete(&format!("{RESOURCES}/wrong"), None).await?;
        }
    }
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let before = version(&fixture.client.get(&format!("{RESOURCES}/wrong")).await?);
    // Other statuses are written meanwhile; this one must stay as it is.
    life(fixture, Source::Resource, "swap-beside").await?;
    Source::Resource.remove(fixture, "swap-beside").await?;
    let after = version(&fixture.client.get(&format!("{RESOURCES}/wrong")).await?);
    ensure!(before == after, "a status that says the same was written again");
    fixture.client.delete(&format!("{RESOURCES}/wrong"), None).await.map(drop)
}

/// A new version runs as a shadow first, success is reported once it is proven, and the spec stays as it was.
async fn shadow(fixture: &Fixture, name: &str) -> Result<()> {
    Source::Admin.accept(fixture, name, &version(name, "1.0.0"), &spec()).await?;
    let ([second, third], file) = ([version(name, "1.0.1"), version(name, "1.0.2")], fixture.at("shadow.wasm"));
    std::fs::write(&file, &second)?;
    let file = file.display().to_string();
    let swap = ["swap", name, &file, "--shadow", "5", "--shadow-for", "500ms", "--probation-runs", "0"];
    let report = fixture.plugin(&[&swap[..], &["--probation-for", "50ms", "--wait", "proven"]].concat())?;
    ensure!(report["result"] == "Proven" && report["to"]["digest"] == digest(&second).as_str(), "{report}");
    let diff = fixture.plugin(&["diff", name])?;
    ensure!(diff["shadow"]["nDifferences"] == 0, "{diff}");
    // Without a spec it has the grants of the version before, and without these it would be refused.
    std::fs::write(&file, &third)?;
    let report = fixture.plugin(&["swap", name, &file, "--digest", &digest(&third)])?;
    ensure!(report["result"] == "Switched", "{report}");
    fixture.works().await?;
    waiting(fixture, name)?;
    Source::Admin.remove(fixture, name).await
}

/// An idle plugin is never proven by its runs: the command says what it waits for, and ends at its --timeout.
fn waiting(fixture: &Fixture, name: &str) -> Result<()> {
    let file = fixture.at("waiting.wasm");
    std::fs::write(&file, version(name, "9.0.0"))?;
    let file = file.display().to_string();
    // Compiled code is cached from here on.
    fixture.plugin(&["swap", name, &file])?;
    let mut command = pintle::command(["plugin", "swap", name, &file, "--probation-runs", "100000"])?;
    command.args(["--wait", "proven", "--timeout", "30s", "--admin-socket"]).arg(fixture.host.socket());
    let answer = pintle::Answer::of(&mut command)?;
    ensure!(answer.code == Some(1), "{answer:?}");
    let told: Vec<&str> = answer.errors.lines().collect();
    let probation =
        told.iter().find(|line| line.starts_with("on probation: ")).context("no line about the probation")?;
    ensure!(probation.contains(" of 100000 runs, at least "), "{probation}");
    let last = told.last().context("no error")?;
    ensure!(last.contains("no result within 30s (--timeout); waited for: on probation: "), "{last}");
    ensure!(fixture.described(name)?["stage"] == "Probation", "the host goes on");
    Ok(())
}

async fn changes_from_each_source(cluster: TestCluster) -> Result<()> {
    let fixture = Fixture::start(&cluster, &[]).await?;
    let all = [(Source::Admin, "swap-admin"), (Source::Folder, "swap-folder"), (Source::Resource, "swap-resource")];
    for (source, plugin) in all {
        life(&fixture, source, plugin).await.with_context(|| format!("the life of a plugin by {source:?}"))?;
        wrong_versions(&fixture, source, plugin).await.with_context(|| format!("wrong versions by {source:?}"))?;
        source.remove(&fixture, plugin).await?;
    }
    shadow(&fixture, "swap-shadow").await.context("a shadow")?;
    sources(&fixture).await.context("sources")?;
    wrong_resources(&fixture).await.context("wrong resources")?;
    drop(fixture);
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_change_from_each_source_on_the_embedded_cluster() -> Result<()> {
    changes_from_each_source(TestCluster::embedded().await?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_change_from_each_source_on_a_real_cluster() -> Result<()> {
    changes_from_each_source(TestCluster::real().await?).await
}

/// A host of another user, at a path that anybody could take, gets nothing of a request. Needs root, to be another user.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_a_socket_of_another_user() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let open = tempfile::tempdir()?;
    // Whatever the umask is.
    std::fs::set_permissions(open.path(), std::fs::Permissions::from_mode(0o777))?;
    let socket = open.path().join("admin.sock");
    // In the language that every Debian has.
    let script = "my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 1) or die; my $c = $s->accept; \
                  my $n = sysread($c, my $b, 1); print \"received $n\"";
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "perl", "-MIO::Socket::UNIX", "-e", script])
        .arg(&socket);
    let other = other.stdout(std::process::Stdio::piped()).spawn().context("start a listener of another user")?;
    eventually(PATIENCE, "the other user to listen", async || Ok(socket.exists().then_some(()))).await?;
    let mut command = pintle::command(["plugin", "list", "--admin-socket"])?;
    let answer = pintle::Answer::of(command.arg(&socket))?;
    ensure!(answer.code == Some(1) && answer.errors.contains("uid 65534 listens there"), "{answer:?}");
    let received = other.wait_with_output()?;
    ensure!(received.stdout == b"received 0", "something was sent: {received:?}");
    Ok(())
}

/// Root may let another user through to the socket, and the host still does not answer. Needs root, to be another user.
#[tokio::test(flavor = "multi_thread")]
async fn another_user_is_not_answered() -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let cluster = TestCluster::embedded().await?;
    // One that others may enter, which folders above that of the build need not be.
    let open = tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir()?;
    let (binary, socket) = (open.path().join("pintle"), open.path().join("admin.sock"));
    std::fs::copy(pintle::binary()?, &binary)?;
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755))?;
    let host = cluster.host(&[format!("--admin-socket={}", socket.display())])?;
    host.answers().await?;
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
    host.plugin(&["list"])?;
    cluster.stop().await;
    Ok(())
}
