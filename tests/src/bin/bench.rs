//! Pintle and kube-controller-manager side by side on fresh real control planes: `cargo xtask bench`.
//!
//! `standby` is another table: the time from the Lease to the first write of a process that stood by (`target/bench/standby.json`).
//! `authors` is another table: what an author waits for in each language, and the sizes of components (`target/bench/authors.json`).
//!
//! Prints a table of medians with ratios, and writes `target/bench/controllers.json`: a list of records
//! `{"scenario","implementation","pods_per_second","seconds","cpu_seconds","rss_bytes"}`. `seconds` is how long a deleted namespace takes
//! to go; it is 0 where none is deleted, as `pods_per_second` is where none are made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use pintle_tests::author_times::{self, Times};
use pintle_tests::authors::LANGUAGES;
use pintle_tests::controlplane::Audit;
use pintle_tests::process::Usage;
use pintle_tests::scenarios::Subject;
use pintle_tests::scenarios::subject::{self, Running};
use pintle_tests::{ApiClient, ControlPlane, Options, eventually, standby_times, target_dir};
use serde_json::{Value, json};

/// The longest that one scenario may take.
const DEADLINE: Duration = Duration::from_secs(300);

/// Requests of our own client in flight. More makes the API server slower, not faster, on two cores.
const IN_FLIGHT: usize = 32;

/// How long a subject may take to come to rest.
const REST_DEADLINE: Duration = Duration::from_secs(60);

/// How often an author saves in each round.
const N_SAVES: usize = 3;

const CONTROLLERS: [&str; 2] = ["deployment-controller", "replicaset-controller"];

struct Args {
    pintle: PathBuf,
    /// Another build of Pintle, measured in the same rounds.
    before: Option<PathBuf>,
    rounds: usize,
    only: Option<String>,
    cached_pods: usize,
    settle: Duration,
}

/// Go collects garbage at least every two minutes, and gives pages back to the system after that.
const SETTLE: Duration = Duration::from_secs(150);

const USAGE: &str =
    "usage: bench --pintle PATH [--before PATH] [--rounds N (3)] [--only WORD] [--cached-pods N (20000)] [--settle SECONDS (150)]
  --before measures another build of Pintle in the same rounds
  --settle is the wait before memory is read, so that both have given back what their first list took
  --only keeps scenarios with WORD in their name: 10x300, 300x10, 1x3000, namespace-10x300, namespace-300x10, namespace-1x3000, memory, standby, authors";

impl Args {
    /// Each build of Pintle, and the others.
    fn implementations(&self, others: &[Implementation]) -> Vec<Implementation> {
        let before = self.before.as_ref().map(|_| Implementation::Before);
        [Implementation::Pintle].into_iter().chain(before).chain(others.iter().copied()).collect()
    }
}

fn args() -> Result<Args> {
    let mut args =
        Args { pintle: PathBuf::new(), before: None, rounds: 3, only: None, cached_pods: 20_000, settle: SETTLE };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value\n{USAGE}"));
        match word.as_str() {
            "--pintle" => args.pintle = value()?.into(),
            "--before" => args.before = Some(value()?.into()),
            "--rounds" => args.rounds = value()?.parse().context("--rounds wants a number")?,
            "--only" => args.only = Some(value()?),
            "--cached-pods" => args.cached_pods = value()?.parse().context("--cached-pods wants a number")?,
            "--settle" => args.settle = Duration::from_secs(value()?.parse().context("--settle wants seconds")?),
            _ => bail!("{USAGE}"),
        }
    }
    if args.pintle.as_os_str().is_empty() || args.rounds == 0 {
        bail!("{USAGE}");
    }
    Ok(args)
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why:#}");
            ExitCode::FAILURE
        }
    }
}

/// Who creates the Pods.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Implementation {
    Pintle,
    /// The build of `--before`.
    Before,
    KubeControllerManager,
    Bare,
}

impl Implementation {
    fn name(self) -> &'static str {
        match self {
            Self::Pintle => "pintle",
            Self::Before => "pintle (before)",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Bare => "bare",
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    pods_per_second: f64,
    seconds: f64,
    cpu_seconds: f64,
    rss_bytes: f64,
}

/// What is measured with a number of Deployments and of Pods of each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measured {
    /// How fast the Pods are made.
    Rollout,
    /// How long their namespace takes to go when it is deleted.
    Namespace,
}

