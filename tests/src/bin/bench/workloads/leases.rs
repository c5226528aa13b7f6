//! The Leases of Nodes, which this process renews as kubelets do.
//!
//! Renewals are spread evenly over the period, so that the API server has the same load at all times. Nodes that are lost renew
//! no longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use pintle_tests::{ApiClient, PatchKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::nodes::Nodes;
use super::pods::node_name;
use crate::objects::{IN_FLIGHT, create_all};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Time between two renewals of a Lease.
const PERIOD: Duration = Duration::from_secs(10);

/// The Leases of all Nodes.
pub(super) struct Leases {
    client: ApiClient,
    nodes: Nodes,
    /// Whether the Nodes that are to be lost are lost.
    are_lost: AtomicBool,
}

impl Leases {
    pub(super) async fn create(client: &ApiClient, nodes: Nodes) -> Result<Leases> {
        create_all(client, LEASES, (0..nodes.n).map(lease)).await?;
        Ok(Leases { client: client.clone(), nodes, are_lost: AtomicBool::new(false) })
    }

    /// Renews them while something else is done.
    pub(super) async fn during<T>(&self, other: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            outcome = other => outcome,
            ended = self.renew_all() => {
                ended.context("renew the Leases")?;
                bail!("nobody renews Leases")
            }
        }
    }

    /// Ends the renewals of the Nodes that are to be lost, of all at once.
    pub(super) fn lose(&self) {
        self.are_lost.store(true, Ordering::Relaxed);
    }

    /// Renews one after the other, again and again, until a renewal fails.
    async fn renew_all(&self) -> Result<()> {
        // Ticks that come late are made up for.
        let mut ticks = tokio::time::interval(PERIOD.div_f64(self.nodes.n as f64));
        let due = futures::stream::poll_fn(move |context| ticks.poll_tick(context).map(Some));
        let numbers = futures::stream::iter((0..self.nodes.n).cycle());
        let renewals = numbers.zip(due).map(anyhow::Ok);
        renewals.try_for_each_concurrent(IN_FLIGHT, |(number, due)| self.renew(number, due)).await
    }

    /// Renews the Lease of a Node, unless it is lost.
    async fn renew(&self, number: usize, due: Instant) -> Result<()> {
        // Otherwise Nodes could seem lost that are not.
        ensure!(due.elapsed() < PERIOD, "this machine is too slow: Leases are renewed {PERIOD:?} too late");
        if self.are_lost.load(Ordering::Relaxed) && self.nodes.loses(number) {
            return Ok(());
        }
        let path = format!("{LEASES}/{}", node_name(number));
        let patch = json!({"spec": {"renewTime": now()}});
        self.client.patch(&path, PatchKind::Merge, &patch).await.map(drop)
    }
}

fn lease(number: usize) -> Value {
    let name = node_name(number);
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now()},
    })
}

/// The time as Leases have it, with exactly six decimals.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
