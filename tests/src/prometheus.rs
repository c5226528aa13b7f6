//! Prometheus (Debian's `prometheus`): a real server on loopback that does not outlive its test, and its tool `promtool`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::ports::free_ports;
use crate::process::Guarded;
use crate::{ApiClient, PATIENCE, eventually};

/// A running Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    _process: Guarded,
    client: ApiClient,
}

/// A series of an answer: its labels, and its points as seconds and values.
#[derive(Clone, Debug)]
pub struct Series {
    /// The labels.
    pub labels: Value,
    /// Times and values. A value may be no number.
    pub points: Vec<(f64, f64)>,
}

fn program(name: &str) -> Command {
    Command::new(name)
}

fn not_installed(name: &str) -> String {
    format!("{name} is not installed: `cargo xtask test` does, or `apt-get install prometheus`")
}

/// Runs `promtool` with this input; answers what it prints.
///
/// # Errors
/// It is not installed, or finds something wrong, which the message contains.
pub fn promtool(arguments: &[&str], folder: &Path, input: &str) -> Result<String> {
    let mut command = program("promtool");
    command.args(arguments).current_dir(folder);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| not_installed("promtool"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let input = input.to_owned();
    // It may print before it has read everything.
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    let _ = writing.join();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    ensure!(output.status.success(), "promtool {}: {}\n{text}", arguments.join(" "), output.status);
    Ok(text)
}

impl Prometheus {
    /// Starts it in a folder, with a configuration that has one job for one target and scrapes it each second, and waits until a scrape
    /// has succeeded.
    ///
    /// # Errors
    /// It is not installed, does not start, or its scrapes fail; the message has the reason.
    pub async fn start(folder: &Path, configuration: &Value) -> Result<Prometheus> {
        let file: PathBuf = folder.join("prometheus.yml");
        // Whatever is JSON is YAML.
        std::fs::write(&file, configuration.to_string())?;
        promtool(&["check", "config", &file.display().to_string()], folder, "")?;
        let [port] = free_ports()?;
        let mut command = program("prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let process = Guarded::tied("prometheus", &mut command, &folder.join("prometheus.log"))
            .with_context(|| not_installed("prometheus"))?;
        let client = ApiClient::new(&format!("http://127.0.0.1:{port}"), None, None);
        let prometheus = Prometheus { _process: process, client };
        eventually(PATIENCE, "a scrape of the host", async || {
            let answer = prometheus.client.get("/api/v1/targets").await?;
            let targets = answer["data"]["activeTargets"].as_array().context("no targets")?;
            let target = targets.first().context("no target")?;
            ensure!(target["health"] == "up", "{target}");
            Ok(Some(()))
        })
        .await
        .with_context(|| prometheus._process.log_tail())?;
        Ok(prometheus)
    }

    /// The values of a query over the last `seconds`, one each second.
    ///
    /// # Errors
    /// Prometheus does not accept the query, or warns.
    pub async fn last(&self, query: &str, seconds: f64) -> Result<Vec<Series>> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let mut path = form_urlencoded::Serializer::new("/api/v1/query_range?".to_owned());
        path.append_pair("query", query).append_pair("step", "1");
        path.append_pair("start", &(now - seconds).to_string()).append_pair("end", &now.to_string());
        let path = path.finish().replace("?&", "?");
        let answer = self.client.get(&path).await.with_context(|| query.to_owned())?;
        ensure!(answer["status"] == "success" && answer["warnings"] == json!(null), "{query}: {answer}");
        let series = answer["data"]["result"].as_array().context("no result")?;
        let point = |point: &Value| Some((point[0].as_f64()?, point[1].as_str()?.parse().ok()?));
        let points = |series: &Value| series["values"].as_array().into_iter().flatten().filter_map(point).collect();
        Ok(series.iter().map(|series| Series { labels: series["metric"].clone(), points: points(series) }).collect())
    }
}

/// A family of metrics in the text form of Prometheus.
#[derive(Clone, Debug, Default)]
pub struct Family {
    /// `counter`, `gauge`, `histogram` or `summary`.
    pub kind: String,
    /// The label names of its series, in order, without those of buckets and quantiles; one entry for each set.
    pub labels: std::collections::BTreeSet<Vec<String>>,
    /// Finite upper bounds of buckets, as written.
    pub bounds: Vec<String>,
}

/// The families of a text.
///
/// # Errors
/// A sample belongs to no family, or a line is no sample.
pub fn families(text: &str) -> Result<std::collections::BTreeMap<String, Family>> {
    let mut families: std::collections::BTreeMap<String, Family> = Default::default();
    let mut present = String::new();
    for line in text.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("a type without a name")?;
            name.clone_into(&mut present);
            let family = Family { kind: kind.to_owned(), ..Family::default() };
            ensure!(families.insert(present.clone(), family).is_none(), "{name} is there twice");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_at(line.find(['{', ' ']).with_context(|| format!("no sample: {line}"))?);
        let family = families.get_mut(&present).filter(|_| name.starts_with(&*present));
        let family = family.with_context(|| format!("{line} is below # TYPE {present}"))?;
        let mut names = Vec::new();
        let mut rest = rest.strip_prefix('{').unwrap_or_default();
        while let Some((label, after)) = rest.split_once("=\"") {
            // A value may contain escaped quotes.
            let mut escaped = false;
            let end = after.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let (value, after) = after.split_at(end.with_context(|| format!("an open value: {line}"))?);
            match label.trim_start_matches(',') {
                "le" if value != "+Inf" && !family.bounds.iter().any(|known| known == value) => {
                    family.bounds.push(value.to_owned());
                }
                "le" | "quantile" => {}
                label => names.push(label.to_owned()),
            }
            rest = &after[1..];
        }
        names.sort();
        family.labels.insert(names);
    }
    Ok(families)
}
