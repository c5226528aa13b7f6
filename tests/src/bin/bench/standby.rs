//! The first write of a process that stood by.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use pintle_tests::controlplane::Audit;
use pintle_tests::scenarios::subject;
use pintle_tests::{ControlPlane, Options, standby_times};
use serde_json::json;

use crate::arguments::Args;
use crate::objects::{create_all, deployment, prepare, realistic_pod};
use crate::report::{Implementation, median, write};

/// From the Lease to the first write of a process that stood by, with many Pods in the cluster.
pub(crate) async fn standby(args: &Args) -> Result<()> {
    const PATH: &str = "/apis/apps/v1/namespaces/bench/deployments/app";
    let plane = ControlPlane::start(Options { audit: Some(Audit::Writes), ..Options::default() }).await?;
    let client = plane.client();
    prepare(&client).await?;
    let pod = realistic_pod();
    create_all(&client, "/api/v1/namespaces/bench/pods", (0..args.cached_pods).map(|_| pod.clone())).await?;
    client.create("/apis/apps/v1/namespaces/bench/deployments", &deployment("app", 1)).await?;
    let mut samples: BTreeMap<Implementation, Vec<f64>> = BTreeMap::new();
    for round in 0..args.rounds() {
        for implementation in args.turns(round, &[Implementation::KubeControllerManager]) {
            let subject = args.subject(implementation)?.context("nothing runs")?;
            let took = standby_times::measure(&plane, &subject, &subject::CONTROLLERS, PATH).await?;
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
