//! `../README.md` describes this controller.

use std::fs::File;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

wit_bindgen::generate!({ world: "controller", path: "../../../wit/controller.wit" });

use pintle::controller::types::{Action, Create, Kind, Mutation, ObjectKey, Order, Step};

struct Badge;

export!(Badge);

impl Guest for Badge {
    fn reconcile(key: Key, lister: Lister) -> Result<Outcome, ReconcileError> {
        let name = &key.object.name;
        let Some(namespace) = lister.get(&key.kind, &key.object) else { return Ok(outcome(vec![])) };
        let namespace: Value =
            serde_json::from_str(&namespace).map_err(|error| ReconcileError::Terminal(error.to_string()))?;
        let config_map = Kind { group: String::new(), version: "v1".into(), name: "ConfigMap".into() };
        let badge = ObjectKey { namespace: name.clone(), name: "badge".into() };
        if !namespace["metadata"]["deletionTimestamp"].is_null() || lister.get(&config_map, &badge).is_some() {
            return Ok(outcome(vec![]));
        }
        println!("a badge for {name}");
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
        let random = getrandom::u64().map_err(|error| ReconcileError::Terminal(error.to_string()))?;
        let mut data = json!({
            "now": lister.now(),
            "clock": clock.to_string(),
            "random": format!("{random:016x}"),
        });
        match namespace["metadata"]["labels"]["badge"].as_str() {
            Some("exit") => std::process::exit(3),
            Some("file") => data["file"] = attempt(File::open("/etc/hostname")).into(),
            Some("network") => data["network"] = attempt(TcpStream::connect("127.0.0.1:443")).into(),
            _ => {}
        }
        let object = json!({"metadata": {"name": "badge"}, "data": data}).to_string();
        let create = Create { kind: config_map, namespace: name.clone(), object, subresource: None };
        let mutation =
            Mutation { action: Action::Create(create), on_success: None, on_failure: None, tolerate: vec![] };
        Ok(outcome(vec![Step { order: Order::Sequential, mutations: vec![mutation], always: false }]))
    }
}

fn attempt<T>(result: std::io::Result<T>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "opened".into())
}

fn outcome(steps: Vec<Step>) -> Outcome {
    Outcome {
        needs: vec![],
        steps,
        requeue_after_ms: None,
        state: vec![],
        observations: vec![],
        wake: vec![],
        run_labels: vec![],
        error: None,
    }
}
