//! Behaviour of a Pod: its annotations `sim.pintle.dev/...`, its commands and its probes.
//!
//! Invariant: an invalid annotation has no effect.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use pintle_core::duration;

use crate::pod::{ObservedContainer, ObservedPod};
use crate::program::{Program, Variables};

/// The prefix of the annotations.
pub(crate) const PREFIX: &str = "sim.pintle.dev/";
/// The index annotation of an Indexed Job.
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The ordinal label of a StatefulSet.
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Most entries of one annotation that are considered.
const MAX_ENTRIES: usize = 1_000;

/// A value for all main containers, and values for named ones, from `5s` or `worker=5s,setup=1s`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerContainer<T> {
    all: Option<T>,
    named: BTreeMap<String, T>,
}

impl<T> Default for PerContainer<T> {
    fn default() -> Self {
        Self { all: None, named: BTreeMap::new() }
    }
}

impl<T: Copy> PerContainer<T> {
    pub(crate) fn read(text: &str, parse: impl Fn(&str) -> Option<T>) -> Self {
        let mut values = Self::default();
        for entry in text.split(',').take(MAX_ENTRIES) {
            match entry.split_once('=') {
                Some((name, value)) => {
                    values.named.extend(parse(value.trim()).map(|value| (name.trim().to_owned(), value)));
                }
                None => values.all = parse(entry.trim()).or(values.all),
            }
        }
        values
    }

    pub(crate) fn get(&self, role: Role, name: &str) -> Option<T> {
        self.named.get(name).copied().or(self.all.filter(|_| role == Role::Main))
    }
}

/// Simulation settings of a Pod, from its annotations `sim.pintle.dev/...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// `ready-after: 5s`: Running first, Ready this long afterwards.
    pub ready_after: Option<Duration>,
    /// `never-ready: "true"`: Running, but not Ready while the annotation exists.
    pub never_ready: bool,
    /// `start-after: 5s`: the startup probe succeeds this long after the start.
    pub start_after: Option<Duration>,
    /// `fail-after: 10s`: ends in phase Failed this long after it started, whatever its restart policy.
    pub fail_after: Option<Duration>,
    /// `complete-after: 10s`: ends in phase Succeeded this long after it started, whatever its restart policy.
    pub complete_after: Option<Duration>,
    /// `evict-after: 10s`: is evicted by its node this long after it started.
    pub evict_after: Option<Duration>,
    /// `stop-after: 30s`: takes this long to terminate, at most its grace period.
    pub stop_after: Option<Duration>,
    /// `stop-exit-code: "0"`: exit code of containers that terminate within the grace period.
    pub stop_exit_code: Option<i32>,
    /// `run-for: 5s`: how long a container runs until it ends.
    pub run_for: PerContainer<Duration>,
    /// `exit-code: "3"`: the exit code of a container.
    pub exit_code: PerContainer<i32>,
    /// `fail-times: "2"`: only the first runs fail, counted over the Pods of one controller and index; `always` for all.
    pub fail_times: PerContainer<u32>,
    /// `fail-indexes: 0,3-5`: only Pods with these indexes fail.
    pub fail_indexes: Option<Vec<RangeInclusive<u32>>>,
    /// `pull-error: "true"` or names of containers: the image cannot be pulled while the annotation exists.
    pub pull_error: BTreeSet<String>,
    /// The index of the Pod in an Indexed Job or a StatefulSet.
    pub index: Option<u32>,
}

/// The role of a container in its Pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Init,
    Sidecar,
    Main,
}

/// One run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its duration; `None`: until the container is stopped.
    pub(crate) takes: Option<Duration>,
    pub(crate) code: i32,
}

impl Behaviour {
    /// Parses the annotations of a Pod; an invalid value is ignored.
    pub fn of(pod: &ObservedPod) -> Self {
        let meta = &pod.metadata;
        let index = meta.annotations.get(COMPLETION_INDEX).or_else(|| meta.labels.get(POD_INDEX));
        Self { index: index.and_then(|text| text.parse().ok()), ..Self::from_annotations(&meta.annotations) }
    }