const SCENARIOS: [(&str, Measured, usize, usize); 6] = [
    ("10x300", Measured::Rollout, 10, 300),
    ("300x10", Measured::Rollout, 300, 10),
    ("1x3000", Measured::Rollout, 1, 3000),
    ("namespace-10x300", Measured::Namespace, 10, 300),
    ("namespace-300x10", Measured::Namespace, 300, 10),
    ("namespace-1x3000", Measured::Namespace, 1, 3000),
];

async fn run() -> Result<()> {
    let args = args()?;
    let wanted = |name: &str| args.only.as_ref().is_none_or(|word| name.contains(word.as_str()));
    let mut samples: BTreeMap<(usize, Implementation), Vec<Sample>> = BTreeMap::new();
    let all = args.implementations(&[Implementation::KubeControllerManager, Implementation::Bare]);
    for round in 0..args.rounds {
        for (place, (name, measured, deployments, pods)) in
            SCENARIOS.into_iter().enumerate().filter(|(_, (name, ..))| wanted(name))
        {
            // Without controllers no namespace goes.
            let all: Vec<_> = all
                .iter()
                .filter(|one| measured == Measured::Rollout || **one != Implementation::Bare)
                .copied()
                .collect();
            for turn in 0..all.len() {
                // Another one begins in each round, so that none always meets the machine in the same state.
                let implementation = all[(turn + round) % all.len()];
                let sample = match measured {
                    Measured::Rollout => rollout(&args, implementation, deployments, pods).await,
                    Measured::Namespace => namespace(&args, implementation, deployments, pods).await,
                };
                let sample = sample.with_context(|| format!("{name} with {}", implementation.name()))?;
                eprintln!("round {} {name} {}: {sample:.1?}", round + 1, implementation.name());
                samples.entry((place, implementation)).or_default().push(sample);
            }
        }
    }
    if wanted("memory") {
        for (implementation, sample) in memory(&args).await? {
            samples.entry((SCENARIOS.len(), implementation)).or_default().push(sample);
        }
    }
    if !samples.is_empty() {
        report(&samples, args.cached_pods)?;
    }
    if wanted("standby") {
        standby(&args).await?;
    }
    if wanted("authors") { authors(&args) } else { Ok(()) }
}

/// From the Lease to the first write of a process that stood by, with many Pods in the cluster.
async fn standby(args: &Args) -> Result<()> {
    const PATH: &str = "/apis/apps/v1/namespaces/bench/deployments/app";
    let plane = ControlPlane::start(Options { audit: Some(Audit::Writes), ..Options::default() }).await?;
    let client = plane.client();
    prepare(&client).await?;
    let pod = realistic_pod();
    create_all(&client, "/api/v1/namespaces/bench/pods", (0..args.cached_pods).map(|_| pod.clone())).await?;
    client.create("/apis/apps/v1/namespaces/bench/deployments", &deployment("app", 1)).await?;
    let mut samples: BTreeMap<Implementation, Vec<f64>> = BTreeMap::new();
    for round in 0..args.rounds {
        let mut order = args.implementations(&[Implementation::KubeControllerManager]);
        let first = round % order.len();
        order.rotate_left(first);
        for implementation in order {
            let subject = match implementation {
                Implementation::Pintle => Subject::Pintle(args.pintle.clone()),
                Implementation::Before => Subject::Pintle(args.before.clone().context("there is no other build")?),
                Implementation::KubeControllerManager | Implementation::Bare => Subject::KubeControllerManager,
            };
            let took = standby_times::measure(&plane, &subject, &CONTROLLERS, PATH).await?;
            eprintln!("round {} standby {}: {took:.1?}", round + 1, implementation.name());
            samples.entry(implementation).or_default().push(took.as_secs_f64());
        }
    }
    plane.stop().await;
    let reference = samples.get(&Implementation::KubeControllerManager).cloned().map_or(0.0, median);
    println!(
        "\n{:<24} {:>26} {:>7}",
        format!("standby, {} Pods", args.cached_pods),
        "Lease to first write, ms",
        "ratio"
    );
    let mut records = Vec::new();
    for (implementation, all) in samples {
        let seconds = median(all);
        let ratio = seconds / reference;
        println!("{:<24} {:>26.1} {:>7}", implementation.name(), seconds * 1e3, format!("{ratio:.3}x"));
        records.push(json!({"implementation": implementation.name(), "pods": args.cached_pods, "seconds": seconds}));
    }
    write("standby.json", &records)
}

