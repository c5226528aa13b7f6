//! The types that the controller reads.

use plugin_lib::nodes::{Taint, Toleration};

pintle_sdk::types!(
    "manifest.yaml",
    "v1/Pod": [
        "metadata.deletionTimestamp",
        "metadata.generation",
        "spec.nodeName",
        "spec.tolerations": Vec<Toleration>,
        "status.conditions",
    ],
    "v1/Node": ["spec.taints": Vec<Taint>],
);
