//! A ResourceQuota whose limit changes, with Secrets that come and go.
//!
//! The user waits after each step until the usage is the number of Secrets, and at the end it stays so: at rest, it is neither below nor
//! above what exists.
//!
//! Rule: at each write, there are no more Secrets than the limit.
//!
//! Not here: creators at once, of whom the API server refuses most (`host/sim/tests/quota.rs`, and a scenario).

use std::sync::Arc;

use anyhow::{Result, ensure};
use pintle_sim::{EventType, SimCluster, WriteRecord};
use serde_json::{Value, json};

use super::{Story, User, replay};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// The limits.
const FIRST: usize = 2;
const LAST: usize = 3;

/// The story.
pub const COUNT: Story = Story {
    name: "ResourceQuota",
    controllers: &["resourcequota-controller"],
    flags: &[],
    tell: |user| Box::pin(tell(user)),
    is_done: |cluster| is_counted(cluster, LAST, 3),
    check,
};

async fn tell(user: &User<'_>) -> Result<()> {
    let hard = |limit: usize| json!({"hard": {"secrets": limit.to_string()}});
    user.create(QUOTAS, &json!({"metadata": {"name": "q"}, "spec": hard(FIRST)})).await?;
    wait_for(user, FIRST, 0).await?;
    create(user, "a").await?;
    create(user, "b").await?;
    wait_for(user, FIRST, 2).await?;
    user.delete(&format!("{SECRETS}/a")).await?;
    // Admitted as soon as the deletion is counted.
    create(user, "c").await?;
    wait_for(user, FIRST, 2).await?;
    user.patch(&format!("{QUOTAS}/q"), &json!({"spec": hard(LAST)})).await?;
    wait_for(user, LAST, 2).await?;
    create(user, "d").await?;
    wait_for(user, LAST, 3).await?;
    user.delete(&format!("{SECRETS}/b")).await?;
    wait_for(user, LAST, 2).await?;
    create(user, "e").await?;
    wait_for(user, LAST, 3).await
}

async fn create(user: &User<'_>, name: &str) -> Result<()> {
    user.create(SECRETS, &json!({"metadata": {"name": name}})).await
}

async fn wait_for(user: &User<'_>, limit: usize, n: usize) -> Result<()> {
    let objects = [("", "resourcequotas"), ("", "secrets")];
    user.until(&format!("{n} of {limit} Secrets"), &objects, |cluster| is_counted(cluster, limit, n)).await
}

/// Whether there are `n` Secrets, and the status of the quota has this number and this limit.
fn is_counted(cluster: &SimCluster, limit: usize, n: usize) -> bool {
    let quotas = cluster.objects("", "resourcequotas");
    let [quota] = &quotas[..] else { return false };
    let of_secrets = |part: &Value| part["secrets"].as_str().and_then(|number| number.parse().ok());
    let counted = [of_secrets(&quota["status"]["hard"]), of_secrets(&quota["status"]["used"])];
    counted == [Some(limit), Some(n)] && cluster.objects("", "secrets").len() == n
}

fn check(history: &[Arc<WriteRecord>]) -> Result<()> {
    let (mut n, mut limit, last) = (0, FIRST, LAST.to_string());
    replay(history, |write| {
        match (write.resource.as_str(), write.effect) {
            ("secrets", EventType::Added) => n += 1,
            ("secrets", EventType::Deleted) => n -= 1,
            ("resourcequotas", _) if write.after.value()["spec"]["hard"]["secrets"].as_str() == Some(&*last) => {
                limit = LAST;
            }
            _ => {}
        }
        ensure!(n <= limit, "there are {n} Secrets, and the limit is {limit}");
        Ok(())
    })
}
