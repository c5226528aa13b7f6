//! Tests files against the real command line, with the flags of the repository's controllers.

use std::any::TypeId;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use expect_test::{Expect, expect, expect_file};
use serde_json::{Value, json};

use super::fields::Form;
use super::testing::{catalogue, fields, run_command};
use super::*;
use crate::cli::rbac::RbacArgs;
use crate::cli::{Cli, Command as Verb, RunArgs};

const HEAD: &str = "apiVersion: pintle.dev/v1alpha1\nkind: HostConfiguration\n";

/// The arguments of a file in the folder `/etc/pintle`, or all its errors.
fn translated(body: &str) -> String {
    let file = File::of("host.yaml", Path::new("/etc/pintle"), &format!("{HEAD}{body}"));
    let file = match file {
        Ok(file) => file,
        Err(why) => return format!("{}\n", output::one_line(&why)),
    };
    match arguments::translate(&file, &fields(), &run_command()) {
        Ok(arguments) => arguments.iter().map(|one| format!("--{}={}\n", one.flag, one.value)).collect::<String>(),
        Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
    }
}

fn check(body: &str, expected: Expect) {
    expected.assert_eq(&translated(body));
}

#[test]
fn fields_become_flags_with_paths_from_the_folder_of_the_file() {
    check(
        "
clientConnection: {kubeconfig: kubeconfig, qps: 0.5, burst: 50}
leaderElection: {leaderElect: false, leaseDuration: 30s, groups: {gc: [garbagecollector, namespace], own: [a]}}
controllers: ['*', -garbage-collector-controller]
featureGates: {AllAlpha: true, AllBeta: false}
plugins:
  components: [oci://registry.example.com/widgets:1, widgets.wasm, /gadgets.wasm]
  maxLimits: {deadlineMs: 2000, mutations: 5}
  verifyKeyFiles: [a.pub, b.pub]
adminSocket: off
serving: {securePort: 0, plainAddress: '127.0.0.1:8080', tls: {cipherSuites: []}}
authorization: {alwaysAllowPaths: []}
logging: {filter: 'info,pintle=debug', format: json}
controllerConfiguration:
  deployment-controller: {concurrentDeploymentSyncs: 7}
  serviceaccount-token-controller: {rootCAFile: ca.pem}
  widgets: {settings: {prefix: w-, ca: {file: ca.pem}, n: 5, names: [a, b]}}
",
        expect![[r#"
            --kubeconfig=/etc/pintle/kubeconfig
            --kube-api-qps=0.5
            --kube-api-burst=50
            --leader-elect=false
            --leader-elect-lease-duration=30s
            --leader-elect-group=gc=garbagecollector,namespace
            --leader-elect-group=own=a
            --controllers=*,-garbage-collector-controller
            --feature-gates=AllAlpha=true
            --feature-gates=AllBeta=false
            --plugin=oci://registry.example.com/widgets:1
            --plugin=/etc/pintle/widgets.wasm
            --plugin=/gadgets.wasm
            --max-limits=deadlineMs=2000,mutations=5
            --verify-key=/etc/pintle/a.pub
            --verify-key=/etc/pintle/b.pub
            --admin-socket=off
            --secure-port=0
            --serve=127.0.0.1:8080
            --authorization-always-allow-paths=
            --log=info,pintle=debug
            --log-format=json
            --concurrent-deployment-syncs=7
            --root-ca-file=/etc/pintle/ca.pem
            --set=widgets.prefix="w-"
            --set=widgets.ca={"file":"/etc/pintle/ca.pem"}
            --set=widgets.n=5
            --set=widgets.names=["a","b"]
        "#]],
    );
    check(
        "adminSocket: admin.sock\nclientConnection: {kubeconfig: 'a:/b'}",
        expect![[r#"
        --admin-socket=/etc/pintle/admin.sock
        --kubeconfig=/etc/pintle/a:/b
    "#]],
    );
    check("serving:\ncontrollers:\nclientConnection: {qps: }\ncontrollerConfiguration: {widgets: }", expect![""]);
}

#[test]
fn everything_that_is_wrong_is_reported_with_its_field() {
    check(
        "
clientConnection: {qps: fast, burst: 0, contxt: a}
leaderElection: {leaseDuration: 15, renewDeadline: 10, retryPeriod: 1 week, resourceLock: endpoints, groups: {gc: a, GC: [a], b: [5]}}
controllers: '*'
featureGates: {AllAlpha: 'yes', NoSuchGate: true}
kube-api-qps: 5
clientCAFile: ca.pem
plugins: {maxLimits: {cpu: 1, mutations: -1}, class: Blue, installCRD: yes please, memoryBytes: 1.5, memory: 1}
serving:
  securePort: 70000
  bindAddress: localhost
  tls: {minVersion: VersionTLS11, cipherSuites: [NONE], certFile: 7}
authorization: {alwaysAllowPaths: ['/a,/b', 5]}
authentication: none
controllerConfiguration:
  deployment-controller: {concurrentDeploymentSyncs: 0, concurrentSyncs: 5, settings: 7}
  widgets: {prefix: w-}
logging: {format: xml}
",
        expect![[r#"
            clientConnection.qps: must be a number, not "fast"
            clientConnection.burst: "0": 0 is not in 1..=2147483647
            clientConnection.contxt: unknown field; did you mean context?
            leaderElection.leaseDuration: must be a duration with its unit, such as 15s, not 15
            leaderElection.renewDeadline: must be a duration with its unit, such as 10s, not 10
            leaderElection.retryPeriod: "1 week": write a duration such as 90s, 5m or 1h30m
            leaderElection.resourceLock: "endpoints" is not one of leases
            leaderElection.groups.gc: must be a list of text, not "a"
            leaderElection.groups.GC: "GC=a": "GC" is not a name of a group: write up to 63 of a-z, 0-9 and `-`
            leaderElection.groups.b: must be a list of text, not a list
            controllers: must be a list, not "*": write ["*"]
            featureGates.AllAlpha: must be true or false, not "yes"
            featureGates.NoSuchGate: "NoSuchGate=true": unrecognized feature gate: NoSuchGate
            kube-api-qps: unknown field; did you mean clientConnection.qps?
            clientCAFile: unknown field; did you mean authentication.x509.clientCAFile?
            plugins.maxLimits.mutations: must be a whole number, not -1
            plugins.maxLimits: "cpu=1": unknown field `cpu`, expected one of `deadlineMs`, `memoryBytes`, `mutations`, `outcomeBytes`, `hostCalls`, `readBytes`, `answerBytes`, `logLines`, `stateBytes`, `series`
            plugins.class: "Blue": write up to 63 of a-z, 0-9 and `-`, for example blue
            plugins.installCRD: must be true or false, not "yes please"
            plugins.memoryBytes: must be a whole number, not 1.5
            plugins.memory: unknown field; did you mean memoryBytes?
            serving.securePort: "70000": 70000 is not in 0..=65535
            serving.bindAddress: "localhost": invalid IP address syntax
            serving.tls.minVersion: "VersionTLS11": write VersionTLS12 or VersionTLS13; older versions are not secure
            serving.tls.cipherSuites[0]: "NONE": write some of TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256, TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
            serving.tls.certFile: must be text, not 7: write it in quotes
            authorization.alwaysAllowPaths[0]: "/a,/b" contains ',': write one entry for each
            authorization.alwaysAllowPaths[1]: must be text, not 5: write it in quotes
            authentication: must be a map of fields, not "none"
            controllerConfiguration.deployment-controller.concurrentDeploymentSyncs: "0": 0 is not in 1..=2147483647
            controllerConfiguration.deployment-controller.concurrentSyncs: unknown field; fields there are concurrentDeploymentSyncs, settings, endpoints
            controllerConfiguration.deployment-controller.settings: must be a map, not 7
            controllerConfiguration.widgets.prefix: unknown field; fields there are settings, endpoints
            logging.format: "xml" is not one of text, json
        "#]],
    );
}

#[test]
fn fields_of_flags_that_are_not_in_the_file_are_unknown() {
    check(
        "config: other.yaml\nset: []",
        expect![[r#"
        config: unknown field; --config has none: it names the file
        set: unknown field; --set has none: `controllerConfiguration.NAME.settings` has the settings of controllers
    "#]],
    );
}

/// Parses a command line whose FILE has this text.
fn parsed(words: &[&str], body: &str) -> Result<Verb, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.yaml");
    fs::write(&path, format!("{HEAD}{body}")).unwrap();
    let path = path.to_str().unwrap();
    let words = ["pintle"].iter().chain(words).map(|word| OsString::from(word.replace("FILE", path)));
    match parse::<Cli>(words) {
        Ok(cli) => Ok(cli.command),
        Err(Refusal::Usage(why, given)) => Err(output::refused(&why, &given)),
        Err(Refusal::File(why)) => Err(output::one_line(&why).replace(path, "host.yaml")),
    }
}

fn run(words: &[&str], body: &str) -> RunArgs {
    match parsed(&[&["run", "--config=FILE"], words].concat(), body) {
        Ok(Verb::Run(args)) => *args,
        other => panic!("{other:?}"),
    }
}

fn rbac(words: &[&str], body: &str) -> RbacArgs {
    match parsed(&[&["rbac", "--config", "FILE"], words].concat(), body) {
        Ok(Verb::Rbac(args)) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn flags_take_precedence_over_the_file_and_the_file_over_defaults() {
    let body = "clientConnection: {qps: 5, burst: 6}\ncontrollers: [a]\nleaderElection: {leaderElect: true}\nplugins: {components: [a.wasm]}";
    let args = run(&["--kube-api-qps=7", "--leader-elect=false"], body);
    assert_eq!((args.plugins.kube_api_qps, args.plugins.kube_api_burst), (7.0, 6));
    assert_eq!(args.leader.lease.leader_elect, Some(false));
    assert_eq!(args.plugins.controllers, ["a"]);
    assert_eq!(args.serving.secure_port, 10257);
    assert_eq!(args.more_plugins.len(), 1);
    assert_eq!(run(&["--controllers=b,c"], body).plugins.controllers, ["b", "c"]);
    for words in [["b.wasm", "c.wasm"], ["--plugin=b.wasm", "--plugin=c.wasm"]] {
        let args = run(&words, body);
        assert_eq!(args.plugins.plugins.len() + args.more_plugins.len(), 2, "components are replaced");
    }
}

#[test]
fn maps_are_merged_by_key() {
    let body = "featureGates: {AllAlpha: true, AllBeta: false}\ncontrollerConfiguration: {a: {settings: {b: 1, c: 2}}}";
    let args = run(&["--feature-gates=AllBeta=true", "--set=a.b=3"], body);
    let expected = crate::flags::gates::parse("AllAlpha=true,AllBeta=true").unwrap();
    assert_eq!(args.plugins.controller_flags.gates, expected);
    // If a setting is given twice, the last value is used.
    assert_eq!(args.plugins.settings, ["a.b=1", "a.c=2", "a.b=3"]);
}

#[test]
fn what_is_wrong_with_both_together_names_the_fields() {
    let problem = |words: &[&str], body: &str| parsed(&[&["run", "--config=FILE"], words].concat(), body).err();
    let check = |words: &[&str], body: &str, expected: Expect| {
        expected.assert_eq(&problem(words, body).unwrap());
    };
    check(
        &[],
        "serving: {tls: {certFile: tls.crt}}",
        expect![
            "host.yaml: the following required arguments were not provided: --tls-private-key-file <FILE>; see `pintle run --help`; in host.yaml, --tls-private-key-file is serving.tls.privateKeyFile"
        ],
    );
    check(
        &[],
        "clientConnection: {qps: fast}",
        expect![[r#"host.yaml: clientConnection.qps: must be a number, not "fast""#]],
    );
    check(
        &[],
        "a: 1\nb: 2",
        expect![
            "host.yaml: 2 errors: a: unknown field; fields there are clientConnection, leaderElection, controllers, controllerStartInterval, controllerShutdownTimeout, useServiceAccountCredentials, besideKubeControllerManager, emulatedVersion, featureGates, plugins, adminSocket, serving, authentication, authorization, logging, metrics, tracing, controllerConfiguration; b: unknown field; fields there are clientConnection, leaderElection, controllers, controllerStartInterval, controllerShutdownTimeout, useServiceAccountCredentials, besideKubeControllerManager, emulatedVersion, featureGates, plugins, adminSocket, serving, authentication, authorization, logging, metrics, tracing, controllerConfiguration"
        ],
    );
    check(
        &["--kube-api-qps=fast"],
        "",
        expect![
            "invalid value 'fast' for '--kube-api-qps <N>': write a number such as 20, or 0 for no limit; see --help"
        ],
    );
    // A required value that is missing on the command line may be in the file.
    assert_eq!(problem(&["--tls-cert-file=a"], "serving: {tls: {privateKeyFile: b}}"), None);
    let missing = parsed(&["run", "--config=/does/not/exist"], "").err();
    expect!["read --config: read /does/not/exist: No such file or directory (os error 2)"].assert_eq(&missing.unwrap());
}

#[test]
fn an_error_about_a_flag_names_the_field_that_set_it() {
    let args = run(
        &["--leader-elect-retry-period=9s"],
        "leaderElection: {renewDeadline: 10s, retryPeriod: 1s}\ncontrollerConfiguration: {a: {settings: {b: {c: 1}, d: 2}}}",
    );
    let explain = |text: &str| {
        let text = args.of_file.explain(anyhow::anyhow!("{text}")).to_string();
        let (path, rest) = text.split_once("; in ").map_or(("", ""), |(_, rest)| rest.split_once(", ").unwrap());
        assert!(path.is_empty() || path.ends_with("/host.yaml"), "{text}");
        rest.to_owned()
    };
    assert_eq!(
        explain("--leader-elect-renew-deadline: 1s is little"),
        "--leader-elect-renew-deadline is leaderElection.renewDeadline"
    );
    assert_eq!(explain("--leader-elect-renew-deadlines and --leader-elect-retry-period"), "");
    assert_eq!(explain(r#"--set "a.b={\"c\":1}": no"#), "--set is controllerConfiguration.a.settings.b");
}

#[test]
fn rbac_reads_what_matters_to_roles() {
    let body = "
clientConnection: {kubeconfig: kubeconfig, qps: 5}
leaderElection: {leaderElect: true, resourceName: blue, leaseDuration: 30s}
controllers: [deployment]
useServiceAccountCredentials: true
plugins: {components: [a.wasm], class: blue}
";
    let args = rbac(&[], body);
    assert_eq!(args.lease.leader_elect_resource_name.as_deref(), Some("blue"));
    assert_eq!(
        (args.controllers, &*args.plugin_class, args.use_service_account_credentials),
        (vec!["deployment".to_owned()], "blue", true)
    );
    assert_eq!(args.plugins.len(), 1);
    assert_eq!(args.kubeconfig, None, "roles are printed without a cluster");
    let args = rbac(&["--plugin-class=green", "b.wasm", "c.wasm"], body);
    assert_eq!((&*args.plugin_class, args.plugins.len()), ("green", 2));
}

#[test]
fn the_effective_configuration_is_a_file_with_the_same_effect() {
    let words = [
        "pintle",
        "run",
        "--kubeconfig=/a:/b",
        "--controllers=*,-a",
        "--set=a.b=secret",
        "--set=a.n=5",
        "--max-limits=mutations=5",
        "--feature-gates=AllAlpha=1",
        "--kube-api-qps=0.5",
        "--plugin=/p.wasm",
        "oci://registry.example.com/w:1",
        "--serve=127.0.0.1:80",
        "--authorization-always-allow-paths=/a,/b",
        "--admin-socket=off",
        "--tls-cert-file=/a",
        "--tls-private-key-file=/b",
        "--concurrent-deployment-syncs=7",
        "--leader-elect-group=gc=garbagecollector, namespace",
        "--leader-elect-group=own=a",
    ];
    let of = |words: Vec<String>| {
        let command = run_command();
        let matches = command.clone().no_binary_name(true).try_get_matches_from(words).unwrap();
        Effective::of_subcommand(&command, &matches, catalogue())
    };
    let first = of(words[2..].iter().map(|word| (*word).to_owned()).collect());
    let file = first.file(true);
    let text = serde_norway::to_string(&file).unwrap();
    let again = File::of("host.yaml", Path::new("/elsewhere"), &text).unwrap();
    let again = arguments::translate(&again, &fields(), &run_command()).unwrap();
    let second = of(again.iter().map(|one| format!("--{}={}", one.flag, one.value)).collect());
    assert_eq!(second.file(true), file, "{text}");
    assert_eq!(file["controllerConfiguration"]["a"]["settings"], json!({"b": "secret", "n": 5}));
    assert_eq!(file["controllerConfiguration"]["deployment-controller"]["concurrentDeploymentSyncs"], 7);
    assert_eq!(file["featureGates"], json!({"AllAlpha": true}));
    assert_eq!(file["leaderElection"]["groups"], json!({"gc": ["garbagecollector", "namespace"], "own": ["a"]}));
    assert_eq!(file["plugins"]["components"], json!(["oci://registry.example.com/w:1", "/p.wasm"]));
    assert!(!first.file(false).to_string().contains("secret"));
}

#[test]
fn flags_are_shown_with_their_defaults_and_without_secrets() {
    let command = run_command();
    let words = ["--kube-api-qps=7", "--set=a.b=secret", "--controllers=a,b", "widgets.wasm"];
    let matches = command.clone().no_binary_name(true).try_get_matches_from(words).unwrap();
    let effective = Effective::of_subcommand(&command, &matches, catalogue());
    let flags = effective.flags();
    let shown = |name: &str| flags.get(name).map(String::as_str);
    assert_eq!(shown("kube-api-qps"), Some("7"));
    assert_eq!(shown("secure-port"), Some("10257"));
    assert_eq!(shown("authorization-always-allow-paths"), Some("/healthz,/readyz,/livez"));
    assert_eq!(shown("controllers"), Some("a,b"));
    assert_eq!(shown("set"), Some("CLASSIFIED"));
    assert_eq!(shown("tls-cert-file"), Some(""));
    assert!(!flags.values().any(|value| value.contains("secret")), "{flags:?}");
    assert_eq!(shown("help"), None);
    // Fields of controllers, with the defaults of their manifests.
    assert_eq!(shown("concurrent-deployment-syncs"), Some("5"));
    assert_eq!(
        flags.len(),
        command.get_arguments().filter(|arg| arg.get_long().is_some_and(|name| name != "help")).count()
    );
}

/// The page about the file.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
const BEGIN: &str = "<!-- The tables are generated: cargo xtask generate host -->\n";
const END: &str = "<!-- End of the tables. -->\n";

/// The type of a field in the documentation.
fn noun(field: &fields::Field) -> String {
    let is = |of: TypeId| field.arg.get_value_parser().type_id() == of;
    let one = match field.form() {
        Form::Boolean => "boolean",
        Form::Integer => "integer",
        Form::Number => "number",
        Form::Duration => "duration",
        Form::Path | Form::Kubeconfig => "path",
        Form::Component => "path, or `oci://REF`",
        Form::Socket => "path, or `off`",
        Form::Gates => "map of booleans",
        Form::Limits => "map of integers",
        Form::Groups => "map of lists",
        Form::Text if is(TypeId::of::<IpAddr>()) => "IP address",
        Form::Text if is(TypeId::of::<SocketAddr>()) => "`IP:PORT`",
        Form::Text => "string",
    };
    let valid = match field.form() {
        Form::Text => schema::possible(&field.arg),
        _ => Vec::new(),
    };
    let one = if valid.is_empty() { one.to_owned() } else { format!("`{}`", valid.join("`, `")) };
    if field.is_list() { format!("list; {one}") } else { one }
}

/// A table for each group of fields.
fn tables() -> String {
    let cell = |text: String| text.replace('|', "\\|").replace('<', "&lt;");
    let mut page = String::new();
    let mut group = String::new();
    for field in fields() {
        let of = if field.path.len() == 1 { "The host" } else { &field.path[0] };
        if *of != *group {
            group = of.to_owned();
            let title = if field.path.len() == 1 { group.clone() } else { format!("`{group}`") };
            page += &format!(
                "\n### {title}\n\n| field | type | default | flag | meaning |\n| --- | --- | --- | --- | --- |\n"
            );
        }
        let defaults: Vec<_> = field.arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let default = match &field.default {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => defaults.join(","),
        };
        let default = if default.is_empty() { default } else { format!("`{default}`") };
        let name = field.path[usize::from(field.path.len() > 1)..].join(".");
        let about = schema::about(&field.arg);
        // The description of a controller's flag ends with its default.
        let about =
            field.default.as_ref().and_then(|_| about.rsplit_once(" [default: ")).map_or(&*about, |(about, _)| about);
        page += &format!(
            "| `{name}` | {} | {default} | `--{}` | {} |\n",
            noun(&field),
            field.flag(),
            cell(about.to_owned())
        );
    }
    page + "\n"
}

#[test]
fn the_page_lists_every_field() {
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    expect_file![PAGE].assert_eq(&format!("{before}{BEGIN}{}{END}{after}", tables()));
    for (flag, why) in fields::NOT_IN_FILE {
        assert!(page.contains(&format!("| `--{flag}` | {why} |\n")), "--{flag} has no line on the page");
    }
}

#[test]
fn the_examples_of_the_page_are_accepted() {
    let page = fs::read_to_string(PAGE).unwrap();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let file = File::of("host.yaml", Path::new("/etc/pintle"), block).unwrap();
        let arguments = arguments::translate(&file, &fields(), &run_command()).unwrap();
        let words = arguments.iter().map(|one| format!("--{}={}", one.flag, one.value));
        run_command().no_binary_name(true).try_get_matches_from(words).unwrap();
    }
}

#[test]
fn a_file_that_fits_the_schema_is_accepted() {
    let schema = schema::of(&fields());
    assert_eq!(schema["properties"]["leaderElection"]["properties"]["leaderElect"]["type"], "boolean");
    assert_eq!(schema["properties"]["logging"]["properties"]["format"]["enum"], json!(["text", "json"]));
    assert_eq!(schema["properties"]["controllers"]["items"]["type"], "string");
    // It contains every field.
    for field in fields() {
        let property = field.path.iter().fold(&schema, |schema, name| &schema["properties"][name]);
        assert!(property["description"].as_str().is_some_and(|about| !about.is_empty()), "{}", field.shown());
    }
}
