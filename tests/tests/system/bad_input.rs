//! What the binary says when it is given something wrong: one line that names it and what to do, and exit code 1.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use expect_test::{Expect, expect};
use pintle_tests::ports::free_ports;
use pintle_tests::scenarios::subject::CONTROLLERS;
use pintle_tests::{PATIENCE, eventually, pintle, target_dir};
use tokio::runtime::Runtime;

/// Runs the binary, which must fail with one line; the folder's path is shown as `$DIR`.
fn check(folder: &Path, arguments: &[&str], expected: Expect) {
    check_at_port(folder, arguments, None, expected);
}

/// As [`check`]; the port of a server is shown as `$PORT`, the list of all built-in controllers as `<controllers>`.
fn check_at_port(folder: &Path, arguments: &[&str], port: Option<u16>, expected: Expect) {
    let text = failing(folder, arguments);
    let text = port.map_or(text.clone(), |port| text.replace(&port.to_string(), "$PORT"));
    let text = text.replace(&CONTROLLERS.join(", "), "<controllers>");
    expected.assert_eq(&text);
}

/// As [`check`], for texts that are made in a loop.
fn check_text(folder: &Path, arguments: &[&str], expected: &str) {
    assert_eq!(failing(folder, arguments), expected);
}

fn failing(folder: &Path, arguments: &[&str]) -> String {
    let mut child = pintle::command(arguments)
        .unwrap()
        .current_dir(folder)
        .env_remove("KUBECONFIG")
        .env_remove("KUBERNETES_SERVICE_HOST")
        // Hosts of other tests may listen at the default admin socket.
        .env("XDG_RUNTIME_DIR", folder)
        // No line but the one of the command.
        .env("PINTLE_LOG", "error")
        // Some errors are found after the components are compiled.
        .env("PINTLE_CACHE_DIR", target_dir().join("host-code"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = eventually(PATIENCE, "its end", async || Ok(child.try_wait()?));
    if Runtime::new().unwrap().block_on(ended).is_err() {
        child.kill().unwrap();
        panic!("{arguments:?} was taken for good: {:?}", child.wait_with_output());
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap().replace(&folder.display().to_string(), "$DIR");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty(), "standard output is for answers");
    text
}

fn kubeconfig(folder: &Path, server: &str) {
    let text = format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{{"name": "c", "context": {{"cluster": "c", "user": "u"}}}}],
            "clusters": [{{"name": "c", "cluster": {{"server": "{server}"}}}}],
            "users": [{{"name": "u", "user": {{"token": "wrong"}}}}]}}"#
    );
    std::fs::write(folder.join("kubeconfig"), text).unwrap();
}

/// A component with this manifest (none if empty), and these imports.
fn component(folder: &Path, file: &str, manifest: &str, imports: &str) {
    let mut bytes = wat::parse_str(format!("(component {imports})")).unwrap();
    if !manifest.is_empty() {
        let name = b"pintle:manifest";
        let mut section = leb128(name.len());
        section.extend_from_slice(name);
        section.extend_from_slice(manifest.as_bytes());
        bytes.push(0);
        bytes.extend(leb128(section.len()));
        bytes.extend(section);
    }
    std::fs::write(folder.join(file), bytes).unwrap();
}

fn leb128(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = u8::try_from(n & 0x7f).unwrap();
        n >>= 7;
        if n == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}

const MANIFEST: &str =
    r#"{"name": "widgets", "version": "1", "contract": "0.2", "watches": [], "queues": [{"name": "q"}]}"#;

