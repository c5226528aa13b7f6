//! Indexed Jobs.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    INDEX, JOBS, active, create, end, of_index, succeed, until_active, until_complete, until_condition, until_counted,
    until_failed,
};
use crate::objects::set_fields;
use crate::scenarios::Scenario;
use crate::scenarios::stage::Stage;

pub(in crate::scenarios::list) const SCENARIOS: &[Scenario] = &[
    Scenario::new("a Job of Pods with indexes completes them in any order", |s| Box::pin(any_order(s))).comparing(JOBS),
    Scenario::new("a Job of Pods with indexes replaces one of an index", |s| Box::pin(replaced(s))).comparing(JOBS),
    Scenario::new("a Job of Pods with indexes fails if one of them does", |s| Box::pin(failed_index(s)))
        .comparing(JOBS),
    Scenario::new("a Job of Pods with indexes fails if too many of them do", |s| Box::pin(too_many(s))).comparing(JOBS),
    Scenario::new("a Job of Pods with indexes fails one of them by a rule", |s| Box::pin(by_rule(s))).comparing(JOBS),
    Scenario::new("a Job of Pods with indexes succeeds by a rule", |s| Box::pin(success_policy(s))).comparing(JOBS),
    Scenario::new("a Job of Pods with indexes becomes smaller and larger", |s| Box::pin(elastic(s))).comparing(JOBS),
];

fn indexed(completions: u32, parallelism: u32, more: &Value) -> Value {
    let mut spec = json!({"completionMode": "Indexed", "completions": completions, "parallelism": parallelism});
    set_fields(&mut spec, more);
    spec
}

/// Notes the indexes of active Pods.
async fn observe_indexes(s: &Stage, what: &str) -> Result<()> {
    let pods = active(s, "pi").await?;
    let mut indexes: Vec<&str> = pods.iter().filter_map(|pod| pod["metadata"]["annotations"][INDEX].as_str()).collect();
    indexes.sort_unstable();
    s.observe(what, &json!(indexes));
    Ok(())
}

async fn any_order(s: &Stage) -> Result<()> {
    create(s, "pi", indexed(6, 3, &json!({}))).await?;
    until_active(s, "pi", 3).await?;
    for (n, index) in [2, 0, 1, 4, 5, 3].into_iter().enumerate() {
        end(s, &of_index(s, index).await?, 0).await?;
        until_counted(s, "pi", n as u64 + 1, 0).await?;
        let indexes = s.get("jobs", "pi").await?["status"]["completedIndexes"].clone();
        s.observe(&format!("completed after {}", n + 1), &indexes);
    }
    until_complete(s, "pi").await
}

async fn replaced(s: &Stage) -> Result<()> {
    create(s, "pi", indexed(2, 2, &json!({}))).await?;
    until_active(s, "pi", 2).await?;
    end(s, &of_index(s, 1).await?, 1).await?;
    until_counted(s, "pi", 0, 1).await?;
    succeed(s, &until_active(s, "pi", 2).await?).await?;
    until_complete(s, "pi").await
}

async fn failed_index(s: &Stage) -> Result<()> {
    create(s, "pi", indexed(3, 3, &json!({"backoffLimitPerIndex": 1}))).await?;
    until_active(s, "pi", 3).await?;
    end(s, &of_index(s, 0).await?, 0).await?;
    until_counted(s, "pi", 1, 0).await?;
    end(s, &of_index(s, 1).await?, 1).await?;
    // Its successor knows of it.
    until_counted(s, "pi", 1, 1).await?;
    end(s, &of_index(s, 1).await?, 1).await?;
    until_counted(s, "pi", 1, 2).await?;
    let failed = s.get("jobs", "pi").await?["status"]["failedIndexes"].clone();
    s.observe("failed indexes", &failed);
    end(s, &of_index(s, 2).await?, 0).await?;
    until_failed(s, "pi", "FailedIndexes").await
}

async fn too_many(s: &Stage) -> Result<()> {
    let limits = json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1});
    create(s, "pi", indexed(4, 4, &limits)).await?;
    until_active(s, "pi", 4).await?;
    end(s, &of_index(s, 3).await?, 1).await?;
    until_counted(s, "pi", 0, 1).await?;
    end(s, &of_index(s, 0).await?, 1).await?;
    until_failed(s, "pi", "MaxFailedIndexesExceeded").await
}

async fn by_rule(s: &Stage) -> Result<()> {
    let rules = json!([
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]);
    let more = json!({"backoffLimitPerIndex": 5, "podFailurePolicy": {"rules": rules}});
    create(s, "pi", indexed(2, 2, &more)).await?;
    until_active(s, "pi", 2).await?;
    end(s, &of_index(s, 0).await?, 42).await?;
    until_counted(s, "pi", 0, 1).await?;
    end(s, &of_index(s, 1).await?, 7).await?;
    s.until_all("pods", "have a successor that knows of the ignored failure", |pods| {
        let ignored = "batch.kubernetes.io/job-index-ignored-failure-count";
        pods.iter().any(|pod| pod["metadata"]["annotations"][ignored] == "1")
    })
    .await?;
    end(s, &of_index(s, 1).await?, 0).await?;
    until_failed(s, "pi", "FailedIndexes").await
}

async fn success_policy(s: &Stage) -> Result<()> {
    let rules =
        json!([{"succeededIndexes": "1,3", "succeededCount": 2}, {"succeededIndexes": "0,2-3", "succeededCount": 1}]);
    create(s, "pi", indexed(4, 4, &json!({"successPolicy": {"rules": rules}}))).await?;
    until_active(s, "pi", 4).await?;
    end(s, &of_index(s, 1).await?, 0).await?;
    until_counted(s, "pi", 1, 0).await?;
    // The others are deleted, and neither succeed nor fail.
    end(s, &of_index(s, 2).await?, 0).await?;
    until_condition(s, "pi", "Complete", "True", "SuccessPolicy").await
}

async fn elastic(s: &Stage) -> Result<()> {
    let resize = async |n: u32| s.patch("jobs", "pi", &json!({"spec": {"completions": n, "parallelism": n}})).await;
    create(s, "pi", indexed(4, 4, &json!({}))).await?;
    until_active(s, "pi", 4).await?;
    end(s, &of_index(s, 3).await?, 0).await?;
    until_counted(s, "pi", 1, 0).await?;
    resize(2).await?;
    until_active(s, "pi", 2).await?;
    until_counted(s, "pi", 0, 0).await?;
    observe_indexes(s, "indexes of 2").await?;
    resize(3).await?;
    until_active(s, "pi", 3).await?;
    observe_indexes(s, "indexes of 3").await?;
    succeed(s, &until_active(s, "pi", 3).await?).await?;
    until_complete(s, "pi").await
}
