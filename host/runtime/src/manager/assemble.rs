//! Assembles a version of a plugin: settings, workers, resyncs, metrics, grants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pintle_core::contract::manifest::{Grant, Manifest, To};
use pintle_core::contract::settings;
use pintle_core::policy::grants::{self, Grants};
use pintle_core::ports::guest::Guest;

use super::{Manager, ManagerError, PluginOptions};
use crate::controller::{QueueConfig, Version, VersionParts};

impl Manager {
    /// Assembles a version from a compiled component. `given`: the operator's grants; if absent, all requests of the
    /// manifest. If the manifest's `discovery` is not granted, it counts as not declared.
    ///
    /// # Errors
    /// [`ManagerError`]; nothing has changed.
    pub(super) fn version(
        &self,
        guest: Arc<dyn Guest>,
        options: PluginOptions,
        given: Option<&[Grant]>,
    ) -> Result<Arc<Version>, ManagerError> {
        let mut manifest = guest.manifest().clone();
        if manifest.discovery && given.is_some_and(|given| !grants::gives_discovery(given)) {
            Arc::make_mut(&mut manifest).discovery = false;
        }
        let config = settings::configure(&mut manifest, &options.spec.config)
            .map_err(|why| ManagerError::Settings { plugin: manifest.name.clone(), why })?;
        let bound = self.config.outside.bound(&manifest.name);
        let is_bound = |name: &str| bound.iter().any(|of| of.kind != "endpoint" && of.name == name);
        let config = settings::show_bound(&manifest, config, is_bound);
        let name = &manifest.name;
        let maps = manifest.watches.iter().flat_map(|watch| &watch.enqueue).any(|rule| rule.to == To::Plugin);
        if maps && !guest.maps() {
            return Err(ManagerError::NoMapping(name.clone()));
        }
        let workers = workers(&manifest, &options.concurrency)?;
        let resyncs = resyncs(&manifest, &options.resync)?;
        let declared = self
            .metrics
            .declare(&manifest, options.shares_metrics, guest.limits().series)
            .map_err(|why| ManagerError::Metrics { plugin: name.clone(), why: why.to_string() })?;
        let queues = manifest.queues.iter().zip(workers.into_iter().zip(resyncs));
        let queues = queues.map(|(queue, (concurrency, resync))| QueueConfig {
            observer: self.metrics.queue(queue.metric()),
            concurrency,
            resync,
            tick_key: Manifest::tick_key(&queue.name),
        });
        let grants = Grants::new(&manifest.grants, given);
        if manifest.events && grants.withholds_events() {
            tracing::warn!(
                plugin = name,
                "the plugin records no events, because they are not granted: {}",
                grants::events_line(name)
            );
        }
        Ok(Version::new(VersionParts {
            queues: queues.collect(),
            grants,
            manifest,
            guest,
            digest: options.digest,
            origin: options.origin,
            is_carried: options.is_carried,
            spec: options.spec,
            config: config.into(),
            declared,
        }))
    }
}

fn has_queue(manifest: &Manifest, name: &str) -> bool {
    manifest.queues.iter().any(|queue| queue.name == name)
}

fn known_queues(manifest: &Manifest) -> String {
    manifest.queues.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn resyncs(manifest: &Manifest, given: &BTreeMap<String, Duration>) -> Result<Vec<Option<Duration>>, ManagerError> {
    if let Some((queue, period)) = given.iter().find(|(name, _)| !has_queue(manifest, name)) {
        return Err(ManagerError::Resync {
            plugin: manifest.name.clone(),
            queue: queue.clone(),
            period: *period,
            known: known_queues(manifest),
        });
    }
    let period = |queue: &pintle_core::contract::manifest::Queue| match given.get(&queue.name) {
        Some(period) => Some(*period).filter(|period| !period.is_zero()),
        None => queue.resync(),
    };
    Ok(manifest.queues.iter().map(period).collect())
}

fn workers(manifest: &Manifest, given: &BTreeMap<String, u32>) -> Result<Vec<usize>, ManagerError> {
    if let Some((queue, workers)) = given.iter().find(|(name, workers)| **workers == 0 || !has_queue(manifest, name)) {
        return Err(ManagerError::Concurrency {
            plugin: manifest.name.clone(),
            queue: queue.clone(),
            workers: *workers,
            known: known_queues(manifest),
        });
    }
    let workers = |queue: &pintle_core::contract::manifest::Queue| {
        given.get(&queue.name).copied().unwrap_or(queue.n_workers()) as usize
    };
    Ok(manifest.queues.iter().map(workers).collect())
}