/// What authors wait for, with `--pintle`, in medians of the rounds.
fn authors(args: &Args) -> Result<()> {
    let mut records = Vec::new();
    println!(
        "{:<10} {:>11} {:>11} {:>11} {:>14} {:>11} {:>14}",
        "language", "first build", "later build", "pintle test", "save to effect", "component", "compressed"
    );
    for language in LANGUAGES {
        let mut all = Vec::new();
        for round in 0..args.rounds {
            let times = author_times::measure(&args.pintle, language, N_SAVES).context(language)?;
            eprintln!("round {} {language}: {times:.2?}", round + 1);
            all.push(times);
        }
        let of = |field: fn(&Times) -> f64| median(all.iter().map(field).collect());
        let fields: [fn(&Times) -> f64; 6] = [
            |times| times.first_build.as_secs_f64(),
            |times| times.later_build.as_secs_f64(),
            |times| times.test.as_secs_f64(),
            |times| times.save.as_secs_f64(),
            |times| times.bytes as f64,
            |times| times.compressed_bytes as f64,
        ];
        let [first, later, test, save, bytes, compressed] = fields.map(of);
        let (size, travels) = (bytes / 1e6, compressed / 1e6);
        println!(
            "{language:<10} {first:>9.1} s {later:>9.1} s {test:>9.1} s {save:>12.1} s {size:>8.2} MB {travels:>11.2} MB"
        );
        records.push(json!({
            "language": language, "first_build_seconds": first, "later_build_seconds": later, "test_seconds": test,
            "save_seconds": save, "bytes": bytes as u64, "compressed_bytes": compressed as u64,
        }));
    }
    write("authors.json", &records)
}

/// Writes records into the folder of results.
fn write(name: &str, records: &[Value]) -> Result<()> {
    let folder = target_dir().join("bench");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let file = folder.join(name);
    std::fs::write(&file, serde_json::to_string_pretty(records)? + "\n")
        .with_context(|| format!("write {}", file.display()))?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

/// Usage of a subject once it does nothing more.
async fn usage_at_rest(subject: &Running) -> Result<Usage> {
    let mut last = subject.process().usage()?;
    let mut quiet = 0;
    let begun = Instant::now();
    while quiet < 4 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let now = subject.process().usage()?;
        quiet = if now.cpu.saturating_sub(last.cpu) <= Duration::from_millis(10) { quiet + 1 } else { 0 };
        last = now;
        if begun.elapsed() > REST_DEADLINE {
            eprintln!("{} does not come to rest; it is measured as it is", subject.name);
            break;
        }
    }
    Ok(last)
}

/// Starts a subject, and waits until it has made the Pod of a small Deployment: only then are its caches filled.
async fn start(
    args: &Args,
    plane: &ControlPlane,
    implementation: Implementation,
    controllers: &[&str],
) -> Result<Option<Running>> {
    let host = |binary: &Path| (Subject::Pintle(binary.to_owned()), ["--log=warn,pintle::run=info"].as_slice());
    let (subject, flags) = match implementation {
        Implementation::Bare => return Ok(None),
        Implementation::KubeControllerManager => (Subject::KubeControllerManager, [].as_slice()),
        Implementation::Pintle => host(&args.pintle),
        Implementation::Before => host(args.before.as_deref().context("there is no other build")?),
    };
    let running = subject.start_with(plane, controllers, flags).await?;
    let client = plane.client();
    static N_PROBES: AtomicUsize = AtomicUsize::new(0);
    let name = &format!("probe-{}", N_PROBES.fetch_add(1, Ordering::Relaxed));
    client.create("/apis/apps/v1/namespaces/probe/deployments", &deployment(name, 1)).await?;
    eventually(DEADLINE, "the Pod of the probe", || async {
        let pods = client.list("/api/v1/namespaces/probe/pods").await?;
        Ok(pods.iter().any(|pod| pod["metadata"]["labels"]["app"] == *name).then_some(()))
    })
    .await
    .with_context(|| running.process().log_tail())?;
    Ok(Some(running))
}

