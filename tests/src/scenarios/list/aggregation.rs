//! ClusterRoles that have the rules of others.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Group;
use crate::api::PatchKind;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;
use crate::{PATIENCE, eventually};

/// What these scenarios are about.
pub(super) const GROUPS: &[Group] = &[(&["clusterrole-aggregation-controller"], &[SCENARIOS])];

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The manager of the rules that are aggregated.
const MANAGER: &str = "clusterrole-aggregation-controller";

const NO_BOOTSTRAP: &str = "it has no ClusterRoles of its own";

const SCENARIOS: &[Scenario] = &[
    Scenario::new("a ClusterRole aggregates those that it selects, in order", |s| Box::pin(selects(s))),
    Scenario::new("a ClusterRole that is no longer selected takes its rules along", |s| Box::pin(unselected(s))),
    Scenario::new("rules that somebody writes into an aggregating ClusterRole go", |s| Box::pin(overwritten(s))),
    Scenario::new("an aggregating ClusterRole is part of another ClusterRole", |s| Box::pin(nested(s))),
    Scenario::new("a ClusterRole whose last rules go keeps those that somebody else has written", |s| {
        Box::pin(emptied(s))
    }),
    Scenario::new("the user-facing ClusterRoles have their rules", |s| Box::pin(user_facing(s)))
        .only_real(NO_BOOTSTRAP),
];

/// ClusterRoles that nobody else selects.
struct Roles<'a> {
    s: &'a Stage,
}

impl Roles<'_> {
    fn path(&self, name: &str) -> String {
        format!("{ROLES}/{}-{name}", self.s.ns)
    }

    /// A ClusterRole with this label, if it is not empty, and a rule for each verb.
    async fn create(&self, name: &str, label: &str, verbs: &[&str]) -> Result<()> {
        let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
        let mut role = json!({"metadata": {"name": format!("{}-{name}", self.s.ns)}, "rules": rules});
        if !label.is_empty() {
            role["metadata"]["labels"] = json!({"aggregate": self.label(label)});
        }
        self.s.client.create(ROLES, &role).await?;
        Ok(())
    }

    /// One that selects the labels.
    async fn create_aggregate(&self, name: &str, label: &str, selected: &[&str]) -> Result<()> {
        let selectors: Vec<Value> =
            selected.iter().map(|one| json!({"matchLabels": {"aggregate": self.label(one)}})).collect();
        let mut role = json!({
            "metadata": {"name": format!("{}-{name}", self.s.ns)},
            "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": [],
        });
        if !label.is_empty() {
            role["metadata"]["labels"] = json!({"aggregate": self.label(label)});
        }
        self.s.client.create(ROLES, &role).await?;
        Ok(())
    }

    /// Labels select in the whole cluster, so they have the name of the namespace.
    fn label(&self, label: &str) -> String {
        format!("{}-{label}", self.s.ns)
    }

    async fn patch(&self, name: &str, patch: &Value) -> Result<()> {
        self.s.client.patch(&self.path(name), PatchKind::Merge, patch).await?;
        Ok(())
    }

    /// Waits until a ClusterRole has rules for these verbs, in this order, and notes its rules and who has written them.
    async fn has(&self, name: &str, verbs: &[&str], when: &str) -> Result<()> {
        let role = eventually(PATIENCE, format!("{name} to have the rules {verbs:?}"), async || {
            let role = self.s.client.get(&self.path(name)).await?;
            let rules = role["rules"].as_array().cloned().unwrap_or_default();
            let found: Vec<&str> = rules.iter().filter_map(|rule| rule["verbs"][0].as_str()).collect();
            ensure!(found == verbs, "it has {found:?}");
            Ok(Some(role))
        })
        .await?;
        self.s.observe(&format!("{name}, {when}"), &json!({"rules": role["rules"], "managers": managers(&role)}));
        Ok(())
    }
}

/// Who has written rules, and how.
fn managers(role: &Value) -> Vec<String> {
    let entries = role["metadata"]["managedFields"].as_array().into_iter().flatten();
    let of_rules = entries.filter(|entry| entry["fieldsV1"].get("f:rules").is_some() && entry["manager"] == MANAGER);
    of_rules.map(|entry| format!("{MANAGER} {}", entry["operation"].as_str().unwrap_or_default())).collect()
}

fn rule(verb: &str) -> Value {
    json!({"apiGroups": ["example.com"], "resources": ["nails", "wedges"], "verbs": [verb]})
}

