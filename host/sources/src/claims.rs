//! The names that `ControllerPlugin`s and the plugin folder claim, before the host starts its base plugins.
//!
//! A base plugin (built in, or of the command line) with a claimed name does not start: after a restart, a replaced or
//! disabled controller would otherwise run in its old version until the replacement is pulled and compiled, or
//! indefinitely if it is not available.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use pintle_core::lifecycle::resource_kind;
use pintle_core::policy::roles;
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiReader, Detail, ListWatchTarget, at_most};
use serde::Deserialize;
use serde_json::Value;

use crate::control::PluginSource;
use crate::file_work::FileWork;
use crate::folder;
use crate::resource::class_of;

/// Objects per page of the list.
const PAGE: u32 = 500;
/// Pause before another attempt, unless the server asks for a longer one.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Largest response about the resources of the group.
const MAX_GROUP_BYTES: usize = 1 << 20;

/// Claimed names, each with the source of the highest precedence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<String, PluginSource>);

impl Claims {
    /// Reads the names of all resources of this class and of the folder's plugins. Waits while the API server does not
    /// respond, because nothing can run without its response.
    ///
    /// # Errors
    /// The folder is unreadable, or the resources exist and the host may not list them. One line with the next step.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn read(reader: &dyn ApiReader, folder: Option<&Path>, class: &str) -> anyhow::Result<Self> {
        let mut claims = BTreeMap::new();
        if let Some(folder) = folder {
            let path = folder.to_owned();
            let found = FileWork::default().run(folder, move || Ok(folder::claimed(&path))).await?;
            let found = found.with_context(|| format!("read the plugin folder {}", folder.display()))?;
            claims.extend(found.into_iter().map(|name| (name, PluginSource::Folder)));
        }
        let mut pause = PAUSE;
        let names = loop {
            match list(reader, class).await {
                Ok(names) => break names,
                Err(why) if why.class == ApiErrorClass::Forbidden => {
                    if is_served(reader).await {
                        bail!(
                            "the host may not list controllerplugins.pintle.dev, which may replace or disable its controllers: {why}; {}, or start with --start-claimed",
                            roles::advice(&why.message)
                        );
                    }
                    break Vec::new();
                }
                Err(why) => {
                    tracing::warn!(error = %why, "the ControllerPlugins cannot be listed; controllers start once they can");
                    tokio::time::sleep(why.retry_after().unwrap_or(pause).min(MAX_PAUSE)).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        };
        claims.extend(names.into_iter().map(|name| (name, PluginSource::Resource)));
        Ok(Self(claims))
    }

    /// The source that claims a name.
    pub fn of(&self, name: &str) -> Option<PluginSource> {
        self.0.get(name).copied()
    }
}

/// Names of the resources of a class; none if the server does not have the kind.
async fn list(reader: &dyn ApiReader, class: &str) -> Result<Vec<String>, ApiError> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
        #[serde(default)]
        spec: Value,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let target = ListWatchTarget {
        kind: resource_kind(),
        plural: "controllerplugins".to_owned(),
        namespace: None,
        label_selector: None,
        field_selector: None,
        detail: Detail::Full,
    };
    let (mut names, mut next) = (Vec::new(), None);
    loop {
        let page = match reader.list(&target, PAGE, next.as_deref()).await {
            Err(why) if why.class == ApiErrorClass::NotFound => return Ok(Vec::new()),
            // The server has compacted the list's version: start again.
            Err(why) if why.class == ApiErrorClass::Gone && next.is_some() => {
                (names, next) = (Vec::new(), None);
                continue;
            }
            page => page?,
        };
        for item in &page.items {
            let object: Object = serde_json::from_str(item)
                .map_err(|why| ApiError::transport(format!("a ControllerPlugin of the list does not parse: {why}")))?;
            if class_of(&object.spec) == class {
                names.push(object.metadata.name);
            }
        }
        next = page.next;
        if next.is_none() {
            return Ok(names);
        }
    }
}

/// Whether the server has the kind. For an unknown kind, the server returns the same error as for one that the role
/// does not permit.
async fn is_served(reader: &dyn ApiReader) -> bool {
    match reader.raw("/apis/pintle.dev/v1alpha1", &at_most(MAX_GROUP_BYTES)).await {
        Ok(group) => group.contains("\"controllerplugins\""),
        Err(why) => why.class != ApiErrorClass::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pintle_testing::{FakeServer, refusal};
    use serde_json::json;

    use super::*;
    use crate::resource::DEFAULT_CLASS;

    const PLURAL: &str = "controllerplugins";

    #[tokio::test(start_paused = true)]
    async fn resources_and_files_claim_their_names() {
        let server = FakeServer::new();
        for name in ["a", "b"] {
            server.put(PLURAL, "", name, json!({}));
        }
        server.put(PLURAL, "", "e", json!({"spec": {"class": "blue"}}));
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [("b.wasm", ""), ("c.wasm", ""), ("d.yaml", "disabled: true"), ("e.yaml", "{}")] {
            fs::write(folder.path().join(file), text).unwrap();
        }
        server.state().failures.insert(PLURAL.to_owned(), [refusal(500), refusal(0)].into());
        let claims = Claims::read(&*server, Some(folder.path()), DEFAULT_CLASS).await.unwrap();
        let of = |name: &str| claims.of(name).map(PluginSource::name);
        let expected = [Some("resource"), Some("resource"), Some("folder"), Some("folder"), None];
        assert_eq!(["a", "b", "c", "d", "e"].map(of), expected);
        let blue = Claims::read(&*server, None, "blue").await.unwrap();
        assert_eq!(["a", "e"].map(|name| blue.of(name)), [None, Some(PluginSource::Resource)]);
    }

    #[tokio::test]
    async fn resources_of_all_pages_claim_their_names() {
        let server = FakeServer::new();
        let names: Vec<String> = (0..2 * PAGE + 1).map(|i| format!("p{i:04}")).collect();
        for name in &names {
            server.put(PLURAL, "", name, json!({}));
        }
        let claims = Claims::read(&*server, None, DEFAULT_CLASS).await.unwrap();
        assert_eq!(claims.0.into_keys().collect::<Vec<_>>(), names);
        assert_eq!(server.requests().len(), 3, "three pages");
    }

    #[tokio::test]
    async fn without_the_kind_nothing_is_claimed_and_without_permission_nothing_starts() {
        let server = FakeServer::new();
        server.state().refusals.insert(PLURAL.to_owned(), refusal(404));
        assert_eq!(Claims::read(&*server, None, DEFAULT_CLASS).await.unwrap(), Claims::default());
        server.state().refusals.insert(PLURAL.to_owned(), refusal(403));
        assert_eq!(
            Claims::read(&*server, None, DEFAULT_CLASS).await.unwrap(),
            Claims::default(),
            "the server does not have the kind"
        );
        let group = json!({"resources": [{"name": PLURAL}]}).to_string();
        server.state().garbage.insert("/apis/pintle.dev/v1alpha1".to_owned(), group);
        let why = Claims::read(&*server, None, DEFAULT_CLASS).await.unwrap_err().to_string();
        assert!(why.contains("`pintle rbac | kubectl apply -f -`") && why.contains("--start-claimed"), "{why}");
        let gone = tempfile::tempdir().unwrap().path().join("gone");
        let why = Claims::read(&*server, Some(&gone), DEFAULT_CLASS).await.unwrap_err();
        assert!(format!("{why:#}").contains("read the plugin folder"), "{why:#}");
    }
}