#[test]
fn no_way_to_the_cluster_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(
        folder,
        &["run"],
        expect![[r#"
        pintle: no cluster: this process is not in a Pod of one (KUBERNETES_SERVICE_HOST is not set); name a kubeconfig with --kubeconfig FILE, for example --kubeconfig ~/.kube/config
    "#]],
    );
    check(
        folder,
        &["run", "--kubeconfig", "missing"],
        expect![[r#"
        pintle: cannot use kubeconfig missing: No such file or directory (os error 2); name another with --kubeconfig FILE
    "#]],
    );
    std::fs::write(folder.join("kubeconfig"), "{").unwrap();
    check(
        folder,
        &["run", "--kubeconfig", "kubeconfig"],
        expect![[r#"
        pintle: cannot use kubeconfig kubeconfig: failed to parse kubeconfig YAML: error: line 1 column 1: unclosed bracket '{'; name another with --kubeconfig FILE
    "#]],
    );
}

#[test]
fn a_server_that_does_not_answer_is_told() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens on it.
    let [port] = free_ports().unwrap();
    kubeconfig(folder.path(), &format!("http://127.0.0.1:{port}"));
    check_at_port(
        folder.path(),
        &["run", "--kubeconfig", "kubeconfig"],
        Some(port),
        expect![[r#"
        pintle: cannot reach the API server at http://127.0.0.1:$PORT/: tcp connect error: Connection refused (os error 111); check that it runs and that the address in the kubeconfig is right
    "#]],
    );
}

#[test]
fn credentials_that_are_refused_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    kubeconfig(folder.path(), &format!("http://127.0.0.1:{port}"));
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let n = stream.read(&mut request).unwrap();
        assert!(String::from_utf8_lossy(&request[..n]).to_lowercase().contains("bearer wrong"));
        let body = r#"{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}"#;
        let head = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
    });
    check_at_port(
        folder.path(),
        &["run", "--kubeconfig", "kubeconfig"],
        Some(port),
        expect![[r#"
        pintle: the API server at http://127.0.0.1:$PORT/ does not accept these credentials (Unauthorized); check the user of the kubeconfig's context
    "#]],
    );
    server.join().unwrap();
}

#[test]
fn a_component_that_is_of_no_use_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(
        folder,
        &["inspect", "missing.wasm"],
        expect![[r#"
        pintle: read missing.wasm: No such file or directory (os error 2)
    "#]],
    );
    std::fs::write(folder.join("text.wasm"), "hello").unwrap();
    check(
        folder,
        &["inspect", "text.wasm"],
        expect![[r#"
        pintle: text.wasm: this is not WebAssembly; name the file of a component, which `pintle build FOLDER` creates from a plugin
    "#]],
    );
    check(
        folder,
        &["dev", "text.wasm"],
        expect![[r#"
        pintle: text.wasm: this is not WebAssembly; name the file of a component, which `pintle build FOLDER` creates from a plugin
    "#]],
    );
    std::fs::write(folder.join("module.wasm"), wat::parse_str("(module)").unwrap()).unwrap();
    check(
        folder,
        &["dev", "module.wasm"],
        expect![[r#"
            pintle: module.wasm: this is a core WebAssembly module, not a component (build it with `pintle build`, or convert it with `wasm-tools component new`)
        "#]],
    );
    component(folder, "bare.wasm", "", "");
    check(
        folder,
        &["dev", "bare.wasm"],
        expect![[r#"
        pintle: bare.wasm: the component has no manifest (custom section "pintle:manifest" at its top level); add it with `pintle package FILE --manifest manifest.yaml -o OUTPUT`
    "#]],
    );
    component(folder, "field.wasm", &MANIFEST.replace("watches", "watch"), "");
    check(
        folder,
        &["dev", "field.wasm"],
        expect![[r#"
        pintle: field.wasm: the manifest does not parse: unknown field `watch`, expected one of `name`, `aliases`, `version`, `contract`, `description`, `eventSource`, `events`, `instances`, `discovery`, `watches`, `queues`, `grants`, `config`, `endpoints`, `metrics`, `limits`, `builtIn` at line 1 column 62
    "#]],
    );
    component(folder, "contract.wasm", &MANIFEST.replace("0.2", "7.0"), "");
    check(
        folder,
        &["dev", "contract.wasm"],
        expect![[r#"
        pintle: contract.wasm: the manifest is not valid: contract: the plugin is for contract "7.0", and this host supports 0.2: build it with the SDK of this host
    "#]],
    );
    component(folder, "import.wasm", MANIFEST, r#"(import "wasi:http/incoming-handler@0.2.0" (instance))"#);
    check(
        folder,
        &["dev", "import.wasm"],
        expect![[r#"
        pintle: import.wasm: component imports wasi:http/incoming-handler@0.2.0, which this host does not offer; allowed are pintle:controller/log@0.2.0, pintle:controller/types@0.2.0, pintle:controller/view@0.2.0, and interfaces of WASI 0.2; a plugin neither serves nor calls a network: it reads through the lister, asks for more with needs, and writes with its outcome
    "#]],
    );
    component(folder, "empty.wasm", MANIFEST, "");
    check(
        folder,
        &["dev", "empty.wasm"],
        expect![[r#"
        pintle: empty.wasm: component exports no function "reconcile" (it exports nothing)
    "#]],
    );
    let plugin = pintle_tests::workspace_dir().join("target/plugins/serviceaccount-controller.wasm");
    for copy in ["one.wasm", "two.wasm"] {
        std::fs::copy(&plugin, folder.join(copy)).unwrap();
    }
    check(
        folder,
        &["dev", "one.wasm", "two.wasm"],
        expect![[r#"
        pintle: one.wasm and two.wasm are both plugin "serviceaccount-controller"; remove one, or change `name` in its manifest
    "#]],
    );
    std::fs::create_dir(folder.join("folder")).unwrap();
    check(
        folder,
        &["dev", "folder"],
        expect![[r#"
        pintle: folder folder holds no .wasm file
    "#]],
    );
}

#[test]
fn a_host_that_cannot_be_asked_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(
        folder,
        &["plugin", "list", "--admin-socket", "missing"],
        expect![[r#"
        pintle: cannot reach a Pintle host at missing: start `pintle run` or `pintle dev`, or name its socket with --admin-socket PATH
    "#]],
    );
    drop(std::os::unix::net::UnixListener::bind(folder.join("dead")).unwrap());
    check(
        folder,
        &["plugin", "list", "--admin-socket", "dead"],
        expect![[r#"
        pintle: the host that listened at dead has ended: start it again, or name another socket with --admin-socket PATH
    "#]],
    );
    std::fs::write(folder.join("file"), "").unwrap();
    check(
        folder,
        &["plugin", "describe", "x", "--admin-socket", "file"],
        expect![[r#"
        pintle: file is not a socket; name the host's socket with --admin-socket PATH
    "#]],
    );
    check(
        folder,
        &["plugin", "swap", "x", "missing.wasm", "--admin-socket", "dead"],
        expect![[r#"
        pintle: read missing.wasm: No such file or directory (os error 2)
    "#]],
    );
    std::fs::write(folder.join("spec.yaml"), "colour: red").unwrap();
    check(
        folder,
        &["plugin", "load", "file", "--spec", "spec.yaml", "--admin-socket", "dead"],
        expect![[r#"
        pintle: spec.yaml: colour: unknown field `colour`, expected one of `digest`, `config`, `grants`, `ungranted`, `limits`, `strategy`, `failurePolicy`, `disabled`
    "#]],
    );
    check(
        folder,
        &["plugin", "swap", "x", "file", "--probation-for", "5", "--admin-socket", "dead"],
        expect![[r#"
        pintle: invalid value '5' for '--probation-for <DURATION>': write a duration such as 90s, 5m or 1h30m; see --help
    "#]],
    );
}

#[test]
fn kinds_and_definitions_that_are_of_no_use_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let new = ["new", "teams", "--lang", "go"];
    check(
        folder,
        &[&new[..], &["--kind", "v1/Pod"]].concat(),
        expect![[r#"
            pintle: --kind v1/Pod: Pod of v1 is a kind of Kubernetes; your own has a group: example.org/v1/Pod
        "#]],
    );
    check(
        folder,
        &[&new[..], &["--kind", "Team"]].concat(),
        expect![[r#"
        pintle: --kind "Team" is not GROUP/VERSION/KIND, for example example.org/v1/Team
    "#]],
    );
    check(
        folder,
        &[&new[..], &["--kind", "example.org/v1/Format"]].concat(),
        expect![[r#"
        pintle: --kind example.org/v1/Format: Format is taken in a project in Go; choose another name
    "#]],
    );
    check(
        folder,
        &[&new[..], &["--plural", "people"]].concat(),
        expect![[r#"
        pintle: the following required arguments were not provided: --kind <GROUP/VERSION/KIND>; see `pintle new --help`
    "#]],
    );
    check(
        folder,
        &[&new[..], &["--kind", "example.org/v1/Team", "--plural", "Teams"]].concat(),
        expect![[r#"
        pintle: --plural "Teams" is not a name in URLs: lowercase letters, digits and -, at most 63, a letter first and no - last
    "#]],
    );
    check(
        folder,
        &["crds", "none"],
        expect![[r#"
        pintle: read none: No such file or directory (os error 2)
    "#]],
    );
    check(
        folder,
        &["dev", "--crds", "none"],
        expect![[r#"
        pintle: read --crds none: No such file or directory (os error 2)
    "#]],
    );
    assert!(!folder.join("teams").exists());
}

/// The warning comes before the tools are looked for, of which there are none.
#[test]
fn a_clock_and_a_network_in_the_sources_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let manifest = "name: web\nversion: 0.1.0\ncontract: \"0.2\"\nwatches: []\nqueues: [{name: web}]\n";
    for (file, text) in
        [("manifest.yaml", manifest), ("go.mod", ""), ("main.go", "package main\n\nvar at = time.Now()\n")]
    {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let mut build = pintle::command(["build"]).unwrap();
    let answer = pintle::Answer::of(build.arg(folder).env("PATH", folder)).unwrap();
    expect![[r#"
        main.go:3: warning: time.Now: a plugin has no clock; lister.Now() is the time of the run
        pintle: there is no Go compiler: install Go 1.26 or newer (https://go.dev/dl) and put it on PATH
    "#]]
    .assert_eq(&answer.errors);
}

#[test]
fn arguments_that_mean_nothing_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Before a kubeconfig is read.
    check(
        folder,
        &["run", "--controllers", "deploymnt", "--kubeconfig", "nowhere"],
        expect![[r#"
            pintle: --controllers: no controller is called deploymnt (did you mean deployment?); known are <controllers>
        "#]],
    );
    check(
        folder,
        &["dev", "--controllers", "deploymnt"],
        expect![[r#"
            pintle: --controllers: no controller is called deploymnt (did you mean deployment?); known are <controllers>
        "#]],
    );
    check(
        folder,
        &["dev", "--controllers", "-*"],
        expect![[r#"
            pintle: --controllers: no controller is called *; known are <controllers>
        "#]],
    );
    check(
        folder,
        &["dev", "--controllers", "-deployment"],
        expect![[r#"
            pintle: --controllers="-deployment" enables no controller; known are <controllers>
        "#]],
    );
    check(
        folder,
        &["dev", "--set", "deployment"],
        expect![[r#"
        pintle: --set "deployment": write CONTROLLER.SETTING=VALUE
    "#]],
    );
    check(
        folder,
        &["dev", "--set", "nobody.x=1"],
        expect![[r#"
            pintle: --set "nobody.x=1": there is no controller "nobody"; known are <controllers>
        "#]],
    );
    check(
        folder,
        &["dev", "--set", "deployment.x=1"],
        expect![[r#"
            pintle: start plugin deployment-controller: plugin "deployment-controller": setting "x" does not exist; known are terminatingReplicas
        "#]],
    );
    check(
        folder,
        &["dev", "--log", "info,="],
        expect![[r#"
        pintle: --log "info,=" is not a filter: use error, warn, info, debug, trace, or info,TARGET=debug: invalid filter directive
    "#]],
    );
    check(
        folder,
        &["dev", "--plugin-dir", "missing"],
        expect![[r#"
        pintle: read the plugin folder missing: No such file or directory (os error 2)
    "#]],
    );
    check(
        folder,
        &["dev", "--plugin", "."],
        expect![[r#"
        pintle: --plugin . has no manifest.yaml: name the folder of a plugin, or a component
    "#]],
    );
    check(
        folder,
        &["dev", "--kubeconfig", "missing/kubeconfig"],
        expect![[r#"
        pintle: write missing/kubeconfig; choose another file with --kubeconfig: No such file or directory (os error 2)
    "#]],
    );
}

#[test]
fn a_value_out_of_range_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for flag in [
        "--concurrent-deployment-syncs",
        "--concurrent-replicaset-syncs",
        "--concurrent-rc-syncs",
        "--concurrent-gc-syncs",
        "--concurrent-namespace-syncs",
        "--kube-api-burst",
    ] {
        let expected = format!("pintle: invalid value '0' for '{flag} <N>': 0 is not in 1..=2147483647; see --help\n");
        check_text(folder, &["dev", flag, "0"], &expected);
    }
    check(
        folder,
        &["run", "--concurrent-gc-syncs", "-3"],
        expect![[r#"
        pintle: invalid value '-3' for '--concurrent-gc-syncs <N>': -3 is not in 1..=2147483647; see --help
    "#]],
    );
    check(
        folder,
        &["run", "--concurrent-gc-syncs", "many"],
        expect![[r#"
        pintle: invalid value 'many' for '--concurrent-gc-syncs <N>': invalid digit found in string; see --help
    "#]],
    );
    check(
        folder,
        &["dev", "--max-limits", "memoryBytes=100000000", "--kubeconfig", "k"],
        expect![[r#"
        pintle: built-in certificatesigningrequest-cleaner-controller: limits.memoryBytes: 268435456 is more than the maximum of 100000000; request less, or raise the maximum with `--max-limits memoryBytes=NUMBER`
    "#]],
    );
    check(
        folder,
        &["run", "--kube-api-qps", "nan"],
        expect![[r#"
        pintle: invalid value 'nan' for '--kube-api-qps <N>': write a number such as 20, or 0 for no limit; see --help
    "#]],
    );
    for (flag, value) in [("--namespace-sync-period", "-5m"), ("--controller-start-interval", "5")] {
        let expected = format!(
            "pintle: invalid value '{value}' for '{flag} <DURATION>': write a duration such as 90s, 5m or 1h30m; see --help\n"
        );
        check_text(folder, &["run", flag, value], &expected);
    }
    check(
        folder,
        &["run", "--enable-garbage-collector=perhaps"],
        expect![[r#"
            pintle: invalid value 'perhaps' for '--enable-garbage-collector[=<BOOL>]' [possible values: true, false]
        "#]],
    );
    check(
        folder,
        &["run", "--concurrent-deploymnt-syncs", "5"],
        expect![[r#"
            pintle: unexpected argument '--concurrent-deploymnt-syncs' found; tip: a similar argument exists: '--concurrent-deployment-syncs'; see `pintle run --help`
        "#]],
    );
    kubeconfig(folder, "http://127.0.0.1:1");
    std::fs::write(folder.join("ca.pem"), "hello").unwrap();
    check(
        folder,
        &["run", "--kubeconfig", "kubeconfig", "--root-ca-file", "ca.pem"],
        expect![[r#"
        pintle: --root-ca-file ca.pem contains no certificates; name a bundle of certificates in PEM
    "#]],
    );
    check(
        folder,
        &["dev", "--controllers", "garbagecollector", "--enable-garbage-collector=false"],
        expect![[r#"
            pintle: --controllers="garbagecollector" enables no controller; known are <controllers>; garbage-collector-controller does not start: --enable-garbage-collector is false; --enable-garbage-collector=true starts it
        "#]],
    );
}

/// A user of an image or a release asks it for what only the build for desks has.
#[test]
fn a_command_that_only_desks_have_is_named_with_its_build() -> anyhow::Result<()> {
    let host = pintle::host_binary()?;
    let answer = pintle::Answer::of(std::process::Command::new(host).arg("dev"))?;
    assert_eq!((answer.code, answer.errors.lines().count()), (Some(1), 1), "{answer:?}");
    for words in
        ["unrecognized subcommand 'dev'", "The build for desks has `pintle dev`", "`cargo xtask build --release`"]
    {
        assert!(answer.errors.contains(words), "{answer:?}");
    }
    Ok(())
}
