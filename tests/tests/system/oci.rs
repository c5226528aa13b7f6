//! Components in a real registry: pushed, pulled, signed, tampered with; and a host that runs what is signed alone, by whichever way
//! it comes.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use pintle_sim::{SimCluster, SimConfig};
use pintle_tests::crash::Host;
use pintle_tests::registry::{Access, Registry, USER};
use pintle_tests::{ApiClient, components, eventually, target_dir};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// How long the host may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

const RESOURCES: &str = "/apis/pintle.dev/v1alpha1/controllerplugins";

/// A build of a plugin under this name.
fn build(name: &str, version: &str) -> Vec<u8> {
    let component = components::plugin("serviceaccount-controller").unwrap();
    components::with_manifest(&component, |manifest| {
        manifest["name"] = name.into();
        manifest["version"] = version.into();
    })
    .unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder in which commands run, with a docker configuration of its own.
struct Shop {
    folder: TempDir,
}

impl Shop {
    fn new() -> Self {
        std::fs::create_dir_all(target_dir()).unwrap();
        let folder = tempfile::Builder::new().prefix("oci-").tempdir_in(target_dir()).unwrap();
        Self { folder }
    }

    fn at(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.at(file).parent().unwrap()).unwrap();
        std::fs::write(self.at(file), bytes).unwrap();
    }

    /// Runs `pintle`; the answer, or the one line that says what is wrong.
    fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let pintle = std::env::var_os("PINTLE_BIN").map_or_else(|| target_dir().join("debug/pintle"), PathBuf::from);
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(pintle)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.at("docker"))
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("PINTLE_LOG", "off")
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
        if output.status.success() {
            return Ok(text(output.stdout));
        }
        let why = text(output.stderr);
        assert_eq!((output.status.code(), why.lines().count()), (Some(1), 1), "{why}");
        Err(why)
    }

    /// Pushes a component under this reference; answers the reference with its digest.
    fn push(&self, component: &[u8], to: &str, more: &[&str]) -> String {
        self.write("pushed.wasm", component);
        self.run(&[&["push", "pushed.wasm", to], more].concat()).unwrap()
    }

    /// Pulls into `out.wasm`, which is gone before.
    fn pull(&self, from: &str, more: &[&str]) -> Result<Vec<u8>, String> {
        // It may not be there.
        let _ = std::fs::remove_file(self.at("out.wasm"));
        self.run(&[&["pull", from, "-o", "out.wasm"], more].concat())?;
        Ok(std::fs::read(self.at("out.wasm")).unwrap())
    }

    /// A pull that is refused, and leaves nothing.
    fn refused(&self, registry: &Registry, from: &str, more: &[&str], expected: Expect) {
        let why = self.pull(from, more).unwrap_err();
        assert!(!self.at("out.wasm").exists(), "a file is left: {why}");
        let why = why.replace(&registry.host(), "REGISTRY");
        let words = why.split(' ').map(|word| match word.split_once("sha256:") {
            Some((before, hex)) if hex.len() >= 64 => format!("{before}sha256:HEX{}", &hex[64..]),
            _ => word.to_owned(),
        });
        expected.assert_eq(&words.collect::<Vec<_>>().join(" "));
    }
}