async fn rollout(args: &Args, implementation: Implementation, deployments: usize, pods: usize) -> Result<Sample> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start(args, &plane, implementation, &CONTROLLERS).await?;
    let before = match &subject {
        Some(subject) => Some(usage_at_rest(subject).await?),
        None => None,
    };
    let begun = Instant::now();
    match implementation {
        Implementation::Bare => {
            let pod = small_pod();
            create_all(&client, "/api/v1/namespaces/bench/pods", (0..deployments * pods).map(|_| pod.clone())).await?;
        }
        _ => {
            let all = (0..deployments).map(|number| deployment(&format!("app-{number}"), pods));
            create_all(&client, "/apis/apps/v1/namespaces/bench/deployments", all).await?;
        }
    }
    let total = deployments * pods;
    eventually(DEADLINE, format!("{total} Pods"), || async {
        Ok((count(&client).await? >= total as u64).then_some(()))
    })
    .await?;
    let pods_per_second = total as f64 / begun.elapsed().as_secs_f64();
    let mut sample = Sample { pods_per_second, ..Sample::default() };
    if let (Some(subject), Some(before)) = (&subject, before) {
        eventually(DEADLINE, "every status", || async {
            let all = client.list("/apis/apps/v1/namespaces/bench/deployments").await?;
            Ok(all.iter().all(|deployment| deployment["status"]["replicas"] == pods).then_some(()))
        })
        .await?;
        let after = usage_at_rest(subject).await?;
        sample.cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        sample.rss_bytes = after.rss_bytes as f64;
        let surplus = count(&client).await?;
        if surplus != total as u64 {
            bail!("{surplus} Pods where {total} were wanted");
        }
    }
    if let Some(subject) = subject {
        subject.stop().await;
    }
    plane.stop().await;
    Ok(sample)
}

/// How long a namespace takes to go from its deletion on, with all controllers that have a part in it. The Pods are on no node, so
/// nothing but the controllers and the API server takes time.
async fn namespace(args: &Args, implementation: Implementation, deployments: usize, pods: usize) -> Result<Sample> {
    const PATH: &str = "/api/v1/namespaces/bench";
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let subject = start(args, &plane, implementation, &subject::CONTROLLERS).await?.context("nothing runs")?;
    let all = (0..deployments).map(|number| deployment(&format!("app-{number}"), pods));
    create_all(&client, "/apis/apps/v1/namespaces/bench/deployments", all).await?;
    eventually(DEADLINE, "every status", || async {
        let all = client.list("/apis/apps/v1/namespaces/bench/deployments").await?;
        Ok(all.iter().all(|deployment| deployment["status"]["replicas"] == pods).then_some(()))
    })
    .await?;
    let before = usage_at_rest(&subject).await?;
    let begun = Instant::now();
    client.delete(PATH, None).await?;
    eventually(DEADLINE, "the namespace to go", || async { Ok(client.find(PATH).await?.is_none().then_some(())) })
        .await
        .with_context(|| subject.process().log_tail())?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = usage_at_rest(&subject).await?;
    let cpu_seconds = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    subject.stop().await;
    plane.stop().await;
    Ok(Sample { seconds, cpu_seconds, rss_bytes: after.rss_bytes as f64, ..Sample::default() })
}

/// Resident memory with many Pods of realistic size in the cache, some time after they came: what the first list left
/// behind is garbage in one subject and freed pages in the other, and neither is what a cached Pod costs.
async fn memory(args: &Args) -> Result<Vec<(Implementation, Sample)>> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.client();
    prepare(&client).await?;
    let pod = realistic_pod();
    create_all(&client, "/api/v1/namespaces/bench/pods", (0..args.cached_pods).map(|_| pod.clone())).await?;
    let mut samples = Vec::new();
    for round in 0..args.rounds {
        let mut order = args.implementations(&[Implementation::KubeControllerManager]);
        let first = round % order.len();
        order.rotate_left(first);
        for implementation in order {
            let subject = start(args, &plane, implementation, &CONTROLLERS).await?.context("nothing runs")?;
            let first = usage_at_rest(&subject).await?;
            tokio::time::sleep(args.settle).await;
            let usage = usage_at_rest(&subject).await?;
            let (cpu, rss) = (usage.cpu.as_secs_f64(), usage.rss_bytes as f64);
            let sample = Sample { cpu_seconds: cpu, rss_bytes: rss, ..Sample::default() };
            let at_first = first.rss_bytes;
            eprintln!("round {} memory {}: {sample:.1?}, {at_first} at first", round + 1, implementation.name());
            samples.push((implementation, sample));
            subject.stop().await;
        }
    }
    plane.stop().await;
    Ok(samples)
}