async fn selects(s: &Stage) -> Result<()> {
    let roles = Roles { s };
    roles.create("saw", "second", &["saw"]).await?;
    roles.create("hammer", "first", &["hammer", "pull"]).await?;
    roles.create("chisel", "first", &["chisel"]).await?;
    roles.create("same", "second", &["hammer"]).await?;
    roles.create("alone", "third", &["alone"]).await?;
    roles.create_aggregate("all", "", &["first", "second"]).await?;
    roles.has("all", &["chisel", "hammer", "pull", "saw"], "when it is new").await?;
    roles.create("axe", "first", &["cut"]).await?;
    roles.has("all", &["cut", "chisel", "hammer", "pull", "saw"], "with one more").await
}

async fn unselected(s: &Stage) -> Result<()> {
    let roles = Roles { s };
    for name in ["chisel", "hammer", "saw"] {
        roles.create(name, "tool", &[name]).await?;
    }
    roles.create_aggregate("all", "", &["tool"]).await?;
    roles.has("all", &["chisel", "hammer", "saw"], "at the beginning").await?;
    s.client.delete(&roles.path("hammer"), None).await?;
    roles.has("all", &["chisel", "saw"], "after a deletion").await?;
    roles.patch("saw", &json!({"metadata": {"labels": {"aggregate": null}}})).await?;
    roles.has("all", &["chisel"], "after a change of a label").await?;
    roles.patch("chisel", &json!({"rules": [rule("carve")]})).await?;
    roles.has("all", &["carve"], "after a change of rules").await
}

async fn overwritten(s: &Stage) -> Result<()> {
    let roles = Roles { s };
    roles.create("hammer", "tool", &["hammer"]).await?;
    roles.create_aggregate("all", "", &["tool"]).await?;
    roles.has("all", &["hammer"], "at the beginning").await?;
    roles.patch("all", &json!({"rules": [rule("own"), rule("hammer")]})).await?;
    roles.has("all", &["hammer"], "after somebody has written").await?;
    let other =
        json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"aggregate": roles.label("other")}}]}});
    roles.create("saw", "other", &["saw"]).await?;
    roles.patch("all", &other).await?;
    roles.has("all", &["saw"], "with another selector").await
}

async fn nested(s: &Stage) -> Result<()> {
    let roles = Roles { s };
    roles.create_aggregate("outer", "", &["outer"]).await?;
    roles.create_aggregate("inner", "outer", &["inner", "outer"]).await?;
    roles.create("hammer", "inner", &["hammer"]).await?;
    roles.has("outer", &["hammer"], "by way of another").await?;
    roles.create("saw", "outer", &["saw"]).await?;
    // Both select it.
    roles.has("inner", &["hammer", "saw"], "with its own").await?;
    roles.has("outer", &["hammer", "saw"], "with both").await
}

async fn emptied(s: &Stage) -> Result<()> {
    let roles = Roles { s };
    roles.create("hammer", "tool", &["hammer"]).await?;
    roles.create_aggregate("all", "", &["tool"]).await?;
    roles.has("all", &["hammer"], "at the beginning").await?;
    s.client.delete(&roles.path("hammer"), None).await?;
    roles.has("all", &[], "with nothing that it selects").await?;
    // An apply without rules takes no rules away but its own.
    roles.patch("all", &json!({"rules": [rule("own")]})).await?;
    // It was looked at before this one, which came later.
    roles.create("saw", "elsewhere", &["saw"]).await?;
    roles.create_aggregate("other", "", &["elsewhere"]).await?;
    roles.has("other", &["saw"], "when all were looked at").await?;
    roles.has("all", &["own"], "after somebody has written").await
}

/// Each of them is part of the next, so the last one is complete once it has the rules of all.
async fn user_facing(s: &Stage) -> Result<()> {
    const NAMES: [&str; 3] = ["view", "edit", "admin"];
    let roles = eventually(PATIENCE, "the user-facing ClusterRoles to have their rules", async || {
        let mut roles = Vec::new();
        for name in NAMES {
            roles.push(s.client.get(&format!("{ROLES}/{name}")).await?);
        }
        let rules = |role: &Value| role["rules"].as_array().cloned().unwrap_or_default();
        let is_part = |pair: &[Value]| rules(&pair[0]).iter().all(|rule| rules(&pair[1]).contains(rule));
        ensure!(!rules(&roles[0]).is_empty() && roles.windows(2).all(is_part), "they are not complete");
        Ok(Some(roles))
    })
    .await?;
    for (name, role) in NAMES.iter().zip(roles) {
        s.observe(name, &json!({"rules": role["rules"], "managers": managers(&role)}));
    }
    Ok(())
}