    fn from_annotations(annotations: &HashMap<String, String>) -> Self {
        if !annotations.keys().any(|name| name.starts_with(PREFIX)) {
            return Self::default();
        }
        let get = |name: &str| annotations.get(&format!("{PREFIX}{name}"));
        let duration = |name: &str| get(name).and_then(|text| parse_duration(text));
        Self {
            ready_after: duration("ready-after"),
            never_ready: get("never-ready").is_some_and(|text| text == "true"),
            start_after: duration("start-after"),
            fail_after: duration("fail-after"),
            complete_after: duration("complete-after"),
            evict_after: duration("evict-after"),
            stop_after: duration("stop-after"),
            stop_exit_code: get("stop-exit-code").and_then(|text| exit_code(text)),
            run_for: get("run-for").map(|text| PerContainer::read(text, parse_duration)).unwrap_or_default(),
            exit_code: get("exit-code").map(|text| PerContainer::read(text, exit_code)).unwrap_or_default(),
            fail_times: get("fail-times").map(|text| PerContainer::read(text, times)).unwrap_or_default(),
            fail_indexes: get("fail-indexes").map(|text| ranges(text)),
            pull_error: get("pull-error").map(|text| names(text)).unwrap_or_default(),
            index: None,
        }
    }

    /// Whether the runs of a container must be counted.
    pub(crate) fn counts_runs(&self, role: Role, name: &str) -> bool {
        self.fail_times.get(role, name).is_some()
    }

    /// Whether the image of a container cannot be pulled.
    pub(crate) fn cannot_pull(&self, container: &ObservedContainer) -> bool {
        // RFC 2606: names below `invalid` never resolve.
        let host = container.image.split_once('/').map_or("", |(host, _)| host);
        let host = host.split_once(':').map_or(host, |(host, _)| host);
        self.pull_error.contains("true") || self.pull_error.contains(&container.name) || host.ends_with(".invalid")
    }

    /// The next run of a container; `n_before`: the number of earlier runs.
    pub(crate) fn run(&self, pod: &ObservedPod, role: Role, container: &ObservedContainer, n_before: u32) -> Run {
        let name = container.name.as_str();
        let words: Vec<String> = container.command.iter().chain(&container.args).cloned().collect();
        let mut program = match words.as_slice() {
            [] => Program::ENDLESS,
            words => Program::read(words, &variables(pod, container)),
        };
        if role == Role::Init && program == Program::ENDLESS {
            // An init container that waits endlessly would be useless.
            program.runs = Some(Duration::ZERO);
        }
        let takes = self.run_for.get(role, name).or(program.runs);
        let code = self.exit_code.get(role, name);
        let times = self.fail_times.get(role, name);
        let indexes = self.fail_indexes.as_ref().filter(|_| role == Role::Main || code.or(times.map(|_| 1)).is_some());
        if times.is_none() && indexes.is_none() {
            return match code {
                Some(code) => Run { takes: takes.or(Some(Duration::ZERO)), code },
                None => Run { takes, code: program.code },
            };
        }
        let has_index = indexes.is_none_or(|ranges| self.index.is_some_and(|n| ranges.iter().any(|r| r.contains(&n))));
        if has_index && times.is_none_or(|times| n_before < times) {
            let code = code.filter(|code| *code != 0).or(Some(program.code).filter(|code| *code != 0)).unwrap_or(1);
            return Run { takes: takes.or(Some(Duration::ZERO)), code };
        }
        // The exit code is for failures; this run succeeds.
        Run { takes, code: if code.is_some() { 0 } else { program.code } }
    }

