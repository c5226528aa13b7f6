//! Carries out the machine's decisions: list and watch on one side, a bounded set of writes on the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, ClientError};
use crate::machine::{Machine, MachineConfig, Outcome};
use crate::pod::ObservedPod;
use crate::requests::{Step, Write};
use crate::{SimNodesConfig, SimNodesStats};

/// Observations that wait for the machine; a full channel blocks the watch.
const N_WAITING: usize = 1024;
/// Pods per page of a list.
const N_PER_PAGE: usize = 500;
/// First and longest delay before list and watch are retried.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

enum Observation {
    List(Vec<ObservedPod>),
    Changed(Box<ObservedPod>),
    Deleted(String),
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<ObservedPod>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    metadata: ListMeta,
}

/// Simulates kubelets until cancelled.
pub(crate) async fn pods(
    client: ApiClient,
    config: SimNodesConfig,
    stats: Arc<SimNodesStats>,
    cancel: CancellationToken,
) {
    let (sender, mut seen) = mpsc::channel(N_WAITING);
    let watcher = tokio::spawn(observe(client.clone(), sender, cancel.clone()));
    let mut machine = Machine::new(MachineConfig {
        nodes: config.node_names(),
        bind: config.bind,
        ready_delay: config.ready_delay,
        stop_delay: config.stop_delay,
    });
    let mut writes = FuturesUnordered::new();
    loop {
        let now = Timestamp::now();
        while writes.len() < config.n_in_flight.max(1) {
            let Some(write) = machine.take(now) else {
                break;
            };
            writes.push(carry_out(&client, write));
        }
        let wait = match machine.next_due() {
            Some(due) if writes.len() < config.n_in_flight.max(1) => {
                Some(Duration::try_from(due.duration_since(now)).unwrap_or_default())
            }
            _ => None,
        };
        tokio::select! {
            () = cancel.cancelled() => break,
            observation = seen.recv() => {
                // The watcher holds the sender until it is cancelled.
                let Some(observation) = observation else { break };
                take_in(&mut machine, observation);
                while let Ok(observation) = seen.try_recv() {
                    take_in(&mut machine, observation);
                }
            }
            Some((write, outcome)) = writes.next() => {
                count(&stats, &write, outcome);
                machine.finish(&write, outcome, Timestamp::now());
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
    // A watcher that panicked has already stopped.
    let _ = watcher.await;
}

fn take_in(machine: &mut Machine, observation: Observation) {
    let now = Timestamp::now();
    match observation {
        Observation::List(pods) => machine.replace(pods, now),
        Observation::Changed(pod) => machine.observe(*pod, now),
        Observation::Deleted(uid) => machine.forget(&uid),
    }
}

fn count(stats: &SimNodesStats, write: &Write, outcome: Outcome) {
    let counter = match (outcome, write.step) {
        (Outcome::Failed, _) => &stats.failures,
        (Outcome::Gone, _) => return,
        (Outcome::Done(_), Step::Bind) => &stats.binds,
        (Outcome::Done(_), Step::Delete) => &stats.deletes,
        (Outcome::Done(_), Step::Run { .. } | Step::Finish { .. }) => &stats.statuses,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

async fn carry_out(client: &ApiClient, write: Write) -> (Write, Outcome) {
    let body = Bytes::from(write.body.to_string());
    let outcome = match client.send(write.method.clone(), &write.path, write.content_type, body).await {
        Ok(_) if matches!(write.step, Step::Bind | Step::Delete) => Outcome::Done(0),
        Ok(answer) => {
            let answer: Answer = serde_json::from_slice(&answer).unwrap_or_default();
            Outcome::Done(answer.metadata.resource_version.parse().unwrap_or_default())
        }
        Err(error) => match (error.code(), write.step) {
            (Some(404), _) | (Some(409), Step::Delete) => Outcome::Gone,
            // Another client was faster; the watch will deliver its write.
            (Some(409), _) => Outcome::Failed,
            _ => {
                tracing::debug!(path = write.path, step = ?write.step, %error, "write refused");
                Outcome::Failed
            }
        },
    };
    (write, outcome)
}

/// Lists and watches until cancelled: again from the start after 410, after a delay when the server is unreachable.
async fn observe(client: ApiClient, sender: mpsc::Sender<Observation>, cancel: CancellationToken) {
    let mut pause = RECONNECT.0;
    let mut version = None;
    loop {
        let from = version.take();
        let result = tokio::select! {
            () = cancel.cancelled() => return,
            result = list_and_watch(&client, &sender, from, &mut pause) => result,
        };
        match result {
            Ok(next) => {
                version = next;
                continue;
            }
            Err(error) => tracing::debug!(%error, "watch of Pods interrupted"),
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(RECONNECT.1),
        }
    }
}

/// One watch, after a list if there is no version to continue from. Returns the version to continue from, if any.
async fn list_and_watch(
    client: &ApiClient,
    sender: &mpsc::Sender<Observation>,
    from: Option<String>,
    pause: &mut Duration,
) -> Result<Option<String>, ClientError> {
    let mut version = match from {
        Some(version) => version,
        None => {
            let (version, pods) = list(client).await?;
            // A closed channel means that the nodes are stopping; the caller handles it.
            let _ = sender.send(Observation::List(pods)).await;
            version
        }
    };
    let path = format!("/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={version}");
    let mut lines = match client.watch(&path).await {
        Err(error) if error.code() == Some(410) => return Ok(None),
        lines => lines?,
    };
    *pause = RECONNECT.0;
    loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(Some(version)),
            Err(error) => {
                tracing::debug!(%error, "watch of Pods ended early");
                return Ok(Some(version));
            }
        };
        let malformed = |error: serde_json::Error| ClientError::Transport(format!("malformed watch event: {error}"));
        let event: Event<'_> = serde_json::from_slice(&line).map_err(malformed)?;
        if event.r#type == "ERROR" {
            // Mostly 410; a new list repairs any cause.
            return Ok(None);
        }
        let pod: ObservedPod = serde_json::from_str(event.object.get()).map_err(malformed)?;
        version.clone_from(&pod.metadata.resource_version);
        let seen = match event.r#type {
            "ADDED" | "MODIFIED" => Observation::Changed(Box::new(pod)),
            "DELETED" => Observation::Deleted(pod.metadata.uid),
            _ => continue,
        };
        if sender.send(seen).await.is_err() {
            return Ok(Some(version));
        }
    }
}

async fn list(client: &ApiClient) -> Result<(String, Vec<ObservedPod>), ClientError> {
    let mut pods = Vec::new();
    let mut token = String::new();
    loop {
        let mut path = format!("/api/v1/pods?limit={N_PER_PAGE}");
        if !token.is_empty() {
            path.push_str("&continue=");
            path.extend(token.bytes().map(escaped));
        }
        let body = client.send(Method::GET, &path, "application/json", Bytes::new()).await?;
        let page: Page = serde_json::from_slice(&body)
            .map_err(|error| ClientError::Transport(format!("malformed list: {error}")))?;
        pods.extend(page.items);
        token = page.metadata.r#continue;
        if token.is_empty() {
            return Ok((page.metadata.resource_version, pods));
        }
    }
}

/// Percent-encodes a byte for a query.
fn escaped(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}
