//! Determines the result of writes whose answer was lost.
//!
//! ```text
//! answer lost, or without a version ──> WriteProbe ──list──> API server ──> what the caches must show
//! ```
//!
//! A probe of a known name lists the object by name. A probe of a generated name lists by namespace and labels, and
//! selects the objects whose names can be generated from it. The key then waits for all of them; objects that the
//! caches already have cost nothing.
//!
//! Invariants:
//! 1. A probe reads the same objects as the informers, and only their metadata: it needs no further permission. Its
//!    requests count in the plugin's rate limit.
//! 2. Lists are consistent (no `resourceVersion`): they contain everything that the server executed before the probe.
//!
//! A write that the server is still processing is not in the answer. API servers end a request when its connection
//! breaks. After their own timeout (504), etcd may still execute the write until it gives up as well:
//! [`LATEST_COMMIT`].
//!
//! Not here: when to probe, and for how long (the controller).
//!
//! Source: none in kube-controller-manager: after a lost create, it lowers its expectations as if nothing had been
//! written.

use std::collections::BTreeMap;
use std::time::Duration;

use pintle_core::object::id::{Kind, ObjectKey};
use pintle_core::policy::pending::{Leaves, PendingWrite};
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiReader, Detail, ListWatchTarget, WriteRequest, WriteVerb};
use pintle_core::text::cut;
use serde::Deserialize;

use super::request::WriteTarget;

/// Time after a 504 by which etcd has executed a write, or never will. Etcd gives up a proposal after 5 s and two
/// elections of one second each by default.
const LATEST_COMMIT: Duration = Duration::from_secs(10);
/// Longest prefix of a generated name: API servers truncate it (`MaxGeneratedNameLength`).
const MAX_PREFIX_BYTES: usize = 58;
/// Page size; client-go's pager uses the same.
const PAGE: u32 = 500;

/// A list request to the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WriteProbe {
    pub(crate) kind: Kind,
    /// Empty for cluster-scoped kinds.
    pub(crate) namespace: String,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// The object with this name.
    Name(String),
    /// The objects that match these labels, and whose names start with this prefix.
    Generated { labels: String, prefix: String },
}

/// Whether the server may have executed a write that failed with this error. A rejection precedes any write.
pub(crate) fn may_have_happened(error: &ApiError) -> bool {
    match error.class {
        ApiErrorClass::Server | ApiErrorClass::Timeout | ApiErrorClass::Transport | ApiErrorClass::Malformed => true,
        // 503 may come from a proxy that lost the server after it forwarded the request.
        ApiErrorClass::Throttled(_) => error.code == 503,
        ApiErrorClass::NotFound
        | ApiErrorClass::AlreadyExists
        | ApiErrorClass::Conflict
        | ApiErrorClass::Gone
        | ApiErrorClass::Invalid
        | ApiErrorClass::Unauthorized
        | ApiErrorClass::Forbidden
        | ApiErrorClass::NotLeading => false,
    }
}

/// Delay of a probe after this error.
pub(crate) fn probe_after(error: &ApiError) -> Duration {
    if error.code == 504 { LATEST_COMMIT } else { Duration::ZERO }
}

/// The probe for a write. Collection deletions have none, because nothing waits for them.
pub(crate) fn probe(target: &WriteTarget, request: &WriteRequest) -> Option<WriteProbe> {
    let of = match &request.verb {
        WriteVerb::DeleteCollection { .. } => return None,
        _ if !target.object.name.is_empty() => Of::Name(target.object.name.to_string()),
        WriteVerb::Create { body } => generated(body),
        WriteVerb::Update { .. } | WriteVerb::Patch { .. } | WriteVerb::Delete { .. } => return None,
    };
    Some(WriteProbe { kind: target.kind.clone(), namespace: target.object.namespace.to_string(), of })
}

