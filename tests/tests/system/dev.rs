//! `pintle dev --plugin`: what is saved is built and swapped into the running host; what does not compile leaves it as it is.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pintle_tests::kubectl::cluster::Dev as Process;
use pintle_tests::pintle::{self, Answer};
use pintle_tests::process::Guarded;
use pintle_tests::tutorial::terminal::is_progress;
use pintle_tests::{ApiClient, PatchKind, eventually, target_dir, workspace_dir};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tempfile::TempDir;

/// A build of the SDK on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Parts of lines about the plugin, on standard output.
const ABOUT_PLUGIN: [&str; 3] = [": rebuilt in ", ": read in ", ": the running version stays: "];

/// `pintle dev` as a process.
struct Dev {
    _process: Guarded,
    folder: TempDir,
}

impl Dev {
    fn start(folder: TempDir, plugin: &Path) -> Dev {
        Self::start_with(folder, &[plugin.as_os_str()])
    }

    /// The first argument is the plugin.
    fn start_with(folder: TempDir, arguments: &[&OsStr]) -> Dev {
        let mut command =
            pintle::command(["dev", "--controllers=namespace", "--admin-socket=admin.sock", "--plugin"]).unwrap();
        command
            .args(arguments)
            .current_dir(folder.path())
            // What guests have in common has been built there.
            .env("CARGO_TARGET_DIR", workspace_dir().join("target/wasm"))
            .env("PINTLE_CACHE_DIR", folder.path().join("cache"));
        let process = Guarded::tied("pintle dev", &mut command, &folder.path().join("log")).unwrap();
        Dev { _process: process, folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits for the n-th line about a plugin, which holds all of these words.
    async fn line(&self, n: usize, words: &[&str]) -> Result<()> {
        eventually(PATIENCE, format!("line {n} with {words:?}"), async || {
            let log = self.log();
            let line = log.lines().filter(|line| ABOUT_PLUGIN.iter().any(|word| line.contains(word))).nth(n);
            ensure!(line.is_some_and(|line| words.iter().all(|word| line.contains(word))), "{log}");
            Ok(Some(()))
        })
        .await
    }

    fn version(&self, name: &str) -> Result<String> {
        let mut describe = pintle::command(["plugin", "describe", name, "-o", "json", "--admin-socket"])?;
        let found = Answer::of(describe.arg(self.folder.path().join("admin.sock")))?.json()?;
        Ok(found["plugin"]["current"]["version"].as_str().unwrap_or_default().to_owned())
    }
}

fn folder() -> TempDir {
    std::fs::create_dir_all(target_dir()).unwrap();
    tempfile::Builder::new().prefix("dev-").tempdir_in(target_dir()).unwrap()
}

/// A plugin as an author has it: a package of its own beside nobody.
fn plugin(folder: &Path) -> PathBuf {
    let plugin = folder.join("robots");
    let source = workspace_dir().join("plugins/serviceaccount");
    std::fs::create_dir_all(plugin.join("src")).unwrap();
    for file in ["lib.rs", "reconcile.rs", "types.rs"] {
        std::fs::copy(source.join("src").join(file), plugin.join("src").join(file)).unwrap();
    }
    // The versions of dependencies that are there.
    std::fs::copy(workspace_dir().join("plugins/Cargo.lock"), plugin.join("Cargo.lock")).unwrap();
    let manifest = std::fs::read_to_string(source.join("manifest.yaml")).unwrap();
    let manifest = manifest.replace("name: serviceaccount-controller\n", "name: robots\n");
    std::fs::write(plugin.join("manifest.yaml"), manifest).unwrap();
    let workspace = std::fs::read_to_string(workspace_dir().join("plugins/Cargo.toml")).unwrap();
    let profile = &workspace[workspace.find("[profile.release]").unwrap()..];
    let sdk = workspace_dir().join("sdk/rust");
    let package = format!(
        "[package]\nname = \"robots\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
         [dependencies]\npintle-sdk = {{ path = {sdk:?} }}\nserde_json = {{ version = \"1\", features = [\"raw_value\", \"preserve_order\"] }}\n\n\
         [workspace]\n\n{profile}"
    );
    std::fs::write(plugin.join("Cargo.toml"), package).unwrap();
    plugin
}

/// Replaces a file in one step: nobody ever sees half of it.
fn save(file: &Path, contents: impl AsRef<[u8]>) {
    let new = tempfile::NamedTempFile::new_in(target_dir()).unwrap();
    std::fs::write(new.path(), contents).unwrap();
    new.persist(file).unwrap();
}

fn replace(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{} has no {from:?}", file.display());
    save(file, text.replace(from, to));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_in_rust_is_swapped_in_when_it_is_saved() -> Result<()> {
    let folder = folder();
    let plugin = plugin(folder.path());
    let dev = Dev::start(folder, &plugin);
    dev.line(0, &["robots: rebuilt in", "loaded in"]).await?;
    assert_eq!(dev.version("robots")?, "0.1.0");

    replace(&plugin.join("manifest.yaml"), "version: 0.1.0", "version: 0.2.0");
    dev.line(1, &["robots: rebuilt in", "swapped in"]).await?;
    assert_eq!(dev.version("robots")?, "0.2.0");

    let source = plugin.join("src/reconcile.rs");
    replace(&source, "const NAMES: [&str; 1]", "const NAMES: [&str; 2]");
    dev.line(2, &["the running version stays"]).await?;
    ensure!(dev.log().contains("error[E0308]"), "{}", dev.log());
    assert_eq!(dev.version("robots")?, "0.2.0");

    replace(&source, "const NAMES: [&str; 2]", "const NAMES: [&str; 1]");
    replace(&plugin.join("manifest.yaml"), "version: 0.2.0", "version: 0.3.0");
    eventually(PATIENCE, "version 0.3.0", async || {
        let version = dev.version("robots")?;
        ensure!(version == "0.3.0", "{version}\n{}", dev.log());
        Ok(Some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_swapped_in_when_it_changes() -> Result<()> {
    let folder = folder();
    let file = folder.path().join("mine.wasm");
    let built = |name: &str| workspace_dir().join(format!("target/plugins/{name}.wasm"));
    std::fs::copy(built("serviceaccount-controller"), &file)?;
    let dev = Dev::start(folder, &file);
    dev.line(0, &["serviceaccount-controller: read in", "loaded in"]).await?;
    save(&file, "half");
    dev.line(1, &["the running version stays", "this is not WebAssembly"]).await?;
    save(&file, std::fs::read(built("serviceaccount-controller"))?);
    dev.line(2, &["serviceaccount-controller: read in", "swapped in"]).await
}

/// A definition with one property of `spec`.
fn definition(kind: &str, property: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let spec = json!({"type": "object", "properties": {property: {"type": "string"}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_are_applied_when_they_change_and_a_wrong_one_changes_nothing() -> Result<()> {
    let folder = folder();
    let (crds, more) = (folder.path().join("crds"), folder.path().join("more"));
    std::fs::create_dir(&crds)?;
    std::fs::create_dir(&more)?;
    std::fs::create_dir(folder.path().join("samples"))?;
    std::fs::write(crds.join("team.json"), definition("Team", "members"))?;
    std::fs::write(folder.path().join("samples/team.yaml"), "a: [")?;
    let component = folder.path().join("mine.wasm");
    std::fs::copy(workspace_dir().join("target/plugins/serviceaccount-controller.wasm"), &component)?;
    let dev = Dev::start_with(folder, &[component.as_os_str(), "--crds".as_ref(), more.as_os_str()]);
    // The kind is there before the plugin is loaded.
    dev.line(0, &["serviceaccount-controller: read in", "loaded in"]).await?;
    let log = dev.log();
    ensure!(log.find("applied teams.example.org") < log.find("read in"), "{log}");
    let client = ApiClient::from_kubeconfig(&dev.folder.path().join("pintle.kubeconfig")).await?;
    let properties = async |plural: &str| -> Result<String> {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.example.org");
        let found = client.get(&path).await?;
        let schema = &found["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let names = schema["properties"]["spec"]["properties"].as_object().map(|all| all.keys().cloned().collect());
        Ok(names.unwrap_or_else(Vec::new).join(","))
    };
    let logged = async |words: &str| {
        eventually(PATIENCE, words.to_owned(), async || Ok(dev.log().contains(words).then_some(()))).await
    };
    assert_eq!(properties("teams").await?, "members");
    assert_eq!(client.list("/apis/example.org/v1/teams").await?.len(), 0);

    // A save, one that is wrong in YAML, and one that the server rejects.
    save(&crds.join("team.json"), definition("Team", "people"));
    eventually(PATIENCE, "the new definition", async || Ok((properties("teams").await? == "people").then_some(())))
        .await?;
    save(&crds.join("team.json"), "a: [");
    logged("crds/team.json: not applied: ").await?;
    save(&crds.join("team.json"), definition("Team", "people").replace("Namespaced", "Everywhere"));
    logged("crds/team.json: teams.example.org is not applied: ").await?;
    let log = dev.log();
    ensure!(log.contains("spec.scope: Unsupported value: \"Everywhere\""), "{log}");
    assert_eq!(log.matches("; the previous definition stays").count(), 2, "{log}");
    assert_eq!(properties("teams").await?, "people");

    // The other folder is followed, too; a sample is not applied.
    save(&more.join("club.json"), definition("Club", "name"));
    logged("applied clubs.example.org").await?;
    assert_eq!(properties("clubs").await?, "name");
    ensure!(log.contains("samples has sample objects"), "{log}");
    assert_eq!(dev.version("serviceaccount-controller")?, "0.1.0");
    Ok(())
}

/// Authors read no lines about controllers that are off by default.
#[tokio::test(flavor = "multi_thread")]
async fn what_it_prints_begins_with_its_cluster() -> Result<()> {
    let dev = Process::start().await?;
    eventually(PATIENCE, "the cluster in what is printed", async || {
        let log = dev.log()?;
        let first = log.lines().find(|line| !is_progress(line));
        ensure!(first.is_some_and(|line| line.starts_with("The embedded cluster runs at https://")), "{log}");
        Ok(Some(()))
    })
    .await
}

/// `kubectl delete` looks for a Pod after it has deleted it, and has to see it going.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_seen_going() -> Result<()> {
    let dev = Process::start().await?;
    let client = ApiClient::from_kubeconfig_text(&std::fs::read_to_string(dev.kubeconfig())?).await?;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "m", "image": "example.com/p:1"}]}});
    client.create(pods, &pod).await?;
    let path = format!("{pods}/p");
    eventually(PATIENCE, "a running Pod", async || {
        Ok((client.get(&path).await?["status"]["phase"] == "Running").then_some(()))
    })
    .await?;
    let started = std::time::Instant::now();
    client.delete(&path, None).await?;
    eventually(PATIENCE, "the Pod to be gone", async || Ok(client.find(&path).await?.is_none().then_some(()))).await?;
    // Half of its delay: never less, however busy the machine is, and whatever its clocks.
    assert!(started.elapsed() >= std::time::Duration::from_millis(250), "{:?}", started.elapsed());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_answers_only_who_has_the_certificate_of_the_kubeconfig() -> Result<()> {
    let (dev, other) = tokio::try_join!(Process::start(), Process::start())?;
    let file = dev.kubeconfig();
    assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file)?;

    let of = |text: &str| serde_norway::from_str::<serde_json::Value>(text);
    let (own, others) = (of(&text)?, of(&std::fs::read_to_string(other.kubeconfig())?)?);
    let users = [
        ("no credentials", json!({})),
        ("a token", json!({"token": "pintle"})),
        ("a certificate of another run", others["users"][0]["user"].clone()),
    ];
    for (name, user) in users {
        let mut config = own.clone();
        config["users"][0]["user"] = user;
        let client = ApiClient::from_kubeconfig_text(&config.to_string()).await?;
        for path in ["/api/v1/namespaces/kube-system/secrets", "/version", "/healthz", "/apis"] {
            let answer = client.get(path).await;
            ensure!(answer.is_err(), "{name}, {path}: {answer:?}");
        }
    }
    let server = own["clusters"][0]["cluster"]["server"].as_str().unwrap();
    let plain = ApiClient::new(&server.replace("https://", "http://"), None, None);
    assert!(plain.get("/version").await.is_err(), "there is no answer without TLS");
    // The server is there.
    ApiClient::from_kubeconfig_text(&text).await?.get("/api/v1/namespaces/kube-system/secrets").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_answers_who_has_a_certificate_or_a_token_that_the_cluster_has_issued() -> Result<()> {
    let dev = Process::start().await?;
    let text = std::fs::read_to_string(dev.kubeconfig())?;
    let owner = ApiClient::from_kubeconfig_text(&text).await?;
    let user_name = async |user: serde_json::Value| -> Result<serde_json::Value> {
        let mut config = serde_norway::from_str::<serde_json::Value>(&text)?;
        config["users"][0]["user"] = user;
        let client = ApiClient::from_kubeconfig_text(&config.to_string()).await?;
        let review = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await?;
        Ok(review["status"]["userInfo"]["username"].clone())
    };

    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    owner.create(accounts, &json!({"metadata": {"name": "robot"}})).await?;
    let issued = owner.create(&format!("{accounts}/robot/token"), &json!({"spec": {}})).await?;
    let robot = "system:serviceaccount:default:robot";
    assert_eq!(user_name(json!({"token": issued["status"]["token"]})).await?, robot);

    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "metadata": {"name": "robot", "annotations": annotations}, "type": "kubernetes.io/service-account-token",
    });
    let secrets = "/api/v1/namespaces/default/secrets";
    owner.create(secrets, &secret).await?;
    let token = eventually(PATIENCE, "a token in the Secret", async || {
        let secret = owner.get(&format!("{secrets}/robot")).await?;
        Ok(secret["data"]["token"].as_str().map(str::to_owned))
    })
    .await?;
    let token = String::from_utf8(STANDARD.decode(token)?)?;
    assert_eq!(user_name(json!({ "token": token })).await?, robot);

    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let key = KeyPair::generate()?;
    let request = CertificateParams::default().serialize_request(&key)?.pem()?;
    let spec = json!({
        "request": STANDARD.encode(request), "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
    });
    owner.create(requests, &json!({"metadata": {"name": "ann"}, "spec": spec})).await?;
    let approved = json!({"type": "Approved", "status": "True", "reason": "Test", "message": "approved"});
    let approved = json!({"status": {"conditions": [approved]}});
    owner.patch(&format!("{requests}/ann/approval"), PatchKind::Merge, &approved).await?;
    let certificate = eventually(PATIENCE, "a certificate", async || {
        let request = owner.get(&format!("{requests}/ann")).await?;
        Ok(request["status"]["certificate"].as_str().map(str::to_owned))
    })
    .await?;
    let key = STANDARD.encode(key.serialize_pem());
    // Its subject is not read: every certificate is one of the owner.
    let user = json!({"client-certificate-data": certificate, "client-key-data": key});
    assert_eq!(user_name(user).await?, "pintle");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_of_somebody_else_is_neither_replaced_nor_removed() -> Result<()> {
    let folder = folder();
    let dev = |kubeconfig: &str| {
        let cache = format!("--cache-dir={}", target_dir().join("host-code").display());
        let mut dev =
            pintle::command(["dev", "--controllers=namespace", "--admin-socket=off", &cache, kubeconfig]).unwrap();
        dev.current_dir(folder.path());
        dev
    };
    let foreign = folder.path().join("config");
    std::fs::write(&foreign, "# mine\n")?;
    let refused = async |kubeconfig: &str| -> Result<String> {
        let mut process = Guarded::tied("pintle dev", &mut dev(kubeconfig), &folder.path().join("refused"))?;
        let ended = eventually(PATIENCE, "the end of pintle dev", async || Ok(process.exited()));
        ensure!(ended.await?.code() == Some(1), "{}", process.log_tail());
        Ok(process.log_tail())
    };
    let why = refused("--kubeconfig=config").await?;
    ensure!(why.contains("hoose another file with --kubeconfig"), "{why}");
    assert_eq!(std::fs::read_to_string(&foreign)?, "# mine\n");

    let own = folder.path().join("own");
    let mut first = Guarded::tied("pintle dev", &mut dev("--kubeconfig=own"), &folder.path().join("log"))?;
    eventually(PATIENCE, "the kubeconfig", async || {
        ensure!(first.exited().is_none(), "{}", first.log_tail());
        Ok(own.exists().then_some(()))
    })
    .await?;
    let text = std::fs::read_to_string(&own)?;
    ApiClient::from_kubeconfig_text(&text).await?.get("/version").await?;
    let why = refused("--kubeconfig=own").await?;
    ensure!(why.contains("another `pintle dev` that is running"), "{why}");
    assert_eq!(std::fs::read_to_string(&own)?, text);
    assert!(first.stop(PATIENCE).await);
    assert!(!own.exists(), "it is useless without its cluster");
    Ok(())
}

/// `pintle dev` as test programs start it, with these plugins.
fn of_a_program(folder: &Path, plugin: &Path) -> Result<(std::process::Child, PathBuf)> {
    let ready = folder.join("ready.json");
    let mut command = pintle::command(["dev", "--stop-with-stdin", "--ready-file=ready.json", "--kubeconfig=config"])?;
    let cache = format!("--cache-dir={}", target_dir().join("host-code").display());
    let plugin = format!("--plugin={}", plugin.display());
    command.args(["--controllers=namespace", "--admin-socket=admin.sock", &cache, &plugin]).current_dir(folder);
    let log = std::fs::File::create(folder.join("log"))?;
    command.stdin(std::process::Stdio::piped()).stdout(log.try_clone()?).stderr(log);
    Ok((command.spawn()?, ready))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_learns_from_a_file_that_everything_runs_and_takes_it_along() -> Result<()> {
    let folder = folder();
    let file = workspace_dir().join("target/plugins/serviceaccount-controller.wasm");
    let (mut process, ready) = of_a_program(folder.path(), &file)?;
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
    eventually(PATIENCE, "the file", async || {
        ensure!(process.try_wait()?.is_none(), "{}", log());
        Ok(ready.exists().then_some(()))
    })
    .await?;
    let about: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&ready)?)?;
    // Ready means that the plugin runs: nothing is waited for here.
    let socket = folder.path().join("admin.sock");
    assert_eq!(about["adminSocket"], json!(socket));
    let mut describe =
        pintle::command(["plugin", "describe", "serviceaccount-controller", "-o", "json", "--admin-socket"])?;
    let found = Answer::of(describe.arg(&socket))?.json()?;
    assert_eq!(found["plugin"]["phase"], "Running", "{found}");
    assert_eq!(about["kubeconfig"], json!(folder.path().join("config")));
    let client = ApiClient::from_kubeconfig_text(&std::fs::read_to_string(folder.path().join("config"))?).await?;
    client.get("/version").await?;
    let server = about["server"].as_str().unwrap();
    assert!(std::fs::read_to_string(folder.path().join("config"))?.contains(server), "{about}");

    // What is written to it changes nothing; its end does.
    process.stdin.as_mut().unwrap().write_all(b"go on\n")?;
    client.get("/version").await?;
    drop(process.stdin.take());
    eventually(PATIENCE, "the end of pintle dev", async || Ok(process.try_wait()?)).await?;
    assert!(log().contains("standard input has ended"), "{}", log());
    assert!(!ready.exists(), "it is true no more");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_learns_from_a_file_that_a_plugin_does_not_run() -> Result<()> {
    let folder = folder();
    let file = folder.path().join("mine.wasm");
    std::fs::write(&file, "half")?;
    let (mut process, ready) = of_a_program(folder.path(), &file)?;
    eventually(PATIENCE, "the file", async || Ok(ready.exists().then_some(()))).await?;
    let about: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&ready)?)?;
    let why = about["error"].as_str().unwrap_or_default();
    assert!(why.contains("mine.wasm: no version runs yet: ") && why.contains("this is not WebAssembly"), "{about}");
    drop(process.stdin.take());
    eventually(PATIENCE, "the end of pintle dev", async || Ok(process.try_wait()?)).await?;
    Ok(())
}
