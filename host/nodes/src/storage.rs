//! Follows claims, volumes, classes and Pods, and executes the decisions of `volumes`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::ApiClient;
use crate::volumes::{Storage, key_of, uses};
use crate::watch::{Observation, Watched, observe};

/// Most pending observations of each kind; a full channel blocks its watch.
const N_WAITING: usize = 256;
/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_secs(1);

/// An object of any kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
struct Object(Value);

impl Object {
    fn meta(&self, field: &str) -> &str {
        self.0["metadata"][field].as_str().unwrap_or_default()
    }
}

impl Watched for Object {
    fn version(&self) -> &str {
        self.meta("resourceVersion")
    }

    fn uid(&self) -> &str {
        self.meta("uid")
    }
}

/// The followed kinds.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Claim,
    Volume,
    Class,
    Pod,
}

const PATHS: [(Kind, &str); 4] = [
    (Kind::Claim, "/api/v1/persistentvolumeclaims"),
    (Kind::Volume, "/api/v1/persistentvolumes"),
    (Kind::Class, "/apis/storage.k8s.io/v1/storageclasses"),
    (Kind::Pod, "/api/v1/pods"),
];

/// Whether the observation changes anything.
fn take_in(storage: &mut Storage, kind: Kind, observation: Observation<Object>) -> bool {
    match observation {
        Observation::List(objects) => {
            clear(storage, kind);
            for object in objects {
                insert(storage, kind, object);
            }
            true
        }
        Observation::Changed(object) => insert(storage, kind, *object),
        Observation::Deleted(uid) => {
            let of_kind = match kind {
                Kind::Claim => &mut storage.claims,
                Kind::Volume => &mut storage.volumes,
                Kind::Class => &mut storage.classes,
                Kind::Pod => return storage.users.remove(&uid).is_some(),
            };
            let n_before = of_kind.len();
            of_kind.retain(|_, object| object["metadata"]["uid"] != *uid);
            of_kind.len() < n_before
        }
    }
}

fn clear(storage: &mut Storage, kind: Kind) {
    match kind {
        Kind::Claim => storage.claims.clear(),
        Kind::Volume => storage.volumes.clear(),
        Kind::Class => storage.classes.clear(),
        Kind::Pod => storage.users.clear(),
    }
}

/// Whether the object is new or has changed.
fn insert(storage: &mut Storage, kind: Kind, object: Object) -> bool {
    let name = object.meta("name").to_owned();
    match kind {
        Kind::Claim => put(&mut storage.claims, key_of(&object.0), object.0),
        Kind::Volume => put(&mut storage.volumes, name, object.0),
        Kind::Class => put(&mut storage.classes, name, object.0),
        // Only the claims and the node of a Pod matter.
        Kind::Pod => {
            let used = uses(&object.0);
            used.is_some_and(|used| put(&mut storage.users, object.meta("uid").to_owned(), used))
        }
    }
}

/// Whether the value differs from the previous one.
fn put<T: PartialEq>(map: &mut BTreeMap<String, T>, key: String, value: T) -> bool {
    let is_new = map.get(&key) != Some(&value);
    map.insert(key, value);
    is_new
}

/// Binds claims and provisions volumes until cancelled.
pub(crate) async fn follow(client: ApiClient, cancel: CancellationToken) {
    let (sender, mut seen) = mpsc::channel(N_WAITING);
    let mut watchers = Vec::new();
    for (kind, path) in PATHS {
        let (from_watch, mut of_kind) = mpsc::channel(N_WAITING);
        watchers.push(tokio::spawn(observe::<Object>(client.clone(), path, from_watch, cancel.clone())));
        let sender = sender.clone();
        watchers.push(tokio::spawn(async move {
            while let Some(observation) = of_kind.recv().await {
                if sender.send((kind, observation)).await.is_err() {
                    return;
                }
            }
        }));
    }
    drop(sender);
    let mut storage = Storage::default();
    let mut listed = [false; PATHS.len()];
    let mut is_behind = false;
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            observation = seen.recv() => {
                let Some(observation) = observation else { break };
                let (mut next, mut has_changed) = (Some(observation), false);
                while let Some((kind, observation)) = next {
                    listed[kind as usize] |= matches!(observation, Observation::List(_));
                    has_changed |= take_in(&mut storage, kind, observation);
                    next = seen.try_recv().ok();
                }
                // A failed write is sent again with the next observation.
                if !has_changed && !is_behind {
                    continue;
                }
            }
            () = tokio::time::sleep(RETRY), if is_behind => {}
        }
        // Without all kinds, a volume could seem to have lost its claim.
        if listed.contains(&false) {
            continue;
        }
        is_behind = false;
        for write in storage.next() {
            let sent = tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                sent = client.perform(&write) => sent,
            };
            if let Err(error) = sent {
                // Another client wrote first; the watch delivers its write.
                tracing::debug!(path = write.path, %error, "write refused");
                is_behind = true;
            }
        }
    }
    for watcher in watchers {
        // A watcher that panicked has already stopped.
        let _ = watcher.await;
    }
}
