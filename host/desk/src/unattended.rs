//! Warnings of `pintle dev` for clients that create objects without a controller.

use std::sync::{Arc, OnceLock, Weak};

use pintle::unattended::missing;
use pintle_core::contract::outcome::Event;
use pintle_core::object::id::{Kind, ObjectKey};
use pintle_runtime::manager::Manager;
use pintle_sim::Notices;
use serde_json::Value;

/// Kinds of the core group that the simulated nodes of `pintle dev` act on.
const BY_NODES: [&str; 2] = ["PersistentVolumeClaim", "PersistentVolume"];

/// Warnings of `pintle dev` for clients that create objects. Without a manager, there are none.
#[derive(Debug, Default)]
pub(crate) struct Unattended {
    manager: OnceLock<Weak<Manager>>,
}

impl Unattended {
    /// Uses the plugins of this manager from now on.
    pub(crate) fn by(&self, manager: &Arc<Manager>) {
        // The first one stays.
        let _ = self.manager.set(Arc::downgrade(manager));
    }
}

impl Notices for Unattended {
    fn created(&self, kind: &Kind, object: &Value) -> Option<String> {
        if kind.group.is_empty() && BY_NODES.contains(&&*kind.name) {
            return None;
        }
        let manager = self.manager.get()?.upgrade()?;
        let message = missing(kind, || manager.reconciled())?;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        manager.record_own_event(Event {
            regarding_kind: kind.clone(),
            regarding: ObjectKey::new(text("/metadata/namespace"), text("/metadata/name")),
            regarding_uid: text("/metadata/uid").to_owned(),
            warning: true,
            reason: "NoController".to_owned(),
            message: message.clone(),
        });
        Some(message)
    }
}