async fn prepare(client: &ApiClient) -> Result<()> {
    for namespace in ["bench", "probe"] {
        client.create_namespace(namespace).await?;
        // Admission wants it for every Pod; the controller that makes it is not measured.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        client.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    }
    Ok(())
}

async fn create_all(client: &ApiClient, path: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
    let mut results = futures::stream::iter(objects.map(|object| async move { client.create(path, &object).await }))
        .buffer_unordered(IN_FLIGHT);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}

/// How many Pods there are, without reading them.
async fn count(client: &ApiClient) -> Result<u64> {
    let list = client.get("/api/v1/namespaces/bench/pods?limit=1").await?;
    let here = list["items"].as_array().map_or(0, Vec::len) as u64;
    Ok(here + list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0))
}

fn small_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "bare-", "labels": {"app": "bare"}},
        "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
    })
}

/// About 3 KB as the API server stores it: probes, resources, environment, volumes, annotations.
fn realistic_pod() -> Value {
    let variables: Vec<Value> =
        (0..12).map(|n| json!({"name": format!("VARIABLE_{n}"), "value": format!("value-number-{n}")})).collect();
    let annotations: BTreeMap<String, String> = (0..6)
        .map(|n| (format!("example.com/annotation-{n}"), "some text of the length that annotations have".into()))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "cached-", "annotations": annotations,
            "labels": {"app": "cached", "tier": "backend", "release": "stable", "pod-template-hash": "5d78c9869d"},
        },
        "spec": {
            "containers": [{
                "name": "app", "image": "registry.example/team/app:v1.2.3", "env": variables,
                "args": ["--listen=:8080", "--log-level=info"], "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "livenessProbe": probe, "readinessProbe": probe,
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}, {"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "config", "configMap": {"name": "app"}}, {"name": "data", "emptyDir": {}}],
        },
    })
}

fn deployment(app: &str, pods: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {
            "replicas": pods, "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "app", "image": "registry.example/app:1"}]},
            },
        },
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

fn report(samples: &BTreeMap<(usize, Implementation), Vec<Sample>>, cached_pods: usize) -> Result<()> {
    let memory = format!("memory-{cached_pods}");
    let names: Vec<&str> = SCENARIOS.iter().map(|(name, ..)| *name).chain([memory.as_str()]).collect();
    let mut records = Vec::new();
    println!(
        "{:<16} {:<24} {:>7} {:>7} {:>7} {:>7} {:>9} {:>7} {:>9} {:>7}",
        "scenario", "implementation", "Pods/s", "ratio", "seconds", "ratio", "CPU s", "ratio", "MiB", "ratio"
    );
    for ((place, implementation), all) in samples {
        let of = |field: fn(&Sample) -> f64| median(all.iter().map(field).collect());
        let fields: [fn(&Sample) -> f64; 4] =
            [|s| s.pods_per_second, |s| s.seconds, |s| s.cpu_seconds, |s| s.rss_bytes];
        let [rate, seconds, cpu, rss] = fields.map(of);
        let reference = samples.get(&(*place, Implementation::KubeControllerManager));
        let ratio = |field: fn(&Sample) -> f64, value: f64| {
            let base = reference.map_or(0.0, |all| median(all.iter().map(field).collect()));
            if base > 0.0 && value > 0.0 { format!("{:.2}x", value / base) } else { String::new() }
        };
        println!(
            "{:<16} {:<24} {rate:>7.0} {:>7} {seconds:>7.1} {:>7} {cpu:>9.2} {:>7} {:>9.1} {:>7}",
            names[*place],
            implementation.name(),
            ratio(fields[0], rate),
            ratio(fields[1], seconds),
            ratio(fields[2], cpu),
            rss / f64::from(1 << 20),
            ratio(fields[3], rss),
        );
        records.push(json!({
            "scenario": names[*place], "implementation": implementation.name(),
            "pods_per_second": rate, "seconds": seconds, "cpu_seconds": cpu, "rss_bytes": rss as u64,
        }));
    }
    println!("\nratios are to kube-controller-manager");
    write("controllers.json", &records)
}
