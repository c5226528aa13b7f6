//! What operators see of a host: metrics, rules and the dashboard, with Prometheus' own programs.
//!
//! `cargo test --workspace --test long monitoring:: -- --nocapture` prints where the picture of the dashboard is: a page with what its
//! queries answered.

mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pintle_core::contract::manifest::MetricType;
use pintle_metrics::{ALL, MetricKind, NOT_SERVED, NotServed, Origin};
use pintle_tests::ports::free_ports;
use pintle_tests::prometheus::{Family, Prometheus, families, promtool};
use pintle_tests::{
    ApiClient, HostProcess, PATIENCE, PatchKind, TestCluster, components, dashboard, eventually, kubectl,
};
use pintle_tests::{target_dir, workspace_dir};
use serde_json::{Value, json};

/// Scrapes before the dashboard is drawn.
const N_POINTS: f64 = 30.0;

/// Metrics that a host under ordinary load does not serve, because nothing that they count happens: requests that are repeated, panics,
/// followed files that cannot be used, and objects of controllers that have none here. Unit tests of `host/runtime` and `host/sources`,
/// and cases of the plugins, show them.
const UNUSUAL: [&str; 8] = [
    "rest_client_request_retries_total",
    "pintle_task_panics_total",
    "pintle_followed_file_errors_total",
    "ephemeral_volume_controller_create_failures_total",
    "ephemeral_volume_controller_create_total",
    "pod_gc_collector_force_delete_pod_errors_total",
    "pod_gc_collector_force_delete_pods_total",
    "ttl_after_finished_controller_job_deletion_duration_seconds",
];

/// Metrics of kube-controller-manager that it serves only after what they count has happened. It registers `running_managed_controllers`
/// and does not set it; cloud-controller-manager does.
const SELDOM_UPSTREAM: [&str; 10] = [
    "pod_gc_collector_force_delete_pod_errors_total",
    "pod_gc_collector_force_delete_pods_total",
    "rest_client_request_retries_total",
    "leader_election_slowpath_total",
    "running_managed_controllers",
    "*_controller_stale_sync_skips_total",
    "rest_client_dns_*",
    "authentication_*",
    "authenticated_*",
    "authorization_*",
];

