//! The metrics APIs of the embedded cluster: the simulated nodes compute the responses, and the API server serves them.

use std::sync::Arc;

use jiff::Timestamp;
use pintle_nodes::metrics::{GROUPS, Served, Source};
use pintle_sim::{Aggregated, Resource};
use serde_json::Value;

/// The metrics set by users.
#[derive(Debug)]
pub(super) struct Metrics;

/// Calls `then` with the source objects of metrics.
fn with_source<T>(objects: &dyn Fn(&str) -> Vec<Arc<Value>>, then: impl FnOnce(&Source<'_, Arc<Value>>) -> T) -> T {
    let (pods, nodes, config_maps) = (objects("pods"), objects("nodes"), objects("configmaps"));
    then(&Source { pods: &pods, nodes: &nodes, config_maps: &config_maps, now: Timestamp::now() })
}

fn resource(served: Served) -> Resource {
    Resource {
        group: served.group.to_owned(),
        version: served.version.to_owned(),
        plural: served.plural,
        kind: served.kind.to_owned(),
        namespaced: served.namespaced,
        verbs: served.verbs.to_vec(),
        ..Resource::default()
    }
}

impl Aggregated for Metrics {
    fn groups(&self) -> &[&str] {
        &GROUPS
    }

    fn resources(&self, objects: &dyn Fn(&str) -> Vec<Arc<Value>>) -> Vec<Resource> {
        with_source(objects, |source| source.served().into_iter().map(resource).collect())
    }

    fn get(
        &self,
        path: &[&str],
        query: &dyn Fn(&str) -> Option<String>,
        objects: &dyn Fn(&str) -> Vec<Arc<Value>>,
    ) -> Option<Result<Value, (u16, String)>> {
        let [group, version, ..] = path else { return None };
        let answer = with_source(objects, |source| source.serves(group, version).then(|| source.get(path, query)));
        Some(answer?.map_err(|error| (error.code, error.message)))
    }
}
