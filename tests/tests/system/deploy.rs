//! The manifests of `host/deploy` on the real API server: it accepts them as they are, and Pods of them in a namespace that enforces the
//! Pod Security Standard `restricted`. Their roles are what `pintle rbac` prints.
//!
//! `UPDATE_EXPECT=1` writes the roles and the definitions again. The chart is tested in the long tier (`install`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use expect_test::expect_file;
use pintle_tests::deploy::{self, NAMESPACE, ROLES, controllers, documents, only, roles_args};
use pintle_tests::pintle::Answer;
use pintle_tests::scenarios::subject::CONTROLLERS;
use pintle_tests::{ApiClient, ControlPlane, Failure, Options, kubectl, pintle};
use serde_json::{Value, json};
use tempfile::TempDir;

const OVERLAYS: [&str; 2] = ["beside", "instead"];
/// The controllers of the overlay `beside`.
const DEFAULT: [&str; 2] = ["deployment-controller", "replicaset-controller"];
const APPLY: [&str; 5] = ["apply", "--server-side", "--validate=strict", "-o", "name"];

#[test]
fn committed_roles_and_definitions_are_what_pintle_prints() -> Result<()> {
    let args = roles_args()?;
    let printed = pintle::run(&args)?;
    ensure!(controllers(&documents(&printed)?).iter().eq(CONTROLLERS.iter()), "roles of a controller are missing");
    let text = format!("# Printed by `pintle {}`.\n{printed}", args.join(" "));
    expect_file![deploy::path(ROLES)].assert_eq(&text);
    for file in ["kustomize/base/controllerplugins.yaml", "chart/crds/controllerplugins.yaml"] {
        expect_file![deploy::path(file)].assert_eq(&pintle::run(["crd"])?);
    }
    Ok(())
}

/// The arguments that the manifests give to `pintle` are accepted by its command line.
#[test]
fn the_arguments_of_the_manifests_are_known() -> Result<()> {
    let mut pods =
        vec![documents(&std::fs::read_to_string(deploy::path("static-pod/pintle.yaml"))?)?.remove(0)["spec"].clone()];
    for overlay in OVERLAYS {
        let objects = documents(&deploy::kustomize(&deploy::path(&format!("kustomize/overlays/{overlay}")))?)?;
        pods.push(only(&objects, "Deployment")?["spec"]["template"]["spec"].clone());
    }
    for pod in pods {
        let args = pod["containers"][0]["args"].as_array().context("no arguments")?;
        let args = args.iter().map(|arg| arg.as_str().unwrap());
        <::pintle::cli::Cli as clap::Parser>::try_parse_from(std::iter::once("pintle").chain(args))?;
        let grace = pod["terminationGracePeriodSeconds"].as_u64().context("no grace period")?;
        ensure!(grace >= 10 + 15, "runs may take 10 s, and the release of the Lease some more");
    }
    Ok(())
}

/// Debian's systemd reads the unit without a complaint, calls the service well protected, and its arguments are known.
#[test]
fn systemd_accepts_the_unit() -> Result<()> {
    let unit = std::fs::read_to_string(deploy::path("systemd/pintle.service"))?;
    let program = "/usr/local/bin/pintle";
    let command = unit.split_once(&format!("ExecStart={program} ")).context("no command")?.1;
    let command = command.replace("\\\n", " ").lines().next().unwrap_or_default().replace("$PINTLE_FLAGS", "");
    <::pintle::cli::Cli as clap::Parser>::try_parse_from(std::iter::once("pintle").chain(command.split_whitespace()))?;

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pintle.service");
    // The program is not installed on a machine that tests.
    std::fs::write(&file, unit.replace(program, &pintle::binary()?.display().to_string()))?;
    let analyze = |args: &[&str]| -> Result<Answer> {
        let answer = Answer::of(Command::new("systemd-analyze").args(args).arg(&file))?;
        ensure!(answer.code == Some(0) && answer.errors.is_empty(), "{args:?}: {answer:?}");
        Ok(answer)
    };
    analyze(&["verify", "--man=no"])?;
    // 35 is an exposure of 3.5 of 10.
    analyze(&["security", "--offline=true", "--threshold=35"])?;
    Ok(())
}

/// Copies the overlays, and what they are made of.
fn copy_to(folder: &Path) -> Result<String> {
    Answer::of(Command::new("cp").arg("-r").args(["kustomize", "chart"].map(deploy::path)).arg(folder))?.success()
}

