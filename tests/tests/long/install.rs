//! What the manifests install: a host with the arguments and the account of the overlays does its work. The chart renders what Kustomize
//! renders, and Helm and the real API server accept it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pintle_tests::audited::in_force;
use pintle_tests::deploy::{self, NAMESPACE, controllers, documents, only};
use pintle_tests::pintle::{self, Answer};
use pintle_tests::{ControlPlane, Options, PATIENCE, eventually, kubectl, target_dir};
use serde_json::{Value, json};

/// Where a Pod has the files of its account.
const ACCOUNT_FILES: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The host makes the Pods of the Deployment that contains it.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_the_arguments_and_the_account_of_an_overlay_does_its_work() -> Result<()> {
    for overlay in ["beside", "instead"] {
        let plane = ControlPlane::start(Options::default()).await?;
        let client = plane.client();
        let folder = tempfile::tempdir()?;
        let write = |name: &str, text: &str| -> Result<String> {
            let file = folder.path().join(name);
            std::fs::write(&file, text)?;
            Ok(file.display().to_string())
        };
        let yaml = deploy::kustomize(&deploy::path(&format!("kustomize/overlays/{overlay}")))?;
        client.create_namespace(NAMESPACE).await?;
        kubectl(&plane.kubeconfig(), &["apply", "--server-side", "-f", &write("overlay.yaml", &yaml)?]).await?;
        let objects = documents(&yaml)?;
        in_force(&client, &objects).await?;

        let pod = &only(&objects, "Deployment")?["spec"]["template"]["spec"];
        let account = pod["serviceAccountName"].as_str().context("no account")?;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let token = client.create(&path, &request).await?["status"]["token"].clone();
        let mut kubeconfig: Value = serde_json::from_str(&std::fs::read_to_string(plane.kubeconfig())?)?;
        kubeconfig["users"][0]["user"] = json!({"token": token});
        write("ca.crt", plane.authority())?;

        let args: Vec<String> = serde_json::from_value(pod["containers"][0]["args"].clone()).context("no arguments")?;
        let files = folder.path().display().to_string();
        let mut args: Vec<String> = args.iter().map(|arg| arg.replace(ACCOUNT_FILES, &files)).collect();
        // What a Pod gets from its node: the account, a folder that it may write, an address without other hosts.
        args.push(format!("--kubeconfig={}", write("kubeconfig", &kubeconfig.to_string())?));
        args.push(format!("--admin-socket={files}/admin.sock"));
        args.push(format!("--cache-dir={}", target_dir().join("host-code").display()));
        args.push("--secure-port=0".to_owned());
        let host = plane.start_program("pintle", &pintle::host_binary()?, &args).await?;
        eventually(PATIENCE, "the Pods of the overlay", async || {
            let pods = client.list(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await?;
            Ok((pods.len() == 3 && pods.iter().all(|pod| pod["spec"]["serviceAccountName"] == account)).then_some(()))
        })
        .await
        .with_context(|| format!("{overlay}: {}", host.log_tail()))?;
        drop(host);
        plane.stop().await;
    }
    Ok(())
}

fn helm(args: &[&str]) -> Result<Answer> {
    Answer::of(Command::new(xtask::tools::helm()?).args(args))
}

fn template(values: &[&str]) -> Result<Answer> {
    let chart = deploy::path("chart").display().to_string();
    let start = ["template", "pintle", &chart, "--namespace", NAMESPACE, "--include-crds"];
    helm(&[&start[..], &values.iter().flat_map(|value| ["--set", value]).collect::<Vec<_>>()].concat())
}

/// What an account may do: rules of all roles, one permission each.
fn permissions(objects: &[Value]) -> BTreeSet<String> {
    let all = |value: &Value| -> Vec<String> {
        let values =
            value.as_array().map(|values| values.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        values.unwrap_or_else(|| vec![String::new()])
    };
    let mut found = BTreeSet::new();
    for object in objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role") {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        for rule in object["rules"].as_array().into_iter().flatten() {
            for (group, resource, name, verb) in itertools(rule, &all) {
                found.insert(format!("{namespace} {group} {resource} {name} {verb}"));
            }
        }
    }
    found
}

fn itertools(rule: &Value, all: &impl Fn(&Value) -> Vec<String>) -> Vec<(String, String, String, String)> {
    let mut found = Vec::new();
    for group in all(&rule["apiGroups"]) {
        for resource in [all(&rule["resources"]), all(&rule["nonResourceURLs"])].concat() {
            for name in all(&rule["resourceNames"]) {
                for verb in all(&rule["verbs"]) {
                    found.push((group.clone(), resource.clone(), name.clone(), verb));
                }
            }
        }
    }
    found
}