    /// Delays from a container's start until it is started, and until it is ready.
    pub(crate) fn delays(&self, container: &ObservedContainer) -> (Duration, Duration) {
        let of = |probe: &Option<crate::pod::Probe>| {
            probe.as_ref().map(|probe| Duration::from_secs(probe.initial_delay_seconds.into())).unwrap_or_default()
        };
        let started = self.start_after.unwrap_or_else(|| of(&container.startup_probe));
        (started, started.max(self.ready_after.unwrap_or_else(|| of(&container.readiness_probe))))
    }
}

/// The environment of a container, for values that its definition contains.
fn variables(pod: &ObservedPod, container: &ObservedContainer) -> Variables {
    let meta = &pod.metadata;
    let field = |path: &str| match path {
        "metadata.name" => Some(meta.name.clone()),
        "metadata.namespace" => Some(meta.namespace.clone()),
        "metadata.uid" => Some(meta.uid.clone()),
        path => {
            let (map, key) = path.strip_suffix("']")?.split_once("['")?;
            match map {
                "metadata.annotations" => meta.annotations.get(key).cloned(),
                "metadata.labels" => meta.labels.get(key).cloned(),
                _ => None,
            }
        }
    };
    let value = |variable: &crate::pod::Variable| match variable.value_from.field_ref.field_path.as_str() {
        "" => Some(variable.value.clone()),
        path => field(path),
    };
    container.env.iter().filter_map(|variable| Some((variable.name.clone(), value(variable)?))).collect()
}

fn exit_code(text: &str) -> Option<i32> {
    text.trim().parse().ok().filter(|code| (0..=255).contains(code))
}

fn times(text: &str) -> Option<u32> {
    if text == "always" { Some(u32::MAX) } else { text.parse().ok() }
}

fn names(text: &str) -> BTreeSet<String> {
    text.split(',').take(MAX_ENTRIES).map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn ranges(text: &str) -> Vec<RangeInclusive<u32>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').take(MAX_ENTRIES).filter_map(range).collect()
}