/// The names that an operator writes into the overlay `beside` are those whose roles stay.
#[test]
fn the_overlay_beside_has_the_roles_of_the_controllers_that_it_names() -> Result<()> {
    let folder = tempfile::tempdir()?;
    copy_to(folder.path())?;
    let overlay = folder.path().join("kustomize/overlays/beside");
    let file = overlay.join("kustomization.yaml");
    let text = std::fs::read_to_string(&file)?;
    for names in [&DEFAULT[..], &["job-controller"]] {
        std::fs::write(&file, text.replace(&DEFAULT.join(","), &names.join(",")))?;
        let objects = documents(&deploy::kustomize(&overlay)?)?;
        ensure!(controllers(&objects).iter().eq(names), "{:?}", controllers(&objects));
        let args = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["args"];
        ensure!(args.to_string().contains(&format!("\"--controllers={}\"", names.join(","))), "{args}");
        // The Lease and its role are those of a host beside kube-controller-manager.
        let printed = pintle_tests::audited::rbac(&[
            "--use-service-account-credentials",
            "--service-account=pintle-system/pintle",
            "--beside-kube-controller-manager",
            &format!("--controllers={}", names.join(",")),
        ])?;
        let of_host = |objects: &[Value]| -> Vec<Value> {
            let is_hosts = |object: &&Value| {
                object["metadata"]["labels"][deploy::CONTROLLER].is_null() && !object["rules"].is_null()
            };
            let mut roles: Vec<Value> = objects.iter().filter(is_hosts).cloned().collect();
            roles.extend(
                objects
                    .iter()
                    .filter(|object| object["kind"] == "RoleBinding")
                    .map(|binding| json!([binding["metadata"]["name"], binding["roleRef"]])),
            );
            roles.sort_by_key(Value::to_string);
            roles
        };
        let (patched, printed) = (of_host(&objects), of_host(&documents(&printed)?));
        ensure!(patched == printed, "{patched:#?}\n{printed:#?}");
    }
    let instead = documents(&deploy::kustomize(&deploy::path("kustomize/overlays/instead"))?)?;
    ensure!(controllers(&instead).iter().eq(CONTROLLERS.iter()), "{:?}", controllers(&instead));
    Ok(())
}

/// With every way to install, no plugin writes with the account of the host, which can get tokens of theirs and reads. The accounts are not
/// part of the manifests: kube-controller-manager has some of the same names.
#[test]
fn every_way_to_install_separates_the_accounts_of_plugins() -> Result<()> {
    const FLAG: &str = "--use-service-account-credentials";
    for overlay in OVERLAYS {
        let objects = documents(&deploy::kustomize(&deploy::path(&format!("kustomize/overlays/{overlay}")))?)?;
        let args = &only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["args"];
        ensure!(args.as_array().is_some_and(|args| args.iter().any(|arg| arg == FLAG)), "{overlay}: {args}");
        ensure!(only(&objects, "ServiceAccount")?["metadata"]["name"] == "pintle", "{overlay}");
        no_write_is_of_the_host(&objects).with_context(|| overlay.to_owned())?;
    }
    for file in ["static-pod/pintle.yaml", "systemd/pintle.service", "chart/templates/deployment.yaml"] {
        ensure!(std::fs::read_to_string(deploy::path(file))?.contains(FLAG), "{file}");
    }
    // What the pages tell an operator to do.
    for page in ["README.md", "host/docs/install.md", "host/docs/operators.md", "host/docs/recipes.md"] {
        let text = std::fs::read_to_string(pintle_tests::workspace_dir().join(page))?;
        let commands = text.split("pintle rbac ").skip(1).filter_map(|rest| rest.split(['`', '\n']).next());
        let wrong: Vec<&str> = commands.filter(|command| command.contains('|') && !command.contains(FLAG)).collect();
        ensure!(wrong.is_empty(), "{page}: {wrong:?}");
    }
    Ok(())
}