/// Type, labels and bounds of buckets of a metric that a manifest declares.
type Declared = (MetricKind, Vec<String>, Vec<f64>);
/// Type, sorted labels and bounds of buckets of a metric.
type Documented = (&'static str, Vec<String>, Vec<f64>);

/// The metrics that the built-in controllers declare.
fn declared() -> Result<BTreeMap<String, Declared>> {
    let mut declared = BTreeMap::new();
    for component in components::built(xtask::guests::Set::Plugins)? {
        let manifest = components::manifest_of(&std::fs::read(&component.path)?)?;
        let metrics: Vec<pintle_core::contract::manifest::Metric> =
            serde_json::from_value(manifest["metrics"].as_array().cloned().unwrap_or_default().into())?;
        for metric in metrics {
            let kind = match metric.kind {
                MetricType::Counter => MetricKind::Counter,
                MetricType::Gauge => MetricKind::Gauge,
                MetricType::Histogram => MetricKind::Histogram(&[]),
            };
            declared.insert(metric.name, (kind, metric.labels, metric.buckets));
        }
    }
    Ok(declared)
}

/// What is documented of every metric: type, sorted labels, bounds of buckets.
fn documented() -> Result<BTreeMap<String, Documented>> {
    let mut all: BTreeMap<String, Documented> = BTreeMap::new();
    for info in ALL {
        let bounds = if let MetricKind::Histogram(bounds) = info.kind { bounds.to_vec() } else { Vec::new() };
        let labels = info.labels.iter().map(ToString::to_string).collect();
        all.insert(info.name.to_owned(), (info.kind.as_str(), labels, bounds));
    }
    for (name, (kind, labels, bounds)) in declared()? {
        all.insert(name, (kind.as_str(), labels, bounds));
    }
    all.values_mut().for_each(|(_, labels, _)| labels.sort());
    Ok(all)
}

/// How a served family differs from what is documented of it.
fn difference(family: &Family, (kind, labels, bounds): &Documented) -> Result<()> {
    ensure!(family.kind == *kind, "the type is {}, not {kind}", family.kind);
    ensure!(family.labels.iter().all(|of| of == labels), "the labels are {:?}, not {labels:?}", family.labels);
    let served: Vec<f64> = family.bounds.iter().map(|bound| bound.parse()).collect::<Result<_, _>>()?;
    ensure!(served == *bounds || family.labels.is_empty(), "the buckets are {served:?}, not {bounds:?}");
    Ok(())
}

/// The rules of the repository, in a folder.
fn rules() -> std::path::PathBuf {
    workspace_dir().join("host/deploy/prometheus")
}

#[test]
fn each_alert_fires_when_it_should_and_not_otherwise() -> Result<()> {
    promtool(&["check", "rules", "rules.yaml"], &rules(), "")?;
    let printed = promtool(&["test", "rules", "rules_test.yaml"], &rules(), "")?;
    ensure!(printed.contains("SUCCESS"), "{printed}");
    let read = |name: &str| -> Result<Value> {
        let text = std::fs::read_to_string(rules().join(name))?;
        serde_norway::from_str(&text).with_context(|| name.to_owned())
    };
    let (rules, tests) = (read("rules.yaml")?, read("rules_test.yaml")?);
    let page = std::fs::read_to_string(workspace_dir().join("host/docs/monitoring.md"))?;
    let cases = tests["tests"].as_array().context("no tests")?;
    let rules = rules["groups"][0]["rules"].as_array().context("no rules")?;
    ensure!(rules.len() > 15, "only {} rules", rules.len());
    let known: BTreeSet<&str> = ALL.iter().map(|info| info.name).collect();
    for rule in rules {
        let name = rule["alert"].as_str().context("a rule without a name")?;
        let cases: Vec<&Value> = cases
            .iter()
            .flat_map(|case| case["alert_rule_test"].as_array())
            .flatten()
            .filter(|case| case["alertname"] == name)
            .collect();
        let fires = |case: &&&Value| case["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
        let n_firing = cases.iter().filter(fires).count();
        ensure!(
            n_firing > 0 && n_firing < cases.len(),
            "{name}: no case in which it fires, or none in which it does not"
        );
        ensure!(page.contains(&format!("\n### {name}\n")), "monitoring.md does not tell what to do about {name}");
        let anchor = format!("host/docs/monitoring.md#{}", name.to_lowercase());
        ensure!(rule["annotations"]["runbook"] == anchor.as_str(), "{name}: {}", rule["annotations"]);
        let expression = rule["expr"].as_str().context("no expression")?;
        let outside_quotes: String = expression.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        let of_host = outside_quotes.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for word in of_host.filter(|word| word.contains('_') && !["histogram_quantile", "label_replace"].contains(word))
        {
            let base = word.strip_suffix("_bucket").unwrap_or(word);
            ensure!(known.contains(base), "{name}: a host has no metric {word}");
        }
    }
    Ok(())
}

/// Applies the role of Prometheus from the documentation; answers its token.
async fn scraper(cluster: &TestCluster, folder: &Path, page: &str) -> Result<String> {
    let role =
        page.split("```").find(|block| block.starts_with("yaml\n") && block.contains("kind: ClusterRoleBinding"));
    let file = folder.join("role.yaml");
    std::fs::write(&file, role.context("serving.md has no role")?.trim_start_matches("yaml\n"))?;
    kubectl(&cluster.kubeconfig(), &["create", "namespace", "monitoring"]).await?;
    kubectl(&cluster.kubeconfig(), &["create", "serviceaccount", "-n", "monitoring", "prometheus"]).await?;
    kubectl(&cluster.kubeconfig(), &["apply", "-f", &file.display().to_string()]).await?;
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
    let path = "/api/v1/namespaces/monitoring/serviceaccounts/prometheus/token";
    let answer = cluster.client.create(path, &request).await?;
    Ok(answer["status"]["token"].as_str().context("no token")?.to_owned())
}

/// The configuration of the documentation, with the files and the address of this host.
fn configuration(page: &str, folder: &Path, port: u16) -> Result<Value> {
    let block = page.split("```").find(|block| block.starts_with("yaml\nscrape_configs:"));
    let block = block.context("serving.md has no scrape configuration")?;
    let mut configuration: Value = serde_norway::from_str(block.trim_start_matches("yaml\n"))?;
    let job = &mut configuration["scrape_configs"][0];
    ensure!(job["job_name"] == "pintle", "{job}");
    job["authorization"]["credentials_file"] = folder.join("token").display().to_string().into();
    job["tls_config"]["ca_file"] = folder.join("tls.crt").display().to_string().into();
    job["static_configs"][0]["targets"] = json!([format!("127.0.0.1:{port}")]);
    configuration["global"] = json!({"scrape_interval": "1s", "evaluation_interval": "1s"});
    configuration["rule_files"] = json!([rules().join("rules.yaml")]);
    Ok(configuration)
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

fn deployment(name: &str, replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/c"}]},
            },
        },
    })
}

