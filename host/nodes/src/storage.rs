//! Follows claims, volumes, classes and Pods, and carries out what `volumes` decides.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::ApiClient;
use crate::volumes::{Storage, key, uses};
use crate::watch::{Observation, Watched, observe};

/// Observations of each kind that wait; a full channel blocks its watch.
const N_WAITING: usize = 256;
/// Before a request that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// An object of any kind.
#[derive(Debug, Deserialize)]
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

/// The kinds.
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

fn take_in(storage: &mut Storage, kind: Kind, observation: Observation<Object>) {
    match observation {
        Observation::List(objects) => {
            clear(storage, kind);
            objects.into_iter().for_each(|object| insert(storage, kind, object));
        }
        Observation::Changed(object) => insert(storage, kind, *object),
        Observation::Deleted(uid) => {
            let other = |object: &mut Value| object["metadata"]["uid"] != *uid;
            match kind {
                Kind::Claim => storage.claims.retain(|_, object| other(object)),
                Kind::Volume => storage.volumes.retain(|_, object| other(object)),
                Kind::Class => storage.classes.retain(|_, object| other(object)),
                Kind::Pod => drop(storage.users.remove(&uid)),
            }
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

fn insert(storage: &mut Storage, kind: Kind, object: Object) {
    let name = object.meta("name").to_owned();
    match kind {
        Kind::Claim => drop(storage.claims.insert(key(object.meta("namespace"), &name), object.0)),
        Kind::Volume => drop(storage.volumes.insert(name, object.0)),
        Kind::Class => drop(storage.classes.insert(name, object.0)),
        Kind::Pod => {
            if let Some(used) = uses(&object.0) {
                storage.users.insert(object.meta("uid").to_owned(), used);
            }
        }
    }
}

/// Binds claims and makes volumes until cancelled.
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
            () = cancel.cancelled() => break,
            observation = seen.recv() => {
                let Some((kind, observation)) = observation else { break };
                listed[kind as usize] |= matches!(observation, Observation::List(_));
                take_in(&mut storage, kind, observation);
                while let Ok((kind, observation)) = seen.try_recv() {
                    listed[kind as usize] |= matches!(observation, Observation::List(_));
                    take_in(&mut storage, kind, observation);
                }
            }
            () = tokio::time::sleep(RETRY), if is_behind => {}
        }
        // Without all kinds, a volume would seem to have lost its claim.
        if listed.contains(&false) {
            continue;
        }
        is_behind = false;
        for write in storage.next() {
            let body = Bytes::from(write.body.to_string());
            let sent = tokio::select! {
                () = cancel.cancelled() => break,
                sent = client.send(write.method, &write.path, write.content_type, body) => sent,
            };
            if let Err(error) = sent {
                // The watch brings what another client was faster with.
                tracing::debug!(path = write.path, %error, "not stored");
                is_behind = true;
            }
        }
    }
    for watcher in watchers {
        // A watcher that panicked has already stopped.
        let _ = watcher.await;
    }
}
