//! Components in a real registry: pushed, pulled, signed, tampered with; and a host that runs only signed components, whatever the
//! source.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use expect_test::{Expect, expect};
use pintle_tests::pintle::{self, Answer};
use pintle_tests::registry::{Access, Registry, USER};
use pintle_tests::{
    ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, components, eventually, process, target_dir,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use wasm_encoder::{ComponentSection as _, CustomSection};

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

/// A folder in which commands run, with its own docker configuration.
struct Workspace {
    folder: TempDir,
    /// The registry, if it is used without TLS.
    plain_http: Option<String>,
}

impl Workspace {
    fn new(registry: &Registry) -> Self {
        std::fs::create_dir_all(target_dir()).unwrap();
        let folder = tempfile::Builder::new().prefix("oci-").tempdir_in(target_dir()).unwrap();
        Self { folder, plain_http: registry.plain_http() }
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
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = pintle::command(arguments).unwrap();
        command
            .current_dir(self.folder.path())
            .env("DOCKER_CONFIG", self.at("docker"))
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("PINTLE_LOG", "off")
            .envs(self.plain_http.iter().map(|host| ("PINTLE_PLAIN_HTTP", host)));
        let answer = Answer::of(&mut command).unwrap();
        if answer.is_good() {
            return Ok(answer.output.trim().to_owned());
        }
        let why = answer.errors.trim().to_owned();
        assert_eq!((answer.code, why.lines().count()), (Some(1), 1), "{why}");
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

    /// A pull that fails, and leaves no file.
    fn rejects(&self, registry: &Registry, from: &str, more: &[&str], expected: Expect) {
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
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let component = build("widgets", "1.2.3");
    let to = format!("oci://{}/team/widgets:1.2.3", registry.host());
    let pinned = workspace.push(&component, &to, &["--author", "somebody"]);
    ensure!(pinned.starts_with(&format!("{to}@sha256:")), "{pinned}");
    ensure!(workspace.push(&component, &to, &["--author", "somebody"]) == pinned, "the same is another artifact");
    for from in [to.clone(), pinned.clone(), pinned.replace(":1.2.3@", "@")] {
        ensure!(workspace.pull(&from, &[]).as_deref() == Ok(component.as_slice()), "{from}");
    }
    // Under the plugin's own name, unless another is given.
    let told = workspace.run(&["pull", &to]).unwrap();
    ensure!(told == format!("widgets.wasm from {pinned}"), "{told}");
    let found: Value = serde_json::from_str(&workspace.run(&["inspect", &to, "-o", "json"]).unwrap())?;
    ensure!(found["file"] == pinned.as_str() && found["digest"] == sha256(&component).as_str(), "{found}");
    let told = workspace.run(&["rbac", &to]).unwrap();
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
async fn a_missing_artifact_or_one_that_is_not_a_component_is_reported() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let host = registry.host();
    let at = |tag: &str| format!("oci://{host}/widgets:{tag}");
    workspace.push(&build("widgets", "1.0.0"), &at("good"), &[]);
    workspace.rejects(
        &registry,
        &at("none"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:none: REGISTRY has no such artifact"],
    );
    workspace.rejects(
        &registry,
        &format!("oci://{host}/nothing:1"),
        &[],
        expect!["pintle: oci://REGISTRY/nothing:1: REGISTRY has no such artifact"],
    );
    let other = format!("oci://{host}/widgets@sha256:{}", sha256(b"nothing"));
    workspace.rejects(
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
    workspace.rejects(&registry, &at("image"), &[], expect!["pintle: oci://REGISTRY/widgets:image@sha256:HEX: it is not a Wasm artifact: its config is application/vnd.oci.image.config.v1+json, not application/vnd.wasm.config.v0+json"]);
    let tar = "application/vnd.oci.image.layer.v1.tar+gzip";
    registry.put_manifest("widgets", "tar", &with("/layers/0/mediaType", json!(tar)))?;
    workspace.rejects(&registry, &at("tar"), &[], expect!["pintle: oci://REGISTRY/widgets:tar@sha256:HEX: its layer is application/vnd.oci.image.layer.v1.tar+gzip, not application/wasm"]);
    let layer = &good["layers"][0];
    registry.put_manifest("widgets", "two", &with("/layers", json!([layer, layer])))?;
    workspace.rejects(
        &registry,
        &at("two"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:two@sha256:HEX: it has 2 layers; a component artifact has one"],
    );
    registry.put_manifest("widgets", "huge", &with("/layers/0/size", json!(1_u64 << 40)))?;
    workspace.rejects(&registry, &at("huge"), &[], expect!["pintle: oci://REGISTRY/widgets:huge@sha256:HEX: the component has 1099511627776 bytes; the maximum is 67108864"]);
    registry.put_manifest("widgets", "short", &with("/layers/0/size", json!(1000)))?;
    workspace.rejects(
        &registry,
        &at("short"),
        &[],
        expect!["pintle: oci://REGISTRY/widgets:short: sha256:HEX exceeds the length in its manifest"],
    );

    workspace.write("no.wasm", "no component");
    let why = workspace.run(&["push", "no.wasm", &at("no")]).unwrap_err();
    ensure!(why.starts_with("pintle: no.wasm: this is not WebAssembly; name the file of a component"), "{why}");
    let why = workspace.pull("oci://127.0.0.1:1/widgets:1", &[]).unwrap_err();
    ensure!(why.contains("cannot connect to 127.0.0.1:1: Connection refused"), "{why}");
    let why = workspace.pull("oci://registry.invalid/widgets:1", &[]).unwrap_err();
    ensure!(why.contains("unknown host registry.invalid"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tampered_artifact_is_rejected() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let tag = format!("oci://{}/widgets:latest", registry.host());
    let (first, second) = (build("widgets", "1.0.0"), build("widgets", "2.0.0"));
    let pinned = workspace.push(&first, &tag, &[]);

    // The tag moves on, what is pinned stays.
    let newer = workspace.push(&second, &tag, &[]);
    ensure!(workspace.pull(&tag, &[]).as_deref() == Ok(second.as_slice()));
    ensure!(workspace.pull(&pinned, &[]).as_deref() == Ok(first.as_slice()));

    // One byte of the component.
    let blob = registry.blob(&format!("sha256:{}", sha256(&first)));
    let mut bytes = std::fs::read(&blob)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blob, &bytes)?;
    workspace.rejects(
        &registry,
        &pinned,
        &[],
        expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: a blob has digest sha256:HEX; expected sha256:HEX"],
    );
    // More than there was.
    std::fs::write(&blob, [first.as_slice(), b"more"].concat())?;
    workspace.rejects(
        &registry,
        &pinned,
        &[],
        expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: sha256:HEX exceeds the length in its manifest"],
    );
    // One byte of the manifest.
    let blob = registry.blob(digest_of(&newer));
    let text = std::fs::read_to_string(&blob)?;
    std::fs::write(&blob, text.replace("2.0.0", "2.0.1"))?;
    workspace.rejects(&registry, &newer, &[], expect!["pintle: oci://REGISTRY/widgets:latest@sha256:HEX: the manifest that the registry sends has digest sha256:HEX; expected sha256:HEX"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_component_comes_back_and_is_the_one_that_was_signed() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    workspace.run(&["keygen", "ours"]).unwrap();
    let (component, other) = (build("widgets", "1.0.0"), build("widgets", "2.0.0"));
    let to = format!("oci://{}/widgets:1.0.0", registry.host());
    let pinned = workspace.push(&component, &to, &["--compress", "--sign-key", "ours.key"]);
    let ours = &["--verify-key", "ours.pub"][..];
    ensure!(workspace.pull(&pinned, ours).as_deref() == Ok(component.as_slice()));
    let found: Value = serde_json::from_str(&workspace.run(&["inspect", &to, "-o", "json"]).unwrap())?;
    ensure!(found["digest"] == sha256(&component).as_str(), "{found}");
    let manifest = registry.manifest("widgets", "1.0.0")?;
    let layer = &manifest["layers"][0];
    let size = layer["size"].as_u64().unwrap();
    ensure!(layer["mediaType"] == "application/wasm+zstd" && size * 2 < component.len() as u64, "{layer}");

    // The layer of another component: compressed, and as it is.
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut manifest = manifest.clone();
        change(&mut manifest["layers"][0]);
        registry.put_manifest("widgets", "changed", &manifest)
    };
    let tag = to.replace("1.0.0", "changed");
    workspace.push(&other, &to.replace("1.0.0", "2.0.0"), &["--compress"]);
    let foreign = registry.manifest("widgets", "2.0.0")?["layers"][0].clone();
    changed(&|layer| {
        layer["digest"] = foreign["digest"].clone();
        layer["size"] = foreign["size"].clone();
    })?;
    workspace.rejects(
        &registry,
        &tag,
        &[],
        expect!["pintle: oci://REGISTRY/widgets:changed@sha256:HEX has digest sha256:HEX; expected sha256:HEX"],
    );
    changed(&|layer| layer["mediaType"] = "application/wasm".into())?;
    let what_it_is = workspace.pull(&tag, &[]).unwrap();
    ensure!(what_it_is.len() as u64 == size, "the bytes of the layer");
    changed(&|layer| layer["annotations"] = json!({}))?;
    workspace.rejects(
        &registry,
        &tag,
        &[],
        expect![
            "pintle: oci://REGISTRY/widgets:changed@sha256:HEX: its layer has no annotation dev.pintle.component.digest"
        ],
    );
    workspace.rejects(
        &registry,
        &tag,
        ours,
        expect![
            "pintle: oci://REGISTRY/widgets:changed@sha256:HEX: its layer has no annotation dev.pintle.component.digest"
        ],
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_does_not_fit_into_a_config_map_is_for_a_registry() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    // Does not compress.
    let mut noise = vec![0_u8; 1 << 20];
    let mut state = 1_u64;
    for byte in &mut noise {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 33) as u8;
    }
    let mut component = build("widgets", "1.0.0");
    CustomSection { name: "noise".into(), data: noise.into() }.append_to_component(&mut component);
    workspace.write("large.wasm", component);
    let why =
        workspace.run(&["package", "large.wasm", "--config-map", "pintle/widgets", "-o", "map.yaml"]).unwrap_err();
    ensure!(
        why.contains("a ConfigMap holds 1048576: push it to a registry (`pintle push widgets.wasm oci://"),
        "{why}"
    );
    ensure!(!workspace.at("map.yaml").exists());
    workspace.write("small.wasm", build("widgets", "1.0.0"));
    let why = workspace.run(&["package", "small.wasm", "--config-map", "Widgets", "-o", "map.yaml"]).unwrap_err();
    ensure!(why.contains("write NAMESPACE/NAME"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_components_signed_by_a_given_key_are_accepted() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let host = registry.host();
    workspace.run(&["keygen", "ours"]).unwrap();
    workspace.run(&["keygen", "theirs"]).unwrap();
    let (first, second) = (build("widgets", "1.0.0"), build("widgets", "2.0.0"));
    let signed = workspace.push(&first, &format!("oci://{host}/widgets:1"), &["--sign-key", "ours.key"]);
    let other = workspace.push(&second, &format!("oci://{host}/widgets:2"), &[]);
    let ours = &["--verify-key", "ours.pub"][..];
    let theirs = &["--verify-key", "theirs.pub"][..];

    ensure!(workspace.pull(&signed, ours).as_deref() == Ok(first.as_slice()));
    ensure!(workspace.pull(&signed, &[theirs, ours].concat()).is_ok(), "one key of several is enough");
    ensure!(workspace.run(&[&["verify", &signed], ours].concat()).unwrap().contains("is signed"));
    ensure!(workspace.run(&["verify", &signed]).unwrap_err().contains("--verify-key"));
    workspace.rejects(&registry, &signed, theirs, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    workspace.rejects(&registry, &other, ours, expect!["pintle: oci://REGISTRY/widgets:2@sha256:HEX has no signature, and --verify-key requires one; `pintle sign` creates it"]);
    ensure!(workspace.run(&[&["inspect", &other], ours].concat()).unwrap_err().contains("has no signature"));

    // Somebody else's signature, then ours beside it.
    workspace.run(&["sign", &other, "--sign-key", "theirs.key"]).unwrap();
    workspace.rejects(&registry, &other, ours, expect!["pintle: oci://REGISTRY/widgets:2@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    workspace.run(&["sign", &other, "--sign-key", "ours.key"]).unwrap();
    ensure!(workspace.pull(&other, ours).as_deref() == Ok(second.as_slice()));
    ensure!(workspace.pull(&other, theirs).is_ok(), "the one before is kept");
    workspace.run(&["sign", &other, "--sign-key", "ours.key"]).unwrap();
    let place = |pinned: &str| format!("{}.sig", digest_of(pinned).replace(':', "-"));
    let stored = registry.manifest("widgets", &place(&other))?;
    ensure!(stored["layers"].as_array().unwrap().len() == 2, "signing again adds nothing: {stored}");

    // The signature of one component put beside another.
    let third = workspace.push(&build("widgets", "3.0.0"), &format!("oci://{host}/widgets:3"), &[]);
    registry.put_manifest("widgets", &place(&third), &registry.manifest("widgets", &place(&signed))?)?;
    workspace.rejects(&registry, &third, ours, expect!["pintle: oci://REGISTRY/widgets:3@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    // One that is no signature, and none at all.
    let mut edited = registry.manifest("widgets", &place(&signed))?;
    let signature = "/layers/0/annotations/dev.cosignproject.cosign~1signature";
    *edited.pointer_mut(signature).unwrap() = json!(STANDARD.encode("signed, honestly"));
    registry.put_manifest("widgets", &place(&signed), &edited)?;
    workspace.rejects(&registry, &signed, ours, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: none of its signatures is by a key of --verify-key (1 configured)"]);
    edited["layers"] = json!([]);
    registry.put_manifest("widgets", &place(&signed), &edited)?;
    workspace.rejects(&registry, &signed, ours, expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX has no signature, and --verify-key requires one; `pintle sign` creates it"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_the_configuration_of_docker() -> Result<()> {
    let registry = Registry::start(Access::Password).await?;
    let workspace = Workspace::new(&registry);
    let host = registry.host();
    let component = build("widgets", "1.0.0");
    let to = format!("oci://{host}/widgets:1");
    workspace.write("a.wasm", &component);
    let log_in = |name: &str, password: &str| {
        let auth = STANDARD.encode(format!("{name}:{password}"));
        workspace.write("docker/config.json", json!({"auths": {&host: {"auth": auth}}}).to_string());
    };
    let push = || workspace.run(&["push", "a.wasm", &to]);
    let none = push().unwrap_err();
    ensure!(none.contains("requires credentials") && none.contains(&format!("docker login {host}")), "{none}");
    log_in(USER.0, "wrong");
    let wrong = push().unwrap_err();
    ensure!(wrong.contains("rejected the credentials"), "{wrong}");
    log_in(USER.0, USER.1);
    let pinned = push().unwrap();
    ensure!(workspace.pull(&pinned, &[]).as_deref() == Ok(component.as_slice()));
    log_in(USER.0, "wrong");
    workspace.rejects(&registry, &pinned, &[], expect!["pintle: oci://REGISTRY/widgets:1@sha256:HEX: REGISTRY rejected the credentials of docker's configuration; run `docker login REGISTRY`"]);

    // A helper, as docker calls it.
    workspace.write("docker/config.json", json!({"credHelpers": {&host: "test"}}).to_string());
    let why = workspace.pull(&pinned, &[]).unwrap_err();
    ensure!(why.contains("cannot be used"), "{why}");
    let answer = json!({"ServerURL": host, "Username": USER.0, "Secret": USER.1});
    std::fs::create_dir(workspace.at("bin"))?;
    let helper = format!("#!/bin/sh\ncat > /dev/null\necho '{answer}'\n");
    process::write_program(&workspace.at("bin/docker-credential-test"), &helper)?;
    ensure!(workspace.pull(&pinned, &[]).as_deref() == Ok(component.as_slice()));
    workspace.write("docker/config.json", "{");
    let why = workspace.pull(&pinned, &[]).unwrap_err();
    ensure!(why.contains("config.json cannot be used"), "{why}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_is_trusted_by_its_certificate_authority() -> Result<()> {
    let registry = Registry::start(Access::Tls).await?;
    let workspace = Workspace::new(&registry);
    let to = format!("oci://{}/widgets:1", registry.host());
    let component = build("widgets", "1.0.0");
    let authority = registry.authority().display().to_string();
    let trusted = ["--registry-ca-file", authority.as_str()];
    let pinned = workspace.push(&component, &to, &trusted);
    ensure!(workspace.pull(&pinned, &trusted).as_deref() == Ok(component.as_slice()));
    workspace.write("other.crt", pintle_tests::registry::other_authority()?);
    let why = workspace.pull(&pinned, &["--registry-ca-file", "other.crt"]).unwrap_err();
    ensure!(why.contains("is signed by an unknown authority") && why.contains("--registry-ca-file"), "{why}");
    let why = workspace.pull(&pinned, &["--plain-http", &registry.host()]).unwrap_err();
    ensure!(why.contains(&registry.host()), "plain HTTP is refused: {why}");
    Ok(())
}

/// A host on the embedded cluster.
struct Fixture {
    client: ApiClient,
    workspace: Workspace,
    host: HostProcess,
}

impl Fixture {
    async fn start(
        workspace: Workspace,
        cluster: &TestCluster,
        controllers: &[&str],
        flags: &[String],
    ) -> Result<Self> {
        std::fs::create_dir_all(workspace.at("plugins"))?;
        let own = [
            HostProcess::controllers(controllers),
            format!("--plugin-dir={}", workspace.at("plugins").display()),
            format!("--admin-socket={}", workspace.at("admin.sock").display()),
            "--install-crd".to_owned(),
            "--grant-requested".to_owned(),
        ];
        let plain = workspace.plain_http.iter().map(|host| format!("--plain-http={host}")).collect::<Vec<_>>();
        let host = cluster.host(&[&own, plain.as_slice(), flags].concat())?;
        host.answers().await?;
        Ok(Fixture { client: cluster.client.clone(), workspace, host })
    }

    /// Runs `pintle plugin ... -o json` in the workspace.
    fn plugin(&self, arguments: &[&str]) -> Result<Value, String> {
        let socket = self.workspace.at("admin.sock").display().to_string();
        let printed =
            self.workspace.run(&[&["plugin"], arguments, &["-o", "json", "--admin-socket", &socket]].concat())?;
        Ok(serde_json::from_str(&printed).unwrap())
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
async fn a_host_with_a_key_runs_only_signed_components_from_every_source() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let cluster = TestCluster::embedded().await?;
    let host = registry.host();
    workspace.run(&["keygen", "ours"]).unwrap();
    workspace.run(&["keygen", "theirs"]).unwrap();
    let at = |version: &str| format!("oci://{host}/widgets:{version}");
    let [first, second, third] = ["1.0.0", "1.0.1", "1.0.2"].map(|version| build("oci-widgets", version));
    let good = workspace.push(&first, &at("1.0.0"), &["--sign-key", "ours.key"]);
    let unsigned = workspace.push(&second, &at("1.0.1"), &[]);
    let foreign = workspace.push(&third, &at("1.0.2"), &["--sign-key", "theirs.key"]);
    let key = format!("--verify-key={}", workspace.at("ours.pub").display());
    let fixture = Fixture::start(workspace, &cluster, &["namespace-controller"], &[key]).await?;
    let name = "oci-widgets";

    // By hand.
    let report = fixture.plugin(&["load", &at("1.0.0")]).map_err(anyhow::Error::msg)?;
    ensure!(report["to"]["origin"] == good.as_str(), "{report}");
    let before = fixture.running(name);
    ensure!(before == (good.clone(), sha256(&first)), "{before:?}");
    for (what, says) in [(&unsigned, "Unsigned: "), (&foreign, "Untrusted: ")] {
        let why = fixture.plugin(&["swap", name, what]).unwrap_err();
        ensure!(why.contains(says) && why.contains(what.as_str()), "{why}");
        ensure!(fixture.running(name) == before, "the running version was touched");
    }
    fixture.workspace.write("second.wasm", &second);
    let why = fixture.plugin(&["swap", name, "second.wasm"]).unwrap_err();
    ensure!(why.contains("Unsigned: ") && fixture.running(name) == before, "{why}");
    fixture.workspace.run(&["sign", "second.wasm", "--sign-key", "theirs.key"]).unwrap();
    let why = fixture.plugin(&["swap", name, "second.wasm"]).unwrap_err();
    ensure!(why.contains("Untrusted: ") && fixture.running(name) == before, "{why}");
    fixture.workspace.run(&["sign", "second.wasm", "--sign-key", "ours.key"]).unwrap();
    fixture.plugin(&["swap", name, "second.wasm"]).map_err(anyhow::Error::msg)?;
    ensure!(fixture.running(name).1 == sha256(&second));
    fixture.workspace.run(&["sign", &unsigned, "--sign-key", "ours.key"]).unwrap();
    fixture.plugin(&["swap", name, &unsigned]).map_err(anyhow::Error::msg)?;
    ensure!(fixture.running(name) == (unsigned.clone(), sha256(&second)));

    // By the folder: the signature may come later.
    let in_folder = build("oci-folder", "1.0.0");
    fixture.workspace.write("oci-folder.wasm", &in_folder);
    fixture.workspace.write("plugins/oci-folder.wasm", &in_folder);
    fixture.until("oci-folder", "refused", |found| found["problems"][0]["reason"] == "Unsigned").await?;
    fixture.workspace.run(&["sign", "oci-folder.wasm", "--sign-key", "ours.key"]).unwrap();
    std::fs::rename(fixture.workspace.at("oci-folder.wasm.sig"), fixture.workspace.at("plugins/oci-folder.wasm.sig"))?;
    fixture
        .until("oci-folder", "taken", |found| found["plugin"]["current"]["digest"] == sha256(&in_folder).as_str())
        .await?;

    // By a resource: from the registry, and from a ConfigMap.
    fixture.resource("oci-resource", json!({"oci": foreign})).await?;
    let (reason, message) = fixture.accepted("oci-resource", "False").await?;
    ensure!(reason == "Untrusted" && message.contains(&foreign), "{reason}: {message}");
    let from_registry = build("oci-resource", "1.0.0");
    let to = format!("oci://{host}/resource:1.0.0");
    let pinned = fixture.workspace.push(&from_registry, &to, &["--sign-key", "ours.key"]);
    fixture.resource("oci-resource", json!({"oci": to})).await?;
    fixture.accepted("oci-resource", "True").await?;
    ensure!(fixture.running("oci-resource").0 == format!("ControllerPlugin oci-resource ({pinned})"));
    let in_map = build("oci-map", "1.0.0");
    let map = |signature: Option<String>| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "oci-map"},
            "binaryData": {"component": STANDARD.encode(&in_map)},
            "data": signature.map(|signature| json!({"component.sig": signature})).unwrap_or_else(|| json!({})),
        })
    };
    let path = "/api/v1/namespaces/default/configmaps/oci-map";
    fixture.client.apply(path, "test", true, &map(None)).await?;
    fixture
        .resource("oci-map", json!({"configMap": {"namespace": "default", "name": "oci-map", "key": "component"}}))
        .await?;
    ensure!(fixture.accepted("oci-map", "False").await?.0 == "Unsigned");
    fixture.workspace.write("map.wasm", &in_map);
    fixture.workspace.run(&["sign", "map.wasm", "--sign-key", "ours.key"]).unwrap();
    let signature = std::fs::read_to_string(fixture.workspace.at("map.wasm.sig"))?;
    fixture.client.apply(path, "test", true, &map(Some(signature))).await?;
    fixture.accepted("oci-map", "True").await?;

    // Compressed, with its signature.
    let packed = build("oci-packed", "1.0.0");
    fixture.workspace.write("packed.wasm", &packed);
    fixture.workspace.run(&["sign", "packed.wasm", "--sign-key", "ours.key"]).unwrap();
    let package = ["package", "packed.wasm", "--config-map", "default/packed", "-o", "packed.yaml", "--format", "json"];
    let report: Value = serde_json::from_str(&fixture.workspace.run(&package).unwrap())?;
    ensure!(report["digest"] == format!("sha256:{}", sha256(&packed)).as_str(), "{report}");
    let text = std::fs::read_to_string(fixture.workspace.at("packed.yaml"))?;
    ensure!(text.len() < packed.len(), "{} of {} bytes", text.len(), packed.len());
    let map: Value = serde_norway::from_str(&text)?;
    fixture.client.apply("/api/v1/namespaces/default/configmaps/packed", "test", true, &map).await?;
    let key = json!({"configMap": {"namespace": "default", "name": "packed", "key": "oci-packed.wasm"}});
    fixture.resource("oci-packed", key).await?;
    fixture.accepted("oci-packed", "True").await?;
    ensure!(fixture.running("oci-packed").1 == sha256(&packed));

    cluster.stop().await;
    Ok(())
}

/// A tag that moves while the host is down: the host runs what it ran, and the built-in controller that it replaced does not run.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_host_runs_the_artifact_that_a_tag_led_to_before() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let cluster = TestCluster::embedded().await?;
    let tag = format!("oci://{}/accounts:1", registry.host());
    let name = "serviceaccount-controller";
    let [first, second] = ["7.0.1", "7.0.2"].map(|version| build(name, version));
    let pinned = workspace.push(&first, &tag, &[]);
    let mut fixture = Fixture::start(workspace, &cluster, &[name], &[]).await?;

    fixture.resource(name, json!({"oci": tag})).await?;
    let (reason, message) = fixture.accepted(name, "False").await?;
    ensure!(
        reason == "Unpinned" && message.contains("@sha256:DIGEST") && message.contains("--verify-key"),
        "{message}"
    );
    ensure!(fixture.running(name).0 == format!("built-in {name}"), "the running version is unchanged");
    fixture.host.kill();
    fixture.host.restart_with(&["--allow-unpinned"])?;
    fixture.host.answers().await?;
    let by_resource = |pinned: &str| format!("ControllerPlugin {name} ({pinned})");
    let origin = by_resource(&pinned);
    fixture.until(name, "taken from the tag", |found| found["plugin"]["current"]["origin"] == origin.as_str()).await?;
    let artifact = json!({"reference": tag, "digest": digest_of(&pinned)});
    eventually(PATIENCE, "the artifact in the status", async || {
        let object = fixture.client.get(&format!("{RESOURCES}/{name}")).await?;
        ensure!(object["status"]["artifact"] == artifact, "{object}");
        Ok(Some(()))
    })
    .await?;

    fixture.host.kill();
    let newer = fixture.workspace.push(&second, &tag, &[]);
    fixture.host.restart()?;
    fixture.host.answers().await?;
    fixture.until(name, "as before", |found| found["plugin"]["current"]["origin"] == origin.as_str()).await?;
    // What the tag names now is taken when the spec says so.
    fixture.resource(name, json!({"oci": newer})).await?;
    let origin = by_resource(&newer);
    fixture.until(name, "the newer one", |found| found["plugin"]["current"]["origin"] == origin.as_str()).await?;

    // The replacement is not available, and nothing runs in its place.
    fixture.host.kill();
    drop(registry);
    std::fs::remove_file(target_dir().join("host-code/oci").join(digest_of(&newer).trim_start_matches("sha256:")))?;
    fixture.host.restart()?;
    fixture.host.answers().await?;
    let (reason, _) = fixture.accepted(name, "False").await?;
    ensure!(reason == "RegistryUnreachable", "{reason}");
    let found = fixture.plugin(&["describe", name]).map_err(anyhow::Error::msg)?;
    ensure!(found["plugin"].is_null(), "{found}");
    fixture.host.kill();
    fixture.host.restart_with(&["--start-claimed"])?;
    fixture.host.answers().await?;
    ensure!(fixture.running(name).0 == format!("built-in {name}"));

    // It is disabled without its component, and comes back with the end of the resource.
    let disable = json!([{"op": "add", "path": "/spec/disabled", "value": true}]);
    fixture.client.patch(&format!("{RESOURCES}/{name}"), PatchKind::Json, &disable).await?;
    fixture.until(name, "disabled", |found| found["plugin"]["phase"] == "Disabled").await?;
    fixture.client.delete(&format!("{RESOURCES}/{name}"), None).await?;
    fixture.until(name, "enabled", |found| found["plugin"]["phase"] == "Running").await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_restarts_while_the_registry_is_down() -> Result<()> {
    let registry = Registry::start(Access::Open).await?;
    let workspace = Workspace::new(&registry);
    let cluster = TestCluster::embedded().await?;
    let host = registry.host();
    workspace.run(&["keygen", "ours"]).unwrap();
    let started = build("oci-started", "1.0.0");
    let tag = format!("oci://{host}/started:1");
    let pinned = workspace.push(&started, &tag, &["--sign-key", "ours.key"]);
    let unsigned = workspace.push(&build("oci-started", "1.0.1"), &format!("oci://{host}/started:2"), &[]);
    let key = format!("--verify-key={}", workspace.at("ours.pub").display());
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    let refused = |what: &str| workspace.run(&["run", &kubeconfig, &key, what]);
    let why = refused(&unsigned).unwrap_err();
    ensure!(why.contains("has no signature"), "{why}");
    workspace.write("unsigned.wasm", &started);
    let why = refused("unsigned.wasm").unwrap_err();
    ensure!(why.contains("unsigned.wasm has no signature"), "{why}");

    let flags = [key.clone(), format!("--plugin={pinned}")];
    let mut fixture = Fixture::start(workspace, &cluster, &["oci-started"], &flags).await?;
    ensure!(fixture.running("oci-started") == (pinned.clone(), sha256(&started)));
    fixture.host.kill();
    drop(registry);
    fixture.host.restart()?;
    fixture.host.answers().await?;
    ensure!(fixture.running("oci-started") == (pinned, sha256(&started)));
    // A tag has to be looked up.
    let why = fixture.workspace.run(&["run", &kubeconfig, &tag]).unwrap_err();
    ensure!(why.contains("cannot connect to"), "{why}");
    cluster.stop().await;
    Ok(())
}