#[test]
fn the_chart_gives_the_same_pods_and_permissions_as_kustomize() -> Result<()> {
    for mode in ["beside", "instead"] {
        let chart = documents(&template(&[&format!("mode={mode}")])?.success()?)?;
        let kustomize = documents(&deploy::kustomize(&deploy::path(&format!("kustomize/overlays/{mode}")))?)?;
        assert_eq!(permissions(&chart), permissions(&kustomize), "{mode}");
        assert_eq!(controllers(&chart), controllers(&kustomize), "{mode}");
        let [chart, kustomize] = [&chart, &kustomize].map(|objects| -> Result<Value> {
            let mut deployment = only(objects, "Deployment")?["spec"].clone();
            let pod = &mut deployment["template"]["spec"];
            // Selectors differ: a namespace may have several releases.
            for constraint in pod["topologySpreadConstraints"].as_array_mut().context("no constraints")? {
                constraint["labelSelector"].take();
            }
            let container = &mut pod["containers"][0];
            container["imagePullPolicy"].take();
            let mut args: Vec<String> = serde_json::from_value(container["args"].take())?;
            // These are the defaults.
            args.retain(|arg| arg != "--log=info" && arg != "--secure-port=10257");
            for arg in &mut args {
                *arg = arg.replace("-controller,", ",").trim_end_matches("-controller").to_owned();
            }
            args[1..].sort();
            container["args"] = json!(args);
            deployment["selector"].take();
            deployment["template"]["metadata"].take();
            Ok(deployment)
        });
        assert_eq!(chart?, kustomize?, "{mode}");
    }
    Ok(())
}

/// As with Kustomize, Prometheus sends its token to who has the certificate of the hosts, and to nobody else.
#[test]
fn the_chart_gives_prometheus_the_certificate_that_hosts_show() -> Result<()> {
    let chart = documents(&template(&["serviceMonitor.enabled=true", "tls.secretName=pintle-tls"])?.success()?)?;
    let component = deploy::path("kustomize/components/servicemonitor/servicemonitor.yaml");
    let kustomize = documents(&std::fs::read_to_string(component)?)?;
    let [chart_endpoints, kustomize_endpoints] = [&chart, &kustomize]
        .map(|objects| -> Result<Value> { Ok(only(objects, "ServiceMonitor")?["spec"]["endpoints"].clone()) });
    let endpoints = chart_endpoints?;
    ensure!(endpoints[0]["tlsConfig"]["ca"]["secret"]["name"] == "pintle-tls", "{endpoints}");
    assert_eq!(endpoints, kustomize_endpoints?);

    let pod = &only(&chart, "Deployment")?["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    for (list, item) in [
        (&pod["volumes"], json!({"name": "tls", "secret": {"secretName": "pintle-tls"}})),
        (&container["volumeMounts"], json!({"name": "tls", "mountPath": "/etc/pintle/tls", "readOnly": true})),
        (&container["args"], json!("--tls-cert-file=/etc/pintle/tls/tls.crt")),
        (&container["args"], json!("--tls-private-key-file=/etc/pintle/tls/tls.key")),
    ] {
        ensure!(list.as_array().is_some_and(|list| list.contains(&item)), "{item} is not in {list}");
    }
    Ok(())
}

#[test]
fn the_chart_is_without_faults_and_refuses_wrong_values() -> Result<()> {
    let chart = deploy::path("chart").display().to_string();
    helm(&["lint", "--strict", &chart])?.success()?;
    for (value, reason) in [
        ("mode=both", "'beside', 'instead'"),
        (
            "controllers={job-controller,widget-controller}",
            r#"no built-in controller "widget-controller"; there are: bootstrap-signer-controller, "#,
        ),
        ("controllers={*}", "/controllers/0"),
        ("replicas=0", "minimum"),
        ("image.digest=latest", "/image/digest"),
        ("replica=3", "additional properties"),
        ("extraArgs={-v}", "/extraArgs/0"),
        ("configuration.kind=Other", "/configuration/kind"),
        ("volumeMounts[0].name=keys", "'mountPath'"),
    ] {
        let answer = template(&[value])?;
        ensure!(!answer.is_good() && answer.errors.contains(reason), "{value}: {}", answer.text());
    }
    Ok(())
}

/// Hosts take their configuration from the values, and other Pods follow when it changes.
#[test]
fn the_chart_gives_hosts_their_configuration() -> Result<()> {
    let with = |values: &[&str]| documents(&template(values)?.success()?);
    let objects = with(&["configuration.clientConnection.qps=50", "podAnnotations.a=b"])?;
    let configuration = deploy::effective_configuration(&objects)?;
    ensure!(configuration["clientConnection"]["qps"] == 50, "{configuration}");
    let of = |objects: &[Value]| -> Result<Value> {
        Ok(only(objects, "Deployment")?["spec"]["template"]["metadata"].clone())
    };
    ensure!(of(&objects)?["annotations"]["a"] == "b", "{objects:#?}");
    ensure!(
        of(&objects)? == of(&with(&["podAnnotations.a=b", "configuration.clientConnection.qps=50"])?)?,
        "{objects:#?}"
    );
    let other = with(&["configuration.clientConnection.qps=60", "podAnnotations.a=b"])?;
    ensure!(of(&objects)? != of(&other)?, "the Pods would keep the old file");
    let wrong = deploy::effective_configuration(&with(&["configuration.clientConnection.qbs=50"])?).unwrap_err();
    ensure!(format!("{wrong:#}").contains("clientConnection.qbs"), "{wrong:#}");
    Ok(())
}