/// Objects with the labels of this object, whose name is generated.
fn generated(body: &str) -> Of {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Created {
        metadata: Meta,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Meta {
        generate_name: String,
        labels: Option<BTreeMap<String, String>>,
    }
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'));
    // The server rejects bodies that do not parse, and labels of other types.
    let Meta { generate_name, labels } = serde_json::from_str::<Created>(body).unwrap_or_default().metadata;
    let labels = labels.unwrap_or_default();
    let labels = labels.iter().filter(|(key, value)| !key.is_empty() && plain(key) && plain(value));
    let labels = labels.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    Of::Generated { labels, prefix: cut(&generate_name, MAX_PREFIX_BYTES).to_owned() }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ItemMeta {
    name: String,
    uid: String,
    resource_version: String,
}

impl WriteProbe {
    /// The probe for an object with a known name.
    pub(crate) fn named(kind: &Kind, object: &ObjectKey) -> Self {
        Self { kind: kind.clone(), namespace: object.namespace.to_string(), of: Of::Name(object.name.to_string()) }
    }

    /// Sends the list. `reading`: the target of the informers for this kind and namespace; `limited`: the plugin's own
    /// reader, which may read less: only its rate limit is used.
    ///
    /// # Errors
    /// If the list fails; a retry may help.
    ///
    /// # Cancel safety
    /// Safe: the request only reads.
    pub(crate) async fn ask(
        &self,
        mut reading: ListWatchTarget,
        reader: &dyn ApiReader,
        limited: &dyn ApiReader,
    ) -> Result<Vec<PendingWrite>, ApiError> {
        let (selector, more) = match &self.of {
            Of::Name(name) => (&mut reading.field_selector, format!("metadata.name={name}")),
            Of::Generated { labels, .. } => (&mut reading.label_selector, labels.clone()),
        };
        let parts = [selector.take().unwrap_or_default(), more];
        let joined = parts.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join(",");
        *selector = Some(joined).filter(|selector| !selector.is_empty());
        reading.detail = Detail::Metadata;
        match self.list(&reading, reader, limited).await {
            // The server does not support metadata-only lists of this kind.
            Err(error) if error.code == 406 => {
                self.list(&ListWatchTarget { detail: Detail::Full, ..reading }, reader, limited).await
            }
            result => result,
        }
    }

    async fn list(
        &self,
        reading: &ListWatchTarget,
        reader: &dyn ApiReader,
        limited: &dyn ApiReader,
    ) -> Result<Vec<PendingWrite>, ApiError> {
        let mut writes = Vec::new();
        let (mut next, mut page_size): (Option<String>, _) = (None, PAGE);
        loop {
            limited.turn().await;
            let page = match reader.list(reading, page_size, next.as_deref()).await {
                // The continue token has expired. As upstream, request all objects in one page.
                Err(error) if error.class == ApiErrorClass::Gone && next.is_some() && page_size == PAGE => {
                    (next, page_size) = (None, u32::MAX);
                    writes.clear();
                    continue;
                }
                page => page?,
            };
            for item in &page.items {
                let Item { metadata } = serde_json::from_str(item).map_err(|why| malformed(&why))?;
                if let Of::Generated { prefix, .. } = &self.of
                    && !metadata.name.starts_with(prefix)
                {
                    continue;
                }
                writes.push(self.write(&metadata.name, metadata.uid, metadata.resource_version, Leaves::Object));
            }
            next = page.next.filter(|token| !token.is_empty());
            if next.is_none() {
                if let (Of::Name(name), true) = (&self.of, writes.is_empty()) {
                    writes.push(self.write(name, String::new(), page.resource_version, Leaves::Nothing));
                }
                return Ok(writes);
            }
        }
    }

    fn write(&self, name: &str, uid: String, resource_version: String, leaves: Leaves) -> PendingWrite {
        let object = ObjectKey::new(&self.namespace, name);
        PendingWrite { kind: self.kind.clone(), object, uid, resource_version, leaves, labels: None }
    }
}

fn malformed(why: &serde_json::Error) -> ApiError {
    ApiError {
        class: ApiErrorClass::Malformed,
        code: 0,
        reason: "Malformed".into(),
        message: format!("cannot read the metadata of a listed object: {why}"),
        causes: Vec::new(),
    }
}
