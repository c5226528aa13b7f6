//! APIs that are served in addition to the kinds of the cluster, as by an aggregated API server.
//!
//! *Invariants*: 1. they are read only; 2. discovery shows what [`Aggregated::resources`] lists at that moment.

use std::sync::Arc;

use http::Method;
use serde_json::Value;

use super::Api;
use super::query::Query;
use super::reply::{Format, Reply};
use super::status::ApiError;
use crate::discovery::{Registry, Resource};

/// API groups whose objects are derived from others.
pub trait Aggregated: std::fmt::Debug + Send + Sync {
    /// The groups that may be served. They take precedence over custom kinds.
    fn groups(&self) -> &[&str];

    /// The resources served now. `objects`: those of a core kind, by plural.
    fn resources(&self, objects: &dyn Fn(&str) -> Vec<Arc<Value>>) -> Vec<Resource>;

    /// The response to a GET, by the parts of its path after `/apis`: an object, or the HTTP status and message of an
    /// error. `None` if the version of the group is not served now.
    fn get(
        &self,
        path: &[&str],
        query: &dyn Fn(&str) -> Option<String>,
        objects: &dyn Fn(&str) -> Vec<Arc<Value>>,
    ) -> Option<Result<Value, (u16, String)>>;
}

impl Api {
    fn core_objects(&self, plural: &str) -> Vec<Arc<Value>> {
        self.store.view(|view| view.range(plural, None).map(|entry| Arc::clone(&entry.value)).collect())
    }

    /// The currently served kinds, including those of other servers.
    pub(super) fn documented(&self) -> Arc<Registry> {
        let registry = self.registry();
        let Some(aggregated) = &self.config.aggregated else { return registry };
        let others = aggregated.resources(&|plural| self.core_objects(plural));
        if others.is_empty() {
            return registry;
        }
        Arc::new(Registry::new(registry.resources().iter().cloned().chain(others.into_iter().map(Arc::new)).collect()))
    }

    /// The response to a request on an object of another server, if it is one.
    pub(super) fn aggregated(&self, method: &Method, path: &str, query: &Query, format: Format) -> Option<Reply> {
        let aggregated = self.config.aggregated.as_ref()?;
        let path = path.strip_prefix("/apis/")?;
        if !aggregated.groups().iter().any(|group| path.split('/').next() == Some(*group)) {
            return None;
        }
        let path: Vec<String> = path.split('/').map(super::path::decode).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        if path.len() < 3 {
            return None;
        }
        let query = |name: &str| query.get(name).map(str::to_owned);
        // A custom kind may be in this group while it is not served.
        let answer = aggregated.get(&path, &query, &|plural| self.core_objects(plural))?;
        if *method != Method::GET {
            return Some(Reply::error(&ApiError::method_not_allowed(), format));
        }
        Some(match answer {
            Ok(value) => Reply::json(200, format, &value),
            Err((code, message)) => {
                let reason = if code == 404 { "NotFound" } else { "BadRequest" };
                Reply::error(&ApiError::new(code, reason, message), format)
            }
        })
    }
}