/// Checks the roles that are bound to the account of the host.
fn no_write_is_of_the_host(objects: &[Value]) -> Result<()> {
    let of_host = |object: &&Value| object["subjects"][0]["namespace"] == NAMESPACE;
    let bound: Vec<&Value> = objects.iter().filter(of_host).map(|binding| &binding["roleRef"]["name"]).collect();
    ensure!(!bound.is_empty(), "the host has no roles");
    for role in objects.iter().filter(|object| bound.contains(&&object["metadata"]["name"])) {
        for rule in role["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().context("no verbs")?;
            let writes = verbs.iter().any(|verb| !["get", "list", "watch"].iter().any(|read| verb == read));
            let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
            for resource in resources.filter(|_| writes) {
                ensure!(OF_EVERY_HOST.contains(&resource), "the host may {verbs:?} {resource}");
            }
        }
    }
    Ok(())
}

/// What a host itself writes.
const OF_EVERY_HOST: [&str; 7] = [
    "events",
    "controllerplugins/status",
    "tokenreviews",
    "subjectaccessreviews",
    "leases",
    "serviceaccounts",
    "serviceaccounts/token",
];

/// Hosts take their configuration from the file of the component, and other Pods follow when it changes.
#[test]
fn the_component_of_kustomize_gives_hosts_their_configuration() -> Result<()> {
    let folder = tempfile::tempdir()?;
    copy_to(folder.path())?;
    let both = "resources: [kustomize/overlays/beside]\ncomponents: [kustomize/components/configuration]\n";
    std::fs::write(folder.path().join("kustomization.yaml"), both)?;
    let rendered = || documents(&deploy::kustomize(folder.path())?);
    let before = rendered()?;
    let configuration = deploy::effective_configuration(&before)?;
    ensure!(configuration["clientConnection"]["qps"] == 20, "{configuration}");
    ensure!(configuration["controllers"] == json!(DEFAULT), "a flag counts: {configuration}");

    let file = folder.path().join("kustomize/components/configuration/host.yaml");
    std::fs::write(&file, std::fs::read_to_string(&file)?.replace("qps: 20", "qps: 50"))?;
    let after = rendered()?;
    ensure!(deploy::effective_configuration(&after)?["clientConnection"]["qps"] == 50, "{after:#?}");
    let pod = |objects| -> Result<Value> { Ok(only(objects, "Deployment")?["spec"]["template"].clone()) };
    ensure!(pod(&before)? != pod(&after)?, "the Pods would keep the old file");

    std::fs::write(&file, std::fs::read_to_string(&file)?.replace("qps:", "qbs:"))?;
    let refused = deploy::effective_configuration(&rendered()?).unwrap_err();
    ensure!(format!("{refused:#}").contains("clientConnection.qbs"), "{refused:#}");
    Ok(())
}

/// Prometheus sends its token to who has the certificate of the hosts, and to nobody else.
#[test]
fn prometheus_verifies_the_certificate_that_hosts_show() -> Result<()> {
    let folder = tempfile::tempdir()?;
    copy_to(folder.path())?;
    let both = "resources: [kustomize/overlays/beside]\ncomponents: [kustomize/components/servicemonitor]\n";
    std::fs::write(folder.path().join("kustomization.yaml"), both)?;
    let objects = documents(&deploy::kustomize(folder.path())?)?;
    let endpoint = &only(&objects, "ServiceMonitor")?["spec"]["endpoints"][0];
    ensure!(endpoint["bearerTokenFile"].is_string() && endpoint["scheme"] == "https", "{endpoint}");
    let service = &only(&objects, "Service")?["metadata"];
    let name =
        format!("{}.{}.svc", service["name"].as_str().unwrap_or(""), service["namespace"].as_str().unwrap_or(""));
    let tls = json!({"ca": {"secret": {"name": "pintle-tls", "key": "ca.crt"}}, "serverName": name});
    ensure!(endpoint["tlsConfig"] == tls, "{endpoint}");
    let pod = &only(&objects, "Deployment")?["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().context("no volumes")?;
    let tls = volumes.iter().find(|volume| volume["secret"]["secretName"] == "pintle-tls").context("no certificate")?;
    let container = &pod["containers"][0];
    let mounts = container["volumeMounts"].as_array().context("no mounts")?;
    let mount = mounts.iter().find(|mount| mount["name"] == tls["name"]).context("it is not mounted")?;
    let folder = mount["mountPath"].as_str().context("it is not mounted")?;
    let args = container["args"].to_string();
    for arg in [format!("--tls-cert-file={folder}/tls.crt"), format!("--tls-private-key-file={folder}/tls.key")] {
        ensure!(args.contains(&arg), "{args}");
    }
    Ok(())
}

struct Cluster {
    plane: ControlPlane,
    client: ApiClient,
    folder: TempDir,
}

impl Cluster {
    async fn start() -> Result<Cluster> {
        let plane = ControlPlane::start(Options::default()).await?;
        Ok(Cluster { client: plane.client(), plane, folder: tempfile::tempdir()? })
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text)?;
        Ok(file)
    }

    async fn apply(&self, file: &Path, more: &[&str]) -> Result<String> {
        kubectl(&self.plane.kubeconfig(), &[&APPLY, more, &["-f", file.to_str().unwrap()]].concat()).await
    }

    /// Applies, and applies again, which changes nothing; the objects that the server has are then those of the text.
    async fn install(&self, name: &str, yaml: &str) -> Result<Vec<Value>> {
        let file = self.write(&format!("{name}.yaml"), yaml)?;
        // Namespaced objects have no place before, and a dry run makes none.
        self.client.create_namespace(NAMESPACE).await.ok();
        self.apply(&file, &["--dry-run=server"]).await?;
        let applied = self.apply(&file, &[]).await?;
        let objects = documents(yaml)?;
        ensure!(applied.lines().count() == objects.len(), "{applied}");
        let diff = kubectl(&self.plane.kubeconfig(), &["diff", "--server-side", "-f", file.to_str().unwrap()]).await?;
        ensure!(diff.is_empty(), "{diff}");
        Ok(objects)
    }
}

