//! Lists and watches a kind, and restarts after each interruption.
//!
//! Not here: the meaning of the objects.

use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use kube::api::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::{ApiClient, ClientError, JSON};

/// Objects per page of a list.
const N_PER_PAGE: usize = 500;
/// First and longest delay before list and watch are retried.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Longest silence on a watch before it is reopened; the server closes watches earlier, on request.
const SILENCE: Duration = Duration::from_secs(330);

/// An object of a watched kind.
pub(crate) trait Watched: Clone + DeserializeOwned + Send {
    /// The resource version.
    fn version(&self) -> &str;
    /// The uid.
    fn uid(&self) -> &str;
}

/// An event of a watch.
pub(crate) enum Observation<T> {
    /// All objects.
    List(Vec<T>),
    /// One object is new or has changed.
    Changed(Box<T>),
    /// The object with this uid was deleted.
    Deleted(String),
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

/// Lists and watches until cancelled: again from the start after 410, after a delay when the server is unreachable. `path`: that of
/// the collection.
pub(crate) async fn observe<T: Watched>(
    client: ApiClient,
    path: &'static str,
    sender: mpsc::Sender<Observation<T>>,
    cancel: CancellationToken,
) {
    let mut pause = RECONNECT.0;
    let mut version = None;
    loop {
        let from = version.take();
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            result = list_and_watch(&client, path, &sender, from, &mut pause) => result,
        };
        match result {
            Ok(next) => {
                version = next;
                continue;
            }
            Err(error) => tracing::debug!(path, %error, "watch interrupted"),
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(RECONNECT.1),
        }
    }
}

/// One watch, after a list if there is no version to continue from. Returns the version to continue from, if any.
async fn list_and_watch<T: Watched>(
    client: &ApiClient,
    path: &str,
    sender: &mpsc::Sender<Observation<T>>,
    from: Option<String>,
    pause: &mut Duration,
) -> Result<Option<String>, ClientError> {
    let mut version = match from {
        Some(version) => version,
        None => {
            let (version, objects) = list(client, path).await?;
            // A closed channel means that the nodes are stopping; the caller handles it.
            let _ = sender.send(Observation::List(objects)).await;
            version
        }
    };
    let path = format!("{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion={version}");
    let events = match client.watch::<T>(&path).await {
        Err(error) if error.code() == Some(410) => return Ok(None),
        events => events?,
    };
    tokio::pin!(events);
    *pause = RECONNECT.0;
    loop {
        let (object, is_deleted) = match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => (object, false),
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => (object, true),
            Ok(Some(Ok(WatchEvent::Bookmark(mark)))) => {
                version = mark.metadata.resource_version;
                continue;
            }
            // Usually 410; a new list recovers from any cause.
            Ok(Some(Ok(WatchEvent::Error(_)))) => return Ok(None),
            Ok(Some(Err(kube::Error::SerdeError(error)))) => {
                return Err(ClientError::Transport(format!("malformed watch event: {error}")));
            }
            Ok(None) => return Ok(Some(version)),
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, "watch ended early");
                return Ok(Some(version));
            }
            Err(_) => {
                tracing::debug!("the watch went silent");
                return Ok(Some(version));
            }
        };
        object.version().clone_into(&mut version);
        let seen = if is_deleted {
            Observation::Deleted(object.uid().to_owned())
        } else {
            Observation::Changed(Box::new(object))
        };
        if sender.send(seen).await.is_err() {
            return Ok(Some(version));
        }
    }
}

async fn list<T: Watched>(client: &ApiClient, path: &str) -> Result<(String, Vec<T>), ClientError> {
    let mut objects = Vec::new();
    let mut token = String::new();
    loop {
        let mut path = format!("{path}?limit={N_PER_PAGE}");
        if !token.is_empty() {
            path.push_str("&continue=");
            path.extend(token.bytes().map(escaped));
        }
        let body = client.send(Method::GET, &path, JSON, Vec::new()).await?;
        let page: Page<T> =
            serde_json::from_str(&body).map_err(|error| ClientError::Transport(format!("malformed list: {error}")))?;
        objects.extend(page.items);
        token = page.metadata.r#continue;
        if token.is_empty() {
            return Ok((page.metadata.resource_version, objects));
        }
    }
}

/// Percent-encodes a byte for a query.
fn escaped(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    }
}