/// The digest of a reference that is pinned.
fn digest_of(pinned: &str) -> &str {
    pinned.split_once('@').unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_comes_back_as_it_was_pushed() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let component = build("widgets", "1.2.3");
    let to = format!("oci://{}/team/widgets:1.2.3", registry.host());
    let pinned = shop.push(&component, &to, &["--author", "somebody"]);
    ensure!(pinned.starts_with(&format!("{to}@sha256:")), "{pinned}");
    ensure!(shop.push(&component, &to, &["--author", "somebody"]) == pinned, "the same is another artifact");
    for from in [to.clone(), pinned.clone(), pinned.replace(":1.2.3@", "@")] {
        ensure!(shop.pull(&from, &[]).as_deref() == Ok(component.as_slice()), "{from}");
    }
    // Under the plugin's own name, unless another is given.
    let told = shop.run(&["pull", &to]).unwrap();
    ensure!(told == format!("widgets.wasm from {pinned}"), "{told}");
    let found: Value = serde_json::from_str(&shop.run(&["inspect", &to, "-o", "json"]).unwrap())?;
    ensure!(found["file"] == pinned.as_str() && found["digest"] == sha256(&component).as_str(), "{found}");
    let told = shop.run(&["rbac", &to]).unwrap();
    ensure!(told.contains("system:pintle:widgets") || told.contains("widgets"), "{told}");

    // What other tools read.
    let manifest = registry.manifest("team/widgets", "1.2.3")?;
    let layer = format!("sha256:{}", sha256(&component));
    ensure!(manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json", "{manifest}");
    ensure!(manifest["config"]["mediaType"] == "application/vnd.wasm.config.v0+json", "{manifest}");
    let layers = json!([{
        "mediaType": "application/wasm", "digest": layer, "size": component.len(),
        "annotations": {"org.opencontainers.image.title": "widgets.wasm"},
    }]);
    ensure!(manifest["layers"] == layers, "{manifest}");
    let config = std::fs::read(registry.blob(manifest["config"]["digest"].as_str().unwrap()))?;
    let mut config: Value = serde_json::from_slice(&config)?;
    let component = config["component"].take();
    ensure!(
        config
            == json!({
                "created": "2023-11-14T22:13:20Z", "author": "somebody", "architecture": "wasm", "os": "wasip2",
                "layerDigests": [layer], "component": null,
            }),
        "{config}"
    );
    let has =
        |part: &str, name: &str| component[part].as_array().unwrap().iter().any(|n| n.as_str().unwrap().contains(name));
    ensure!(has("imports", "pintle:controller/") && has("exports", "reconcile"), "{component}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_or_no_component_is_told() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let host = registry.host();
    let at = |tag: &str| format!("oci://{host}/widgets:{tag}");
    shop.push(&build("widgets", "1.0.0"), &at("good"), &[]);
    shop.refused(
        &registry,
        &at("none"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:none: REGISTRY has no such artifact"],
    );
    shop.refused(
        &registry,
        &format!("oci://{host}/nothing:1"),
        &[],
        expect!["pintle: oci://REGISTRY/nothing:1: REGISTRY has no such artifact"],
    );
    let other = format!("oci://{host}/widgets@sha256:{}", sha256(b"nothing"));
    shop.refused(
        &registry,
        &other,
        &[],
        expect!["pintle: oci://REGISTRY/widgets@sha256:HEX: REGISTRY has no such artifact"],
    );

    let good = registry.manifest("widgets", "good")?;
    let with = |path: &str, value: Value| {
        let mut changed = good.clone();
        *changed.pointer_mut(path).unwrap() = value;
        changed
    };
    let image = "application/vnd.oci.image.config.v1+json";
    registry.put_manifest("widgets", "image", &with("/config/mediaType", json!(image)))?;
    shop.refused(&registry, &at("image"), &[], expect!["pintle: oci://REGISTRY/widgets:image@sha256:HEX: it is not a Wasm artifact: its config is application/vnd.oci.image.config.v1+json, not application/vnd.wasm.config.v0+json"]);
    let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
    registry.put_manifest("widgets", "tar", &with("/layers/0/mediaType", json!(tar)))?;
    shop.refused(&registry, &at("tar"), &[], expect!["pintle: oci://REGISTRY/widgets:tar@sha256:HEX: its layer is application/vnd.oci.image.layer.v1.tar+gzip, not application/wasm"]);
    let layer = &good["layers"][0];
    registry.put_manifest("widgets", "two", &with("/layers", json!([layer, layer])))?;
    shop.refused(
        &registry,
        &at("two"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:two@sha256:HEX: it has 2 layers; a component artifact has one"],
    );
    registry.put_manifest("widgets", "huge", &with("/layers/0/size", json!(1_u64 << 40)))?;
    shop.refused(&registry, &at("huge"), &[], expect!["pintle: oci://REGISTRY/widgets:huge@sha256:HEX: the component has 1099511627776 bytes; the maximum is 67108864"]);
    registry.put_manifest("widgets", "short", &with("/layers/0/size", json!(1000)))?;
    shop.refused(
        &registry,
        &at("short"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:short: sha256:HEX exceeds the length in its manifest"],
    );

    shop.write("no.wasm", "no component");
    let why = shop.run(&["push", "no.wasm", &at("no")]).unwrap_err();
    ensure!(why == "pintle: no.wasm: this is not WebAssembly", "{why}");
    let why = shop.pull("oci://127.0.0.1:1/widgets:1", &[]).unwrap_err();
    ensure!(why.contains("cannot connect to 127.0.0.1:1: Connection refused"), "{why}");
    let why = shop.pull("oci://registry.invalid/widgets:1", &[]).unwrap_err();
    ensure!(why.contains("unknown host registry.invalid"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_tampered_with_is_refused() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let tag = format!("oci://{}/widgets:latest", registry.host());
    let (first, second) = (build("widgets", "1.0.0"), build("widgets", "2.0.0"));
    let pinned = shop.push(&first, &tag, &[]);

    // The tag moves on, what is pinned stays.
    let newer = shop.push(&second, &tag, &[]);
    ensure!(shop.pull(&tag, &[]).as_deref() == Ok(second.as_slice()));
    ensure!(shop.pull(&pinned, &[]).as_deref() == Ok(first.as_slice()));

    // One byte of the component.
    let blob = registry.blob(&format!("sha256:{}", sha256(&first)));
    let mut bytes = std::fs::read(&blob)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blob, &bytes)?;
    shop.refused(&registry, &pinned, &[], expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: the registry sent other content than requested: it has digest sha256:HEX; expected sha256:HEX"]);
    // More than there was.
    std::fs::write(&blob, [first.as_slice(), b"more"].concat())?;
    shop.refused(
        &registry,
        &pinned,
        &[],
        expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: sha256:HEX exceeds the length in its manifest"],
    );
    // One byte of the manifest.
    let blob = registry.blob(digest_of(&newer));
    let text = std::fs::read_to_string(&blob)?;
    std::fs::write(&blob, text.replace("2.0.0", "2.0.1"))?;
    shop.refused(&registry, &newer, &[], expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: the registry sent other content than requested: it has digest sha256:HEX; expected sha256:HEX"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_signed_by_a_given_key_is_taken() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let host = registry.host();
    shop.run(&["keygen", "ours"]).unwrap();
    shop.run(&["keygen", "theirs"]).unwrap();
    let (first, second) = (build("widgets", "1.0.0"), build("widgets", "2.0.0"));
    let signed = shop.push(&first, &format!("oci://{host}/widgets:1"), &["--sign-key", "ours.key"]);
    let other = shop.push(&second, &format!("oci://{host}/widgets:2"), &[]);
    let ours = &["--verify-key", "ours.pub"][..];
    let theirs = &["--verify-key", "theirs.pub"][..];

    ensure!(shop.pull(&signed, ours).as_deref() == Ok(first.as_slice()));
    ensure!(shop.pull(&signed, &[theirs, ours].concat()).is_ok(), "one key of several is enough");
    ensure!(shop.run(&[&["verify", &signed], ours].concat()).unwrap().contains("is signed"));
    ensure!(shop.run(&["verify", &signed]).unwrap_err().contains("--verify-key"));
    shop.refused(&registry, &signed, theirs, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    shop.refused(&registry, &other, ours, expect!["pintle: oci://REGISTRY/widgets:2@sha256:HEX has no signature, and --verify-key requires one; `pintle sign` creates it"]);
    ensure!(shop.run(&[&["inspect", &other], ours].concat()).unwrap_err().contains("has no signature"));

    // Somebody else's signature, then ours beside it.
    shop.run(&["sign", &other, "--sign-key", "theirs.key"]).unwrap();
    shop.refused(&registry, &other, ours, expect!["pintle: oci://REGISTRY/widgets:2@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    shop.run(&["sign", &other, "--sign-key", "ours.key"]).unwrap();
    ensure!(shop.pull(&other, ours).as_deref() == Ok(second.as_slice()));
    ensure!(shop.pull(&other, theirs).is_ok(), "the one before is kept");
    shop.run(&["sign", &other, "--sign-key", "ours.key"]).unwrap();
    let place = |pinned: &str| format!("{}.sig", digest_of(pinned).replace(':', "-"));
    let stored = registry.manifest("widgets", &place(&other))?;
    ensure!(stored["layers"].as_array().unwrap().len() == 2, "signing again adds nothing: {stored}");

    // The signature of one component put beside another.
    let third = shop.push(&build("widgets", "3.0.0"), &format!("oci://{host}/widgets:3"), &[]);
    registry.put_manifest("widgets", &place(&third), &registry.manifest("widgets", &place(&signed))?)?;
    shop.refused(&registry, &third, ours, expect!["pintle: oci://REGISTRY/widgets:3@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    // One that is no signature, and none at all.
    let mut edited = registry.manifest("widgets", &place(&signed))?;
    let signature = "/layers/0/annotations/dev.cosignproject.cosign~1signature";
    *edited.pointer_mut(signature).unwrap() = json!(STANDARD.encode("signed, honestly"));
    registry.put_manifest("widgets", &place(&signed), &edited)?;
    shop.refused(&registry, &signed, ours, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    edited["layers"] = json!([]);
    registry.put_manifest("widgets", &place(&signed), &edited)?;
    shop.refused(&registry, &signed, ours, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX has no signature, and --verify-key requires one; `pintle sign` creates it"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_those_of_docker() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Password).await?, Shop::new());
    let host = registry.host();
    let component = build("widgets", "1.0.0");
    let to = format!("oci://{host}/widgets:1");
    shop.write("a.wasm", &component);
    let log_in = |name: &str, password: &str| {
        let auth = STANDARD.encode(format!("{name}:{password}"));
        shop.write("docker/config.json", json!({"auths": {&host: {"auth": auth}}}).to_string());
    };
    let push = || shop.run(&["push", "a.wasm", &to]);
    let none = push().unwrap_err();
    ensure!(none.contains("requires credentials") && none.contains(&format!("docker login {host}")), "{none}");
    log_in(USER.0, "wrong");
    let wrong = push().unwrap_err();
    ensure!(wrong.contains("rejected the credentials"), "{wrong}");
    log_in(USER.0, USER.1);
    let pinned = push().unwrap();
    ensure!(shop.pull(&pinned, &[]).as_deref() == Ok(component.as_slice()));
    log_in(USER.0, "wrong");
    shop.refused(&registry, &pinned, &[], expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: REGISTRY rejected the credentials of docker's configuration; run `docker login REGISTRY`"]);

    // A helper, as docker calls it.
    shop.write("docker/config.json", json!({"credHelpers": {&host: "test"}}).to_string());
    let why = shop.pull(&pinned, &[]).unwrap_err();
    ensure!(why.contains("cannot be used"), "{why}");
    let answer = json!({"ServerURL": host, "Username": USER.0, "Secret": USER.1});
    shop.write("bin/docker-credential-test", format!("#!/bin/sh\ncat > /dev/null\necho '{answer}'\n"));
    let helper = shop.at("bin/docker-credential-test");
    std::fs::set_permissions(&helper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    ensure!(shop.pull(&pinned, &[]).as_deref() == Ok(component.as_slice()));
    shop.write("docker/config.json", "{");
    let why = shop.pull(&pinned, &[]).unwrap_err();
    ensure!(why.contains("config.json cannot be used"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_is_believed_by_its_authority() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Tls).await?, Shop::new());
    let to = format!("oci://{}/widgets:1", registry.host());
    let component = build("widgets", "1.0.0");
    let authority = registry.authority().display().to_string();
    let believed = ["--registry-ca-file", authority.as_str()];
    let pinned = shop.push(&component, &to, &believed);
    ensure!(shop.pull(&pinned, &believed).as_deref() == Ok(component.as_slice()));
    shop.write("other.crt", pintle_tests::registry::other_authority()?);
    let why = shop.pull(&pinned, &["--registry-ca-file", "other.crt"]).unwrap_err();
    ensure!(why.contains("is signed by an unknown authority") && why.contains("--registry-ca-file"), "{why}");
    let why = shop.pull(&pinned, &[]).unwrap_err();
    ensure!(why.contains(&registry.host()), "plain HTTP is refused: {why}");
    Ok(())
}

/// A host at work on the embedded cluster.
struct Stage {
    client: ApiClient,
    shop: Shop,
    host: Host,
}

impl Stage {
    async fn start(shop: Shop, kubeconfig: &str, controllers: &[&str], flags: &[String]) -> Result<Stage> {
        std::fs::create_dir_all(shop.at("plugins"))?;
        let own = [
            format!("--admin-socket={}", shop.at("admin.sock").display()),
            format!("--plugin-dir={}", shop.at("plugins").display()),
            "--install-crd".to_owned(),
            "--grant-requested".to_owned(),
        ];
        let flags = [&own, flags].concat();
        let host = Host::start_with("oci", kubeconfig, controllers, &flags)?;
        let stage = Stage { client: ApiClient::from_kubeconfig_text(kubeconfig)?, shop, host };
        stage.listens().await?;
        Ok(stage)
    }

    async fn listens(&self) -> Result<()> {
        eventually(PATIENCE, "the host to answer", async || {
            self.plugin(&["list"]).map(Some).map_err(anyhow::Error::msg)
        })
        .await
        .map(drop)
        .with_context(|| self.host.log_tail())
    }

    /// Runs `pintle plugin ... -o json`.
    fn plugin(&self, arguments: &[&str]) -> Result<Value, String> {
        let socket = self.shop.at("admin.sock").display().to_string();
        let told = self.shop.run(&[&["plugin"], arguments, &["-o", "json", "--admin-socket", &socket]].concat())?;
        Ok(serde_json::from_str(&told).unwrap())
    }

    async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<()> {
        eventually(PATIENCE, format!("{name}: {what}"), async || {
            let found = self.plugin(&["describe", name]).map_err(anyhow::Error::msg)?;
            ensure!(holds(&found), "{found}");
            Ok(Some(()))
        })
        .await
    }

    /// What runs under this name: where it is from, and its digest.
    fn running(&self, name: &str) -> (String, String) {
        let found = self.plugin(&["describe", name]).unwrap();
        let text = |field: &str| found["plugin"]["current"][field].as_str().unwrap().to_owned();
        (text("origin"), text("digest"))
    }

    async fn resource(&self, name: &str, source: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "pintle.dev/v1alpha1", "kind": "ControllerPlugin", "metadata": {"name": name},
            "spec": {"source": source},
        });
        eventually(PATIENCE, "the resource to be written", async || {
            self.client.apply(&format!("{RESOURCES}/{name}"), "test", true, &object).await.map(Some)
        })
        .await
        .map(drop)
    }

    /// Waits until what became of a resource is told; its reason and message.
    async fn accepted(&self, name: &str, status: &str) -> Result<(String, String)> {
        eventually(PATIENCE, format!("{name} to be accepted: {status}"), async || {
            let object = self.client.get(&format!("{RESOURCES}/{name}")).await?;
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let accepted = conditions.iter().find(|condition| condition["type"] == "Accepted").cloned();
            let accepted = accepted.unwrap_or_default();
            ensure!(object["status"]["observedGeneration"] == object["metadata"]["generation"], "{object}");
            ensure!(accepted["status"] == status, "{object}");
            let text = |field: &str| accepted[field].as_str().unwrap_or_default().to_owned();
            Ok(Some((text("reason"), text("message"))))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_a_key_runs_what_is_signed_by_whichever_way_it_comes() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let host = registry.host();
    shop.run(&["keygen", "ours"]).unwrap();
    shop.run(&["keygen", "theirs"]).unwrap();
    let at = |version: &str| format!("oci://{host}/widgets:{version}");
    let [first, second, third] = ["1.0.0", "1.0.1", "1.0.2"].map(|version| build("oci-widgets", version));
    let good = shop.push(&first, &at("1.0.0"), &["--sign-key", "ours.key"]);
    let unsigned = shop.push(&second, &at("1.0.1"), &[]);
    let foreign = shop.push(&third, &at("1.0.2"), &["--sign-key", "theirs.key"]);
    let key = format!("--verify-key={}", shop.at("ours.pub").display());
    let stage = Stage::start(shop, &cluster.kubeconfig(), &["namespace-controller"], &[key]).await?;
    let name = "oci-widgets";

    // By hand.
    let report = stage.plugin(&["load", &at("1.0.0")]).map_err(anyhow::Error::msg)?;
    ensure!(report["to"]["origin"] == good.as_str(), "{report}");
    let before = stage.running(name);
    ensure!(before == (good.clone(), sha256(&first)), "{before:?}");
    for (what, says) in [(&unsigned, "Unsigned: "), (&foreign, "Untrusted: ")] {
        let why = stage.plugin(&["swap", name, what]).unwrap_err();
        ensure!(why.contains(says) && why.contains(what.as_str()), "{why}");
        ensure!(stage.running(name) == before, "the running version was touched");
    }
    stage.shop.write("second.wasm", &second);
    let why = stage.plugin(&["swap", name, "second.wasm"]).unwrap_err();
    ensure!(why.contains("Unsigned: ") && stage.running(name) == before, "{why}");
    stage.shop.run(&["sign", "second.wasm", "--sign-key", "theirs.key"]).unwrap();
    let why = stage.plugin(&["swap", name, "second.wasm"]).unwrap_err();
    ensure!(why.contains("Untrusted: ") && stage.running(name) == before, "{why}");
    stage.shop.run(&["sign", "second.wasm", "--sign-key", "ours.key"]).unwrap();
    stage.plugin(&["swap", name, "second.wasm"]).map_err(anyhow::Error::msg)?;
    ensure!(stage.running(name).1 == sha256(&second));
    stage.shop.run(&["sign", &unsigned, "--sign-key", "ours.key"]).unwrap();
    stage.plugin(&["swap", name, &unsigned]).map_err(anyhow::Error::msg)?;
    ensure!(stage.running(name) == (unsigned.clone(), sha256(&second)));

    // By the folder: the signature may come later.
    let in_folder = build("oci-folder", "1.0.0");
    stage.shop.write("oci-folder.wasm", &in_folder);
    stage.shop.write("plugins/oci-folder.wasm", &in_folder);
    stage.until("oci-folder", "refused", |found| found["problems"][0]["reason"] == "Unsigned").await?;
    stage.shop.run(&["sign", "oci-folder.wasm", "--sign-key", "ours.key"]).unwrap();
    std::fs::rename(stage.shop.at("oci-folder.wasm.sig"), stage.shop.at("plugins/oci-folder.wasm.sig"))?;
    stage
        .until("oci-folder", "taken", |found| found["plugin"]["current"]["digest"] == sha256(&in_folder).as_str())
        .await?;

    // By a resource: from the registry, and from a ConfigMap.
    stage.resource("oci-resource", json!({"oci": foreign})).await?;
    let (reason, message) = stage.accepted("oci-resource", "False").await?;
    ensure!(reason == "Untrusted" && message.contains(&foreign), "{reason}: {message}");
    let from_registry = build("oci-resource", "1.0.0");
    let to = format!("oci://{host}/resource:1.0.0");
    let pinned = stage.shop.push(&from_registry, &to, &["--sign-key", "ours.key"]);
    stage.resource("oci-resource", json!({"oci": to})).await?;
    stage.accepted("oci-resource", "True").await?;
    ensure!(stage.running("oci-resource").0 == format!("ControllerPlugin oci-resource ({pinned})"));
    let in_map = build("oci-map", "1.0.0");
    let map = |signature: Option<String>| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "oci-map"},
            "binaryData": {"component": STANDARD.encode(&in_map)},
            "data": signature.map(|signature| json!({"component.sig": signature})).unwrap_or_else(|| json!({})),
        })
    };
    let path = "/api/v1/namespaces/default/configmaps/oci-map";
    stage.client.apply(path, "test", true, &map(None)).await?;
    stage
        .resource("oci-map", json!({"configMap": {"namespace": "default", "name": "oci-map", "key": "component"}}))
        .await?;
    ensure!(stage.accepted("oci-map", "False").await?.0 == "Unsigned");
    stage.shop.write("map.wasm", &in_map);
    stage.shop.run(&["sign", "map.wasm", "--sign-key", "ours.key"]).unwrap();
    let signature = std::fs::read_to_string(stage.shop.at("map.wasm.sig"))?;
    stage.client.apply(path, "test", true, &map(Some(signature))).await?;
    stage.accepted("oci-map", "True").await?;

    cluster.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_starts_again_when_the_registry_is_away() -> Result<()> {
    let (registry, shop) = (Registry::start(Access::Open).await?, Shop::new());
    let cluster = SimCluster::start(SimConfig::default()).await?;
    let host = registry.host();
    shop.run(&["keygen", "ours"]).unwrap();
    let started = build("oci-started", "1.0.0");
    let tag = format!("oci://{host}/started:1");
    let pinned = shop.push(&started, &tag, &["--sign-key", "ours.key"]);
    let unsigned = shop.push(&build("oci-started", "1.0.1"), &format!("oci://{host}/started:2"), &[]);
    let key = format!("--verify-key={}", shop.at("ours.pub").display());
    let refused = |what: &str| shop.run(&["run", "--kubeconfig=none", &key, what]);
    let why = refused(&unsigned).unwrap_err();
    ensure!(why.contains("has no signature"), "{why}");
    shop.write("unsigned.wasm", &started);
    let why = refused("unsigned.wasm").unwrap_err();
    ensure!(why.contains("unsigned.wasm has no signature"), "{why}");

    let flags = [key.clone(), format!("--plugin={pinned}")];
    let mut stage = Stage::start(shop, &cluster.kubeconfig(), &["oci-started"], &flags).await?;
    ensure!(stage.running("oci-started") == (pinned.clone(), sha256(&started)));
    stage.host.kill();
    drop(registry);
    stage.host.restart()?;
    stage.listens().await?;
    ensure!(stage.running("oci-started") == (pinned, sha256(&started)));
    // A tag has to be looked up.
    let why = stage.shop.run(&["run", "--kubeconfig=none", &tag]).unwrap_err();
    ensure!(why.contains("cannot connect to"), "{why}");
    cluster.shutdown().await;
    Ok(())
}