/// A Pod as the ReplicaSet controller makes it.
fn pod(deployment: &Value) -> Value {
    let template = &deployment["spec"]["template"];
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "pintle-", "labels": template["metadata"]["labels"]}, "spec": template["spec"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_api_server_accepts_the_overlays_and_restricted_pods_of_them() -> Result<()> {
    let cluster = Cluster::start().await?;
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    for overlay in OVERLAYS {
        let yaml = deploy::kustomize(&deploy::path(&format!("kustomize/overlays/{overlay}")))?;
        let objects = cluster.install(overlay, &yaml).await.with_context(|| format!("the overlay {overlay}"))?;
        let deployment = only(&objects, "Deployment")?;
        let pod = pod(deployment);
        cluster.client.create(&pods, &pod).await.with_context(|| format!("a Pod of {overlay}"))?;
        // The namespace enforces the standard: each of these is refused.
        let spec = "/spec/securityContext";
        let container = "/spec/containers/0/securityContext";
        for (place, value) in [
            (format!("{spec}/runAsNonRoot"), json!(false)),
            (format!("{spec}/seccompProfile/type"), json!("Unconfined")),
            (format!("{container}/allowPrivilegeEscalation"), json!(true)),
            (format!("{container}/capabilities/drop"), json!([])),
        ] {
            let mut other = pod.clone();
            *other.pointer_mut(&place).with_context(|| format!("no {place}"))? = value;
            let refused =
                cluster.client.create(&pods, &other).await.err().with_context(|| format!("{place} counts"))?;
            ensure!(
                Failure::code_of(&refused) == Some(403) && format!("{refused:#}").contains("PodSecurity"),
                "{refused:#}"
            );
        }
        ensure!(deployment["spec"]["replicas"] == 3, "{deployment:#}");
        let budget = only(&objects, "PodDisruptionBudget")?;
        for selector in [&budget["spec"]["selector"], &deployment["spec"]["selector"]] {
            ensure!(selector["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"], "{selector}");
        }
    }
    cluster.plane.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_api_server_accepts_the_static_pod() -> Result<()> {
    let cluster = Cluster::start().await?;
    // kube-controller-manager makes it in clusters that have one.
    let account = json!({"metadata": {"name": "default"}});
    cluster.client.create("/api/v1/namespaces/kube-system/serviceaccounts", &account).await?;
    let file = deploy::path("static-pod/pintle.yaml");
    let applied = cluster.apply(&file, &[]).await?;
    ensure!(applied.trim() == "pod/pintle", "{applied}");
    // What a file says twice, or misspells, is refused.
    let wrong = std::fs::read_to_string(&file)?.replace("hostNetwork:", "hostNetworks:");
    let wrong = cluster.write("wrong.yaml", &wrong)?;
    let refused = cluster.apply(&wrong, &[]).await.err().context("a field that does not exist")?;
    ensure!(format!("{refused:#}").contains("hostNetworks"), "{refused:#}");
    cluster.plane.stop().await;
    Ok(())
}
