//! Waiting by a watch: unlike a look every few milliseconds, it costs the API server little and shows the end at once.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use pintle_tests::api::Watch;
use pintle_tests::{ApiClient, Failure, PATIENCE};
use serde_json::Value;

/// The events of a collection. A fresh API server has little room for each watch, and ends one that is not read for a moment; it is
/// opened again where it ended.
pub(super) struct Events {
    client: ApiClient,
    path: String,
    accept: &'static str,
    watch: Watch,
    /// Of the last event.
    version: Option<String>,
}

impl Events {
    /// Begins with the objects that there are. `accept` is the representation of objects.
    pub(super) async fn open(client: &ApiClient, path: &str, accept: &'static str) -> Result<Events> {
        let watch = watch(client, path, accept, None).await?;
        Ok(Events { client: client.clone(), path: path.to_owned(), accept, watch, version: None })
    }

    /// The type of the next event and its object. Objects may be added again.
    pub(super) async fn next(&mut self) -> Result<(String, Value)> {
        loop {
            let event = self.watch.next(PATIENCE).await?;
            if let Some(mut event) = event
                && let Some(kind) = event["type"].as_str().filter(|kind| *kind != "ERROR").map(str::to_owned)
            {
                let object = event["object"].take();
                self.version = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                return Ok((kind, object));
            }
            let version = self.version.take();
            self.watch = match watch(&self.client, &self.path, self.accept, version.as_deref()).await {
                // It has forgotten what came after.
                Err(error) if Failure::code_of(&error) == Some(410) => {
                    watch(&self.client, &self.path, self.accept, None).await?
                }
                opened => opened?,
            };
        }
    }
}

async fn watch(client: &ApiClient, path: &str, accept: &str, version: Option<&str>) -> Result<Watch> {
    let version = version.map_or_else(String::new, |version| format!("&resourceVersion={version}"));
    client.watch_with(&format!("{path}?watch=true{version}"), &[("accept", accept)]).await
}

/// A watch of a collection that was opened before its objects were made.
pub(super) struct Watched(Events);

impl Watched {
    pub(super) async fn open(client: &ApiClient, path: &str) -> Result<Watched> {
        Ok(Watched(Events::open(client, path, "application/json").await?))
    }

    /// Waits until `n` objects look as wanted at the same time.
    pub(super) async fn until(&mut self, n: usize, looks: impl Fn(&Value) -> bool) -> Result<()> {
        let mut so_far = BTreeSet::new();
        let waited = tokio::time::timeout(PATIENCE, async {
            while so_far.len() < n {
                let (kind, object) = self.0.next().await?;
                let name = object["metadata"]["name"].as_str().context("an object without a name")?;
                if kind != "DELETED" && looks(&object) {
                    so_far.insert(name.to_owned());
                } else {
                    so_far.remove(name);
                }
            }
            anyhow::Ok(())
        });
        match waited.await {
            Ok(outcome) => outcome,
            Err(_) => bail!("{} of {n} objects of {} are as wanted after {PATIENCE:?}", so_far.len(), self.0.path),
        }
    }
}