/// Each value is in the schema and on the page of the chart.
#[test]
fn the_chart_tells_of_all_its_values() -> Result<()> {
    let read = |file: &str| std::fs::read_to_string(deploy::path("chart").join(file)).context(file.to_owned());
    let values: Value = documents(&read("values.yaml")?)?.remove(0);
    let schema: Value = serde_json::from_str(&read("values.schema.json")?)?;
    let page = read("README.md")?;
    for (name, value) in values.as_object().context("no values")? {
        let of = &schema["properties"][name];
        ensure!(!of.is_null(), "the schema lacks {name}");
        ensure!(page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}.")), "the page lacks {name}");
        for inner in value.as_object().into_iter().flat_map(|value| value.keys()) {
            let open = of["additionalProperties"].is_null();
            ensure!(open || !of["properties"][inner].is_null(), "the schema lacks {name}.{inner}");
            ensure!(open || page.contains(&format!("`{name}.{inner}`")), "the page lacks {name}.{inner}");
        }
    }
    Ok(())
}

/// The definition of ServiceMonitor, from the Prometheus operator's own module.
fn service_monitor() -> Result<String> {
    let module = "github.com/prometheus-operator/prometheus-operator@v0.85.0";
    let printed =
        Answer::of(Command::new("go").current_dir(std::env::temp_dir()).args(["mod", "download", "-json", module]))?
            .json()?;
    let folder = printed["Dir"].as_str().context("no folder")?;
    let file = "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml";
    std::fs::read_to_string(Path::new(folder).join(file)).context(file)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_is_accepted_by_the_real_api_server_with_all_kinds_of_values() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    plane.client().create_namespace(NAMESPACE).await?;
    let folder = tempfile::tempdir()?;
    let apply = async |name: &str, yaml: &str| -> Result<String> {
        let file = folder.path().join(name);
        std::fs::write(&file, yaml)?;
        let args = ["apply", "--server-side", "--validate=strict", "--force-conflicts", "-f"];
        kubectl(&plane.kubeconfig(), &[&args[..], &[&file.display().to_string()]].concat()).await
    };
    apply("definition.yaml", &service_monitor()?).await?;
    let digest = format!("image.digest=sha256:{}", "0".repeat(64));
    let all = [
        &[][..],
        &[
            "mode=instead",
            "serviceMonitor.enabled=true",
            "tls.secretName=pintle-tls",
            "serviceMonitor.interval=30s",
            "serviceMonitor.labels.release=prometheus",
        ],
        &[
            "controllers={root-ca-certificate-publisher-controller,serviceaccount-controller,namespace-controller}",
            "replicas=2",
        ],
        &[
            "controllers={garbage-collector-controller,replicationcontroller-controller}",
            "podDisruptionBudget.enabled=false",
        ],
        &["plugins={oci://registry.example.com/team/widgets:1}", "extraArgs={--allow-unpinned}", &digest],
        &[
            "rbac.create=false",
            "serviceAccount.name=own",
            "nodeSelector.a=b",
            "podLabels.a=b",
            "podAnnotations.a=b",
            "priorityClassName=",
        ],
        &[
            "configuration.plugins.verifyKeyFiles={/keys/release.pub}",
            "volumes[0].name=keys",
            "volumes[0].secret.secretName=keys",
            "volumeMounts[0].name=keys",
            "volumeMounts[0].mountPath=/keys",
        ],
        &["imagePullSecrets[0].name=pull", "shutdownTimeoutSeconds=60", "port=10300", "serviceAccount.annotations.a=b"],
    ];
    for values in all {
        let yaml = template(values)?.success().with_context(|| format!("{values:?}"))?;
        let applied = apply("chart.yaml", &yaml).await.with_context(|| format!("{values:?}"))?;
        ensure!(applied.contains("deployment.apps/pintle serverside-applied"), "{applied}");
        let monitors = applied.contains("servicemonitor");
        ensure!(monitors == values.contains(&"serviceMonitor.enabled=true"), "{applied}");
        // The command line knows the arguments.
        let objects = documents(&yaml)?;
        let args = only(&objects, "Deployment")?["spec"]["template"]["spec"]["containers"][0]["args"].clone();
        let args: Vec<String> = serde_json::from_value(args)?;
        let words = std::iter::once("pintle".to_owned()).chain(args);
        <::pintle::cli::Cli as clap::Parser>::try_parse_from(words).with_context(|| format!("{values:?}"))?;
    }
    // Prometheus' token is for nobody else.
    let refused = template(&["serviceMonitor.enabled=true"])?;
    ensure!(refused.errors.contains("serviceMonitor.enabled needs tls.secretName"), "{}", refused.text());
    // The component of Kustomize, too.
    let component = std::fs::read_to_string(deploy::path("kustomize/components/servicemonitor/servicemonitor.yaml"))?;
    apply("component.yaml", &component).await?;
    ensure!(
        apply("wrong.yaml", &component.replace("endpoints:", "endpoint:")).await.is_err(),
        "the definition is checked"
    );
    plane.stop().await;
    Ok(())
}
