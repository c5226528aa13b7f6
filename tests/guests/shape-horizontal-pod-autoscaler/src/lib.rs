//! The shape of the HorizontalPodAutoscaler controller: metrics by a raw path, the scale of any kind by a subresource, and former
//! recommendations in the state, dated by the clock that nobody sets, so that a step of the wall clock scales nothing.

use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::quantity::Quantity;
use pintle_sdk::{Error, Key, Kind, Lister, Mutation, Need, Outcome, PatchType, Resource, Step, resource};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Autoscaler {
    metadata: ObjectMeta,
    spec: Spec,
    status: Value,
}

resource!(Autoscaler, "autoscaling", "v2", "HorizontalPodAutoscaler");

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    scale_target_ref: Target,
    min_replicas: Option<u32>,
    max_replicas: u32,
    metrics: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Target {
    api_version: String,
    kind: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// In milliseconds, as the next one.
    sync_period: u64,
    downscale_stabilization: u64,
}

pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let state = format!("recommendations/{}/{}", key.namespace, key.name);
    let Some(hpa) = lister.get::<Autoscaler>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new().forget(state));
    };
    let settings: Settings = lister.config()?;
    let target = &hpa.spec.scale_target_ref;
    let kind = Kind::from_api_version(&target.api_version, &target.kind);
    let again = Outcome::new().requeue_after(Duration::from_millis(settings.sync_period));
    let Some(scale) = lister.live_subresource::<Value>(&kind, &key.namespace, &target.name, "scale")? else {
        return Ok(again.run_label("action", "none"));
    };

    let current = number(&scale["spec"]["replicas"]);
    let selector = scale["status"]["selector"].as_str().unwrap_or_default();
    let path = format!(
        "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods?labelSelector={}",
        key.namespace,
        utf8_percent_encode(selector, NON_ALPHANUMERIC)
    );
    let usage = match lister.ask(Need::RawPath(path))? {
        Ok(text) => serde_json::from_str::<Value>(&text).map_err(|error| Error::retry(error.to_string()))?,
        Err(error) => return Err(Error::retry(format!("read the metrics of Pods: {}", error.message))),
    };
    let pods = usage["items"].as_array().map_or(&[][..], Vec::as_slice);
    let total: f64 = pods.iter().flat_map(|pod| pod["containers"].as_array()).flatten().map(cpu).sum();
    let wanted = hpa.spec.metrics.iter().find_map(|metric| metric["resource"]["target"]["averageValue"].as_str());
    let wanted: Quantity =
        wanted.unwrap_or("1").parse().map_err(|_| Error::Terminal("averageValue is no quantity".into()))?;
    let ratio = total / wanted.approximate() / f64::from(current.max(1));
    // Within a tenth, nothing changes.
    let proposal = if (ratio - 1.0).abs() <= 0.1 { current } else { (ratio * f64::from(current)).ceil() as u32 };

    // The highest recommendation of the last minutes counts.
    let now = lister.uptime().as_secs_f64();
    let mut recent: Vec<(f64, u32)> = match lister.state(&state) {
        Some(text) => serde_json::from_str(&text).map_err(|error| Error::Terminal(error.to_string()))?,
        None => vec![(now, current)],
    };
    let window = Duration::from_millis(settings.downscale_stabilization).as_secs_f64();
    recent.retain(|(at, _)| now - at < window);
    recent.push((now, proposal));
    let stable = recent.iter().map(|(_, n)| *n).max().unwrap_or(proposal);
    let desired = stable.clamp(hpa.spec.min_replicas.unwrap_or(1), hpa.spec.max_replicas.min((2 * current).max(4)));

    let mut outcome = again.keep(state, json!(recent).to_string());
    let mut steps = Vec::new();
    if desired != current {
        let mut scale = scale.clone();
        scale["spec"]["replicas"] = desired.into();
        steps.push(Mutation::update(&kind, scale).subresource("scale"));
    }
    outcome = outcome.run_label(
        "action",
        if steps.is_empty() {
            "none"
        } else if desired > current {
            "scale_up"
        } else {
            "scale_down"
        },
    );
    outcome = outcome.step(Step::sequential(steps));
    let status = json!({"currentReplicas": current, "desiredReplicas": desired});
    Ok(
        if hpa.status["currentReplicas"] == status["currentReplicas"]
            && hpa.status["desiredReplicas"] == status["desiredReplicas"]
        {
            outcome
        } else {
            let patch =
                Mutation::patch(&Autoscaler::KIND, hpa.metadata.key(), PatchType::Merge, json!({"status": status}));
            outcome.step(Step::sequential([patch.subresource("status").uid(&hpa.metadata.uid)]))
        },
    )
}

fn number(value: &Value) -> u32 {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
}

/// Cores that a container uses.
fn cpu(container: &Value) -> f64 {
    let usage = container["usage"]["cpu"].as_str().unwrap_or_default();
    usage.parse::<Quantity>().map_or(0.0, Quantity::approximate)
}

pintle_sdk::export!(reconcile);
