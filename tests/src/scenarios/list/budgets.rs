//! PodDisruptionBudgets.
//!
//! Pods are there before their budget, because each look at a budget without Pods is an event, and how often it is looked at before they
//! come is chance.

mod counting;
mod evictions;
mod pods;

use anyhow::Result;
use serde_json::{Value, json};

use super::Group;
use crate::objects::{has_condition, is_observed, set_fields};
use crate::scenarios::stage::{Stage, pod};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] =
    &[(&["disruption-controller"], &[counting::SCENARIOS, evictions::SCENARIOS, pods::SCENARIOS])];

const BUDGETS: &str = "poddisruptionbudgets";

/// What these scenarios compare.
const KINDS: &[&str] = &[BUDGETS];

/// A budget of the Pods of an app.
fn budget(name: &str, app: &str, spec: &Value) -> Value {
    let mut object = json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": app}}}});
    set_fields(&mut object["spec"], spec);
    object
}

/// Creates ready Pods that nobody owns.
async fn create_pods(s: &Stage, app: &str, names: &[&str]) -> Result<()> {
    for name in names {
        s.create("pods", &pod(name, app)).await?;
    }
    for name in names {
        s.until("pods", name, "be ready", is_ready).await?;
    }
    Ok(())
}

/// Creates ready Pods of the app `web` that an object controls.
async fn create_owned(s: &Stage, api_version: &str, kind: &str, owner: &Value, names: &[&str]) -> Result<()> {
    let metadata = &owner["metadata"];
    let owner = json!({
        "apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true,
    });
    for name in names {
        let mut object = pod(name, "web");
        object["metadata"]["ownerReferences"] = json!([owner]);
        s.create("pods", &object).await?;
    }
    for name in names {
        s.until("pods", name, "be ready", is_ready).await?;
    }
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready", "True")
}

/// Waits until a budget allows so many disruptions, has so many healthy Pods, wants so many and expects so many.
async fn counts(s: &Stage, name: &str, numbers: [u64; 4]) -> Result<()> {
    const FIELDS: [&str; 4] = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    s.until(BUDGETS, name, &format!("have {FIELDS:?} of {numbers:?}"), |budget| {
        let status = &budget["status"];
        is_observed(budget)
            && FIELDS.iter().zip(numbers).all(|(field, number)| status[field] == number)
            && status["disruptedPods"].as_object().is_none_or(|pods| pods.is_empty())
    })
    .await
}

/// Waits for an event, and returns it.
async fn event(s: &Stage, reason: &str, about: &str) -> Result<Value> {
    let is_it = |event: &Value| event["reason"] == reason && event["involvedObject"]["name"] == about;
    let events = s.until_all("events", &format!("have {reason} of {about}"), |events| events.iter().any(is_it)).await?;
    Ok(events.into_iter().find(is_it).unwrap_or_default())
}

/// Deletes the events with this reason, which are chance.
async fn forget(s: &Stage, reason: &str) -> Result<()> {
    for event in s.list("events").await?.iter().filter(|event| event["reason"] == reason) {
        s.delete("events", event["metadata"]["name"].as_str().unwrap_or_default(), "Background").await?;
    }
    Ok(())
}
