//! Kinds that no running controller acts on, because their kube-controller-manager controller is not running here.
//!
//! *Flow*: `pintle dev` warns the client that creates such an object, and records an event about it; `pintle run`,
//! which does not read all objects, periodically lists one object of each such kind, and logs the kind once.
//!
//! *Not here*: the list of these kinds: `plugins/upstream.yaml`, and the manifests of the built-in components. A plugin
//! that acts on such a kind ends the warnings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pintle_core::object::id::Kind;
use pintle_core::ports::api::{ApiError, ApiReader, Detail, ListWatchTarget};

use crate::builtins::Catalogue;
use crate::flags::upstream;

/// Interval between checks of a cluster.
const AGAIN: Duration = Duration::from_secs(600);
/// Delay before the first check: plugins of the folder and of resources are loaded after the others.
const FIRST: Duration = Duration::from_secs(10);

/// Why nothing acts on objects of a kind, if so: a sentence without a period. `running`: kinds that plugins act on.
/// Versions of a kind are one kind.
pub fn missing(kind: &Kind, running: impl FnOnce() -> BTreeSet<Kind>) -> Option<String> {
    let same = |other: &Kind| other.is_any_version_of(kind);
    let why = match upstream::reconciled().find(|(of, _)| same(of)) {
        Some((_, controller)) => format!("{controller} is not part of this Pintle yet"),
        None => format!("{} is built in, and does not run here", Catalogue::carried().acting_on(same)?),
    };
    let is_attended = running().iter().any(same);
    (!is_attended).then(|| format!("no controller for {kind} is running: {why}"))
}

/// Calls `warn` once for each kind with objects and without a controller. Ends when all kinds are reported. Kinds that
/// the host may not list are skipped.
///
/// # Cancel safety
/// Reads only.
pub(crate) async fn report(reader: Arc<dyn ApiReader>, reconciled: impl Fn() -> BTreeSet<Kind>, warn: impl Fn(&str)) {
    // Several controllers may act on one kind.
    let mut open: BTreeSet<Kind> = kinds().cloned().collect();
    tokio::time::sleep(FIRST).await;
    while !open.is_empty() {
        match look(&*reader, &reconciled, &open).await {
            Err(why) => tracing::debug!(error = %why, "kinds without a controller are not known"),
            Ok(found) => {
                open.retain(|kind| found.iter().all(|(logged, _)| logged != kind));
                found.iter().for_each(|(_, why)| warn(why));
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Every kind that needs a controller of kube-controller-manager.
fn kinds() -> impl Iterator<Item = &'static Kind> {
    upstream::reconciled().map(|(kind, _)| kind).chain(Catalogue::carried().reconciled())
}

/// The kinds among these with objects and without a controller, and the reasons.
async fn look(
    reader: &dyn ApiReader,
    reconciled: &impl Fn() -> BTreeSet<Kind>,
    kinds: &BTreeSet<Kind>,
) -> Result<Vec<(Kind, String)>, ApiError> {
    let resources = reader.discover().await?.resources;
    let mut found = Vec::new();
    for kind in kinds {
        let resource = resources.iter().find(|resource| resource.preferred && resource.kind.is_any_version_of(kind));
        let (Some(why), Some(resource)) = (missing(kind, reconciled), resource) else { continue };
        let target = ListWatchTarget {
            kind: resource.kind.clone(),
            plural: resource.plural.clone(),
            namespace: None,
            label_selector: None,
            field_selector: None,
            detail: Detail::Metadata,
        };
        match reader.list(&target, 1, None).await {
            Ok(page) if page.items.is_empty() => {}
            Ok(_) => found.push((kind.clone(), why)),
            Err(why) => tracing::debug!(%kind, error = %why, "cannot be listed"),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use pintle_testing::{FakeServer, refusal, resource};
    use serde_json::json;

    use super::*;

    fn upstreams() -> (Kind, &'static str) {
        let (kind, controller) = upstream::reconciled().next().unwrap();
        (kind.clone(), controller)
    }

    #[test]
    fn a_kind_has_no_controller_until_a_plugin_acts_on_any_version_of_it() {
        let (kind, controller) = upstreams();
        let why = missing(&kind, BTreeSet::new).unwrap();
        assert_eq!(why, format!("no controller for {kind} is running: {controller} is not part of this Pintle yet"));
        let other = Kind { version: "v9".into(), ..kind.clone() };
        assert!(missing(&other, BTreeSet::new).is_some());
        assert_eq!(missing(&kind, || BTreeSet::from([other])), None);
        assert_eq!(missing(&Kind::new("example.org", &kind.version, &kind.name), BTreeSet::new), None);
    }

    /// The kinds that are reported in some hours: `there` have objects from the start, and `late` gets one later. Controllers act on
    /// `attended`, and `refused` cannot be listed.
    async fn reported(
        there: &[&Kind],
        attended: Option<&Kind>,
        refused: Option<&Kind>,
        late: Option<&Kind>,
    ) -> Vec<String> {
        let server = FakeServer::new();
        let plural = |kind: &Kind| resource(kind).plural.clone();
        for (kind, _) in upstream::reconciled() {
            server.state().resources.push((*resource(kind)).clone());
        }
        for kind in there {
            server.put(&plural(kind), "default", "one", json!({}));
        }
        if let Some(refused) = refused {
            server.state().refusals.insert(plural(refused), refusal(403));
        }
        let reported = Arc::new(Mutex::new(Vec::new()));
        let (attended, sink) = (BTreeSet::from_iter(attended.cloned()), reported.clone());
        let warn = move |why: &str| sink.lock().unwrap().push(why.to_owned());
        let task = tokio::spawn(report(server.clone(), move || attended.clone(), warn));

        tokio::time::sleep(FIRST - Duration::from_millis(1)).await;
        assert!(reported.lock().unwrap().is_empty());
        server.set_down(true);
        tokio::time::sleep(AGAIN).await;
        assert!(reported.lock().unwrap().is_empty());
        server.set_down(false);
        tokio::time::sleep(AGAIN).await;
        if let Some(late) = late {
            server.put(&plural(late), "default", "one", json!({}));
        }
        tokio::time::sleep(3 * AGAIN).await;
        task.abort();
        let reported = reported.lock().unwrap();
        reported.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_that_have_objects_and_no_controller_are_reported_once() {
        let kinds: Vec<&Kind> = upstream::reconciled().map(|(kind, _)| kind).collect();
        let [one, two, ..] = &kinds[..] else { panic!("{kinds:?}") };
        let is_about = |reported: &[String], kinds: &[&Kind]| {
            let expected = kinds.iter().map(|kind| format!("{kind} "));
            reported.len() == kinds.len() && expected.zip(reported).all(|(kind, why)| why.contains(&kind))
        };
        let used = reported(&[one], None, None, Some(two)).await;
        assert!(is_about(&used, &[one, two]), "{used:?}");
        let attended = reported(&[one, two], Some(one), None, None).await;
        assert!(is_about(&attended, &[two]), "{attended:?}");
        let refused = reported(&[one, two], None, Some(one), None).await;
        assert!(is_about(&refused, &[two]), "{refused:?}");
    }
}
