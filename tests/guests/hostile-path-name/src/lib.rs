//! Names an object so that its path leads elsewhere.

use hostile::{Action, Delete, Preconditions, object, writing};

hostile::attack!(|key, _| writing(vec![Action::Delete(Delete {
    kind: key.kind,
    object: object("hostile", "../../calm/configmaps/probe"),
    preconditions: Preconditions { uid: None, resource_version: None },
    propagation: None,
    grace_period_seconds: None,
})]));
