//! Executes the machine's decisions: list and watch on one side, a bounded set of writes on the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::client::ApiClient;
use crate::machine::{Machine, MachineConfig, Nodes, Outcome};
use crate::pod::ObservedPod;
use crate::requests::{Step, Write};
use crate::watch::{Observation, observe};
use crate::{SimNodesConfig, SimNodesStats};

/// Most observations that wait for the machine; a full channel blocks the watch.
const N_WAITING: usize = 1024;

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Meta {
    resource_version: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    metadata: Meta,
}

/// Simulates kubelets until cancelled.
pub(crate) async fn pods(
    client: ApiClient,
    config: SimNodesConfig,
    mut nodes: watch::Receiver<Arc<Nodes>>,
    stats: Arc<SimNodesStats>,
    cancel: CancellationToken,
) {
    // Without the labels and taints of the nodes, Pods could be bound to wrong ones.
    let first = tokio::select! {
        biased;
        () = cancel.cancelled() => return,
        first = nodes.changed() => first,
    };
    if first.is_err() {
        return;
    }
    let now = || (config.clock.0)();
    let (sender, mut seen) = mpsc::channel(N_WAITING);
    let watcher = tokio::spawn(observe(client.clone(), "/api/v1/pods", sender, cancel.clone()));
    let mut machine = Machine::new(MachineConfig {
        nodes: config.node_names(),
        bind: config.bind,
        ready_delay: config.ready_delay,
        stop_delay: config.stop_delay,
        back_off: config.back_off,
    });
    machine.set_nodes(nodes.borrow_and_update().clone(), now());
    let mut writes = FuturesUnordered::new();
    loop {
        let at = now();
        while writes.len() < config.n_in_flight.max(1) {
            let Some(write) = machine.take(at) else {
                break;
            };
            writes.push(carry_out(&client, write));
        }
        let wait = match machine.next_due() {
            Some(due) if writes.len() < config.n_in_flight.max(1) => {
                Some(Duration::try_from(due.duration_since(at)).unwrap_or_default())
            }
            _ => None,
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            // Its sender ends with the token.
            Ok(()) = nodes.changed() => machine.set_nodes(nodes.borrow_and_update().clone(), now()),
            // At most `n_in_flight` of them, so that observations are not delayed.
            Some((write, outcome)) = writes.next() => {
                count(&stats, &write, outcome);
                machine.finish(&write, outcome, now());
            }
            observation = seen.recv() => {
                // The watcher holds the sender until it is cancelled.
                let Some(observation) = observation else { break };
                take_in(&mut machine, observation, now());
                while let Ok(observation) = seen.try_recv() {
                    take_in(&mut machine, observation, now());
                }
            }
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
    // A watcher that panicked has already stopped.
    let _ = watcher.await;
}

fn take_in(machine: &mut Machine, observation: Observation<ObservedPod>, now: Timestamp) {
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
        (Outcome::Done(_), Step::Report) => &stats.statuses,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

async fn carry_out(client: &ApiClient, write: Write) -> (Write, Outcome) {
    let outcome = match client.perform(&write.request).await {
        Ok(_) if matches!(write.step, Step::Bind | Step::Delete) => Outcome::Done(0),
        Ok(answer) => {
            let answer: Answer = serde_json::from_str(&answer).unwrap_or_default();
            Outcome::Done(answer.metadata.resource_version.parse().unwrap_or_default())
        }
        Err(error) => match (error.code(), write.step) {
            (Some(404), _) | (Some(409), Step::Delete) => Outcome::Gone,
            // Another client wrote first; the watch delivers its write.
            (Some(409), _) => Outcome::Failed,
            _ => {
                tracing::debug!(path = write.request.path, step = ?write.step, %error, "write refused");
                Outcome::Failed
            }
        },
    };
    (write, outcome)
}
