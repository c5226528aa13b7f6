//! Runs Pods: a client with as many requests in flight as [`IN_FLIGHT`], and one or two for each Pod.
//!
//! It is faster than the controllers that are measured, and the same for all of them. It watches metadata unless it needs more, so that no
//! subject shares its representation of objects, which the API server encodes once for all who want the same.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use futures::StreamExt as _;
use pintle_tests::objects::pinned_node;
use pintle_tests::{ApiClient, Failure, PatchKind};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::watched::Events;
use crate::objects::IN_FLIGHT;

const PODS: &str = "/api/v1/namespaces/bench/pods";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// What becomes of each Pod as soon as it exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It succeeds.
    Succeeded,
    /// It runs and is ready.
    Ready,
    /// It is bound to the node that its affinity names, runs and is ready.
    BoundAndReady,
}

/// Acts on Pods until it is dropped.
pub(super) struct Finisher {
    reader: JoinHandle<Result<()>>,
    writer: JoinHandle<Result<()>>,
}

impl Finisher {
    pub(super) async fn start(client: &ApiClient, fate: Fate) -> Result<Finisher> {
        let accept = if fate == Fate::BoundAndReady { "application/json" } else { METADATA };
        let mut events = Events::open(client, PODS, accept).await?;
        let (pods, mut new) = mpsc::unbounded_channel();
        // Never waits for the writer: the API server ends a watch that is not read.
        let reader = tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            loop {
                let (kind, pod) = events.next().await?;
                let name = pod["metadata"]["name"].as_str().context("a Pod without a name")?;
                if kind == "ADDED" && seen.insert(name.to_owned()) {
                    pods.send(pod).ok();
                }
            }
        });
        let client = client.clone();
        let writer = tokio::spawn(async move {
            let new = futures::stream::poll_fn(move |context| new.poll_recv(context));
            let mut done = new.map(|pod| finish(&client, pod, fate)).buffer_unordered(IN_FLIGHT);
            while let Some(outcome) = done.next().await {
                outcome?;
            }
            Ok(())
        });
        Ok(Finisher { reader, writer })
    }

    /// Does something else meanwhile, which must end before this does.
    pub(super) async fn during<T>(&mut self, other: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            outcome = other => outcome,
            ended = &mut self.reader => bail!("nobody runs Pods: {:#}", reason(ended)),
            ended = &mut self.writer => bail!("nobody runs Pods: {:#}", reason(ended)),
        }
    }
}

impl Drop for Finisher {
    fn drop(&mut self) {
        self.reader.abort();
        self.writer.abort();
    }
}

fn reason(ended: Result<Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("it is over"),
        Ok(Err(error)) => error,
        Err(error) => error.into(),
    }
}

async fn finish(client: &ApiClient, pod: Value, fate: Fate) -> Result<()> {
    let name = pod["metadata"]["name"].as_str().context("a Pod without a name")?;
    let path = format!("{PODS}/{name}");
    if fate == Fate::BoundAndReady {
        let target = json!({"kind": "Node", "name": pinned_node(&pod)});
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        unless_gone(client.create(&format!("{path}/binding"), &binding).await)?;
    }
    unless_gone(client.patch(&format!("{path}/status"), PatchKind::Merge, &status(fate)).await)
}

/// The status of a Pod as a kubelet would write it, without what no controller reads.
pub(super) fn status(fate: Fate) -> Value {
    if fate == Fate::Succeeded {
        return json!({"status": {"phase": "Succeeded"}});
    }
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap_or_default();
    let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()});
    json!({"status": {"phase": "Running", "startTime": now.to_string(), "conditions": [ready]}})
}

fn unless_gone(outcome: Result<Value>) -> Result<()> {
    match outcome {
        Err(error) if Failure::code_of(&error) == Some(404) => Ok(()),
        outcome => outcome.map(drop),
    }
}