/// Work for every controller, without end: rollouts, namespaces, faults, new versions.
async fn load(client: &ApiClient, host: &HostProcess, folder: &Path) -> Result<()> {
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for n in 0..4 {
        client.create(deployments, &deployment(&format!("app-{n}"), 3)).await?;
    }
    workloads::create(client, "app-0").await?;
    for n in 0_u32.. {
        let path = format!("{deployments}/app-{}", n % 4);
        let change = json!({"spec": {"replicas": 2 + n % 3 * 2, "template": {"metadata": {"annotations": {"n": (n / 8).to_string()}}}}});
        client.patch(&path, PatchKind::Merge, &change).await?;
        let namespace = format!("load-{n}");
        client.create_namespace(&namespace).await?;
        if n > 2 {
            client.delete(&format!("/api/v1/namespaces/load-{}", n - 2), None).await?;
        }
        let widgets = "/apis/example.com/v1/namespaces/default/widgets";
        let name = ["panic", "loop", "most-mutations"][n as usize % 3];
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "annotations": {"n": n.to_string()}}});
        client.apply(&format!("{widgets}/{name}"), "load", true, &widget).await?;
        if n % 4 == 2 {
            swap(host, folder, n)?;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Swaps the plugin `accounts` for its next version, in shadow mode first.
fn swap(host: &HostProcess, folder: &Path, n: u32) -> Result<()> {
    let file = folder.join("accounts.wasm").display().to_string();
    std::fs::write(&file, accounts(n)?)?;
    host.plugin(&["swap", "accounts", &file, "--shadow", "1", "--shadow-for", "1s"]).map(drop)
}

/// A second plugin that gives namespaces their ServiceAccount.
fn accounts(n: u32) -> Result<Vec<u8>> {
    components::with_manifest(&components::plugin("serviceaccount-controller")?, |manifest| {
        manifest["name"] = "accounts".into();
        manifest["version"] = format!("1.{n}.0").into();
        manifest["queues"][0]["name"] = "accounts".into();
        // Rules without a queue mean the first one.
        manifest.as_object_mut().map(|manifest| manifest.remove("builtIn"));
    })
}

/// On the real control plane, with the role and the configuration of the documentation.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_scrapes_a_host_under_load_and_no_panel_of_the_dashboard_is_empty() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let folder = tempfile::Builder::new().prefix("monitoring-").tempdir_in(target_dir())?;
    let at = |name: &str| folder.path().join(name);
    let page = std::fs::read_to_string(workspace_dir().join("host/docs/serving.md"))?;
    let token = scraper(&cluster, folder.path(), &page).await?;
    std::fs::write(at("token"), &token)?;
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    std::fs::write(at("tls.key"), issued.signing_key.serialize_pem())?;
    std::fs::write(at("tls.crt"), issued.cert.pem())?;
    std::fs::write(at("ca.crt"), cluster.plane()?.authority())?;
    let [port] = free_ports()?;
    let controllers = "deployment,replicaset,replicationcontroller,namespace,serviceaccount,root-ca-certificate-publisher-controller,garbage-collector-controller";
    let mut flags = vec![
        format!("--controllers={controllers},{}", workloads::CONTROLLERS.join(",")),
        "--leader-elect=true".to_owned(),
        "--leader-elect-resource-name=pintle".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", at("tls.crt").display()),
        format!("--tls-private-key-file={}", at("tls.key").display()),
        format!("--root-ca-file={}", at("ca.crt").display()),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=5".to_owned(),
        // Nobody listens: no run is sampled.
        "--tracing-endpoint=127.0.0.1:1".to_owned(),
    ];
    flags.extend(workloads::FLAGS.map(str::to_owned));
    let mut host = cluster.host(&flags)?;
    host.ready().await?;
    cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await?;
    std::fs::write(
        at("spec.json"),
        json!({"grants": [
        {"verbs": ["list", "watch"], "kinds": ["v1/Namespace", "v1/ServiceAccount", "example.com/v1/Widget"]},
        {"verbs": ["create"], "kinds": ["v1/ServiceAccount"]},
    ], "ungranted": "Deny"})
        .to_string(),
    )?;
    std::fs::write(at("accounts.wasm"), accounts(0)?)?;
    std::fs::write(at("faulty.wasm"), components::guest("faulty")?)?;
    for component in ["accounts.wasm", "faulty.wasm"] {
        let (file, spec) = (at(component).display().to_string(), at("spec.json").display().to_string());
        eventually(PATIENCE, format!("{component} to be loaded"), async || {
            host.plugin(&["load", &file, "--spec", &spec]).map(Some)
        })
        .await?;
    }
    let prometheus = Prometheus::start(folder.path(), &configuration(&page, folder.path(), port)?).await?;

    let (panels, rows) = dashboard::read()?;
    let watched = async {
        let full = eventually(PATIENCE, "every query of every panel to answer something", async || {
            for panel in &panels {
                for (query, _) in &panel.targets {
                    let query = dashboard::filled_in(query, "pintle");
                    ensure!(!query.contains('$'), "{}: an unknown variable: {query}", panel.title);
                    let series = prometheus.last(&query, 60.0).await?;
                    let is_empty = !series.iter().flat_map(|one| &one.points).any(|(_, value)| value.is_finite());
                    ensure!(!is_empty, "{} is empty: {query}", panel.title);
                }
            }
            Ok(Some(()))
        });
        full.await?;
        // A picture of a few points would show nothing.
        eventually(PATIENCE, format!("{N_POINTS} scrapes"), async || {
            let series = prometheus.last("count_over_time(up[1h])", 60.0).await?;
            let n = series.iter().flat_map(|one| &one.points).map(|(_, value)| *value).fold(0.0, f64::max);
            ensure!(n >= N_POINTS, "there are {n}");
            Ok(Some(()))
        })
        .await
    };
    tokio::select! {
        watched = watched => watched.with_context(|| host.log_tail())?,
        loaded = load(&cluster.client, &host, folder.path()) => loaded?,
    }
    let mut answers = Vec::new();
    for panel in &panels {
        let mut of_panel = Vec::new();
        for (query, _) in &panel.targets {
            of_panel.push(prometheus.last(&dashboard::filled_in(query, "pintle"), 120.0).await?);
        }
        answers.push(of_panel);
    }
    let picture = target_dir().join("dashboard.html");
    std::fs::write(&picture, dashboard::page(&panels, &rows, &answers))?;
    println!("the dashboard, as its queries answered: {}", picture.display());

    let scraper = ApiClient::new(&format!("https://127.0.0.1:{port}"), Some(&token), Some(&issued.cert.pem()));
    let get = async |accept: &str| -> Result<String> {
        let answer = scraper.request("GET", "/metrics", &[("accept", accept)], None).await?;
        ensure!(answer.status == 200, "{}", answer.status);
        Ok(answer.text())
    };
    // What Prometheus and curl get, and what those get that accept nothing else.
    let text = get("*/*").await?;
    // The names of two labels and of some counters of upstream's are not as Prometheus wants them.
    let renamed = [
        ("backoffLimit=", "backoff_limit="),
        ("clusterCIDR=", "cluster_cidr="),
        ("_changes", "_changes_total"),
        ("_syncs", "_syncs_total"),
    ];
    let lintable = renamed.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
    promtool(&["check", "metrics"], folder.path(), &lintable)?;
    let openmetrics = get("application/openmetrics-text; version=1.0.0").await?;
    ensure!(openmetrics.ends_with("# EOF\n") && !text.contains("# EOF"), "the forms are the same");
    let documented = documented()?;
    eventually(PATIENCE, "every documented metric to be served", async || {
        let served = families(&get("*/*").await?)?;
        let mut wrong = Vec::new();
        for (name, family) in &served {
            match documented.get(name) {
                None => wrong.push(format!("{name} is served and not documented")),
                Some(of) => wrong.extend(difference(family, of).err().map(|why| format!("{name}: {why:#}"))),
            }
        }
        for name in documented.keys().filter(|name| !served.contains_key(*name) && !UNUSUAL.contains(&&***name)) {
            wrong.push(format!("{name} is documented and not served"));
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(Some(()))
    })
    .await?;
    host.stop().await;
    cluster.stop().await;
    Ok(())
}

/// What a host calls by the names of kube-controller-manager is what kube-controller-manager has, and nothing of it is missing without a
/// reason.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_those_of_kube_controller_manager() -> Result<()> {
    let cluster = TestCluster::real().await?.with_nodes(|_| {}).await?;
    let controllers = ["deployment", "replicaset", "replicationcontroller", "namespace", "serviceaccount"];
    let more =
        ["root-ca-certificate-publisher-controller", "garbagecollector", "ttl-after-finished", "ephemeral-volume"];
    let controllers = [&controllers[..], &more, &workloads::CONTROLLERS].concat();
    let flags = [&["--leader-elect=true", "--kube-api-qps=20", "--kube-api-burst=5"][..], &workloads::FLAGS].concat();
    let kcm = cluster.plane()?.start_kcm(&controllers, &flags).await?;
    cluster.client.create("/apis/apps/v1/namespaces/default/deployments", &deployment("app", 2)).await?;
    workloads::create(&cluster.client, "app").await?;
    let documented = documented()?;
    let mut of_upstream: BTreeSet<String> =
        ALL.iter().filter(|info| info.origin == Origin::Kubernetes).map(|info| info.name.to_owned()).collect();
    of_upstream.extend(declared()?.into_keys());
    eventually(PATIENCE, "kube-controller-manager to serve what is documented", async || {
        let answer = kcm.client.request("GET", "/metrics", &[("accept", "*/*")], None).await?;
        let text = answer.text();
        let works = [
            "workqueue_adds_total{name=\"garbage_collector_attempt_to_delete\"}",
            "root_ca_cert_publisher_sync_total{",
        ];
        ensure!(works.iter().all(|line| text.contains(line)), "not yet: {}", answer.status);
        let wrong = differences_of_upstream(&families(&text)?, &documented, &of_upstream);
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(Some(()))
    })
    .await?;
    drop(kcm);
    cluster.stop().await;
    Ok(())
}

/// What kube-controller-manager serves and is not documented, and the reverse.
fn differences_of_upstream(
    served: &BTreeMap<String, Family>,
    documented: &BTreeMap<String, Documented>,
    of_upstream: &BTreeSet<String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, family) in served {
        let missing = NOT_SERVED.iter().find(|missing| missing.matches(name));
        match (documented.get(name), missing) {
            (None, None) => wrong.push(format!("{name} is neither served nor listed as missing")),
            (None, Some(_)) => {}
            (Some(of), _) => wrong.extend(difference(family, of).err().map(|why| format!("{name}: {why:#}"))),
        }
    }
    for name in of_upstream {
        if !served.contains_key(name) && !SELDOM_UPSTREAM.contains(&&**name) {
            wrong.push(format!("kube-controller-manager has no {name}"));
        }
    }
    let is_outdated = |missing: &&NotServed| {
        !SELDOM_UPSTREAM.contains(&missing.name) && !served.keys().any(|name| missing.matches(name))
    };
    for missing in NOT_SERVED.iter().filter(is_outdated) {
        wrong.push(format!("{} is listed as missing, and kube-controller-manager does not serve it", missing.name));
    }
    wrong
}
