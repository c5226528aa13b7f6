//! One call of `reconcile`, including instance and lister: without reads, and with a list of projected objects.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod support;

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use pintle_core::ports::guest::Guest;
use serde_json::json;
use support::{TestView, key, loaded, loaded_with};

/// A Pod with the fields that a ReplicaSet's controller needs: 340 bytes.
fn projection(i: usize) -> Arc<str> {
    let name = format!("web-5d4f8c7b9-{i:05}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("3f0e5c52-9f0a-4c6e-8a55-{i:012}"),
            "resourceVersion": "123456", "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"uid": "7b1c1f6e-2a55-4f0c-9d0b-000000000001", "controller": true}],
        },
        "status": {"phase": "Running"},
    })
    .to_string()
    .into()
}

fn reconcile(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut bench = |name: &str, guest: &dyn Guest, key_name: &str, n_objects: usize| {
        let key = key(key_name);
        let objects: Vec<Arc<str>> = (0..n_objects).map(projection).collect();
        let view = Arc::new(TestView { objects, ..TestView::default() });
        let asked = view.asked.clone();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| {
                asked.lock().unwrap().clear();
                let run = runtime.block_on(guest.reconcile(&key, view.clone()));
                black_box(run.result.unwrap().unwrap())
            });
        });
    };
    let fresh = loaded("everything");
    let pooled = loaded_with("everything", |manifest| manifest["instances"] = json!("pooled"));
    bench("reconcile/fresh/no reads", &*fresh, "nothing", 0);
    bench("reconcile/fresh/10 objects", &*fresh, "list", 10);
    bench("reconcile/fresh/1000 objects", &*fresh, "list", 1000);
    bench("reconcile/pooled/no reads", &*pooled, "nothing", 0);
    bench("reconcile/pooled/1000 objects", &*pooled, "list", 1000);
}

criterion_group!(benches, reconcile);
criterion_main!(benches);
