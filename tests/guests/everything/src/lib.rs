//! Uses most items of the contract; the name of the key's object says which part.

mod reads;
mod writes;

#[allow(missing_docs, clippy::all, reason = "generated")]
mod bindings {
    wit_bindgen::generate!({ world: "mapping-controller", path: "../../../wit" });
}

use bindings::exports::pintle::controller::mapping;
use bindings::pintle::controller::log::{self, Level};
use bindings::pintle::controller::types::{Key, Kind, ObjectKey, Outcome, ReconcileError, Retry, Wake};
use bindings::pintle::controller::view::Lister;

struct Everything;

bindings::export!(Everything with_types_in bindings);

impl bindings::Guest for Everything {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        match key.object.name.as_str() {
            "nothing" => Ok(outcome()),
            "reads" => Ok(reads::all(&key, &lister)),
            "list" => {
                let objects = lister.list(&pod(), &reads::query());
                let bytes: usize = objects.iter().map(String::len).sum();
                Ok(Outcome { requeue_after_ms: Some(u32::try_from(bytes).unwrap_or(u32::MAX)), ..outcome() })
            }
            "writes" => Ok(writes::all()),
            "needs" => Ok(reads::needs(&lister)),
            "logs" => {
                for level in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
                    log::write(level, &format!("{level:?} of {}\n\u{1b}[31m", key.queue));
                }
                Ok(outcome())
            }
            "retry" => Err(ReconcileError::Retry(Retry { message: "not yet".into(), after_ms: Some(1500) })),
            "retry-some-time" => Err(ReconcileError::Retry(Retry { message: "not yet".into(), after_ms: None })),
            "terminal" => Err(ReconcileError::Terminal("never".into())),
            other => Err(ReconcileError::Terminal(format!("no part of the contract is called {other}"))),
        }
    }
}

impl mapping::Guest for Everything {
    fn keys_of(kind: Kind, old: Option<String>, new: Option<String>, lister: Lister) -> Vec<Wake> {
        let key = |queue: &str, name: String| {
            let object = ObjectKey { namespace: String::new(), name };
            Wake { key: Key { queue: queue.into(), kind: kind.clone(), object }, after_ms: None }
        };
        let sizes = format!("{:?}-{:?}", old.map(|text| text.len()), new.map(|text| text.len()));
        vec![key("widgets", sizes), key("nodes", lister.count(&kind, &reads::query()).to_string())]
    }
}

fn kind(group: &str, version: &str, name: &str) -> Kind {
    Kind { group: group.into(), version: version.into(), name: name.into() }
}

fn pod() -> Kind {
    kind("", "v1", "Pod")
}

fn object(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { namespace: namespace.into(), name: name.into() }
}

fn outcome() -> Outcome {
    Outcome {
        needs: vec![],
        steps: vec![],
        requeue_after_ms: None,
        state: vec![],
        observations: vec![],
        wake: vec![],
        run_labels: vec![],
        error: None,
    }
}