/// Parses a duration in Go's syntax, for example `1m30s`, or plain seconds.
fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit = if text.ends_with(|last: char| last.is_ascii_digit()) { "s" } else { "" };
    duration::parse(&format!("{text}{unit}")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, wanted) in [
            ("5s", Some(5_000)),
            ("250ms", Some(250)),
            ("1m30s", Some(90_000)),
            ("1.5s", Some(1_500)),
            ("7", Some(7_000)),
            ("0s", Some(0)),
            ("", None),
            ("soon", None),
            ("5x", None),
        ] {
            assert_eq!(parse_duration(text), wanted.map(Duration::from_millis), "{text}");
        }
    }

    fn pod(annotations: Value, command: &[&str]) -> ObservedPod {
        let mut pod = json!({"metadata": {"name": "p", "annotations": {}}, "spec": {"containers": [
            {"name": "c", "image": "i", "command": command, "env": [{"name": "JOB_COMPLETION_INDEX", "valueFrom":
            {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}]}]}});
        for (name, value) in annotations.as_object().unwrap() {
            let name = if name == "index" { COMPLETION_INDEX.to_owned() } else { format!("{PREFIX}{name}") };
            pod["metadata"]["annotations"][name] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn annotations_take_precedence_over_the_command() {
        let shell = ["sh", "-c", "sleep 1; [ $JOB_COMPLETION_INDEX = 4 ] && exit 8; exit 0"];
        for (annotations, command, n_before, wanted) in [
            (json!({}), &[][..], 0, None),
            (json!({}), &["sleep", "1"], 0, Some((1, 0))),
            (json!({"run-for": "3s"}), &[], 0, Some((3, 0))),
            (json!({"run-for": "3s"}), &["false"], 0, Some((3, 1))),
            (json!({"exit-code": "7"}), &[], 0, Some((0, 7))),
            (json!({"exit-code": "c=7, d=8"}), &["sleep", "2"], 0, Some((2, 7))),
            (json!({"exit-code": "d=8"}), &[], 0, None),
            (json!({"exit-code": "300"}), &[], 0, None),
            (json!({"exit-code": "oops", "run-for": "never"}), &["sleep", "2"], 0, Some((2, 0))),
            (json!({"fail-times": "1"}), &["sleep", "2"], 0, Some((2, 1))),
            (json!({"fail-times": "1"}), &["sleep", "2"], 1, Some((2, 0))),
            (json!({"fail-times": "1", "exit-code": "9"}), &[], 0, Some((0, 9))),
            (json!({"fail-times": "1", "exit-code": "9"}), &[], 1, None),
            (json!({"fail-times": "always"}), &["true"], 1_000, Some((0, 1))),
            (json!({"fail-indexes": "0,3-5", "index": "4"}), &["true"], 9, Some((0, 1))),
            (json!({"fail-indexes": "0,3-5", "index": "6"}), &["true"], 0, Some((0, 0))),
            (json!({"fail-indexes": "0,3-5"}), &["true"], 0, Some((0, 0))),
            (json!({"fail-indexes": "4", "index": "4", "fail-times": "2"}), &["true"], 1, Some((0, 1))),
            (json!({"fail-indexes": "4", "index": "4", "fail-times": "2"}), &["true"], 2, Some((0, 0))),
            (json!({"index": "4"}), &shell, 0, Some((1, 8))),
            (json!({"index": "5"}), &shell, 0, Some((1, 0))),
        ] {
            let pod = pod(annotations.clone(), command);
            let run = Behaviour::of(&pod).run(&pod, Role::Main, &pod.spec.containers[0], n_before);
            assert_eq!(run.takes.map(|takes| (takes.as_secs(), run.code)), wanted, "{annotations} {command:?}");
        }
    }

    #[test]
    fn values_without_a_name_are_for_main_containers() {
        let pod = pod(json!({"exit-code": "7"}), &[]);
        let run = |role| Behaviour::of(&pod).run(&pod, role, &pod.spec.containers[0], 0);
        assert_eq!(run(Role::Init), Run { takes: Some(Duration::ZERO), code: 0 });
        assert_eq!(run(Role::Sidecar), Run { takes: None, code: 0 });
        assert_eq!(run(Role::Main), Run { takes: Some(Duration::ZERO), code: 7 });
    }

    #[test]
    fn images_of_hosts_that_cannot_exist_are_not_pulled() {
        for (annotations, image, wanted) in [
            (json!({}), "nginx", false),
            (json!({}), "registry.invalid/nginx", true),
            (json!({}), "registry.invalid:5000/nginx", true),
            (json!({}), "docker.io/registry.invalid/x", false),
            (json!({"pull-error": "true"}), "nginx", true),
            (json!({"pull-error": "a, c"}), "nginx", true),
            (json!({"pull-error": "a"}), "nginx", false),
            (json!({"pull-error": "false"}), "nginx", false),
        ] {
            let mut pod = pod(annotations, &[]);
            pod.spec.containers[0].image = image.to_owned();
            assert_eq!(Behaviour::of(&pod).cannot_pull(&pod.spec.containers[0]), wanted, "{image}");
        }
    }

    #[test]
    fn probes_delay_start_and_readiness() {
        let mut pod = pod(json!({}), &[]);
        let probe = |seconds| Some(crate::pod::Probe { initial_delay_seconds: seconds });
        let delays = |pod: &ObservedPod| {
            let (started, ready) = Behaviour::of(pod).delays(&pod.spec.containers[0]);
            (started.as_secs(), ready.as_secs())
        };
        assert_eq!(delays(&pod), (0, 0));
        pod.spec.containers[0].readiness_probe = probe(5);
        assert_eq!(delays(&pod), (0, 5));
        pod.spec.containers[0].startup_probe = probe(9);
        assert_eq!(delays(&pod), (9, 9));
        pod.metadata.annotations.insert("sim.pintle.dev/start-after".to_owned(), "1s".to_owned());
        pod.metadata.annotations.insert("sim.pintle.dev/ready-after".to_owned(), "2s".to_owned());
        assert_eq!(delays(&pod), (1, 2));
    }
}
