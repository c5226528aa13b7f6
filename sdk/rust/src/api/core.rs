//! The core group.

use serde::{Deserialize, Serialize};

use super::meta::{ObjectMeta, Raw};

/// The template of Pods. The spec is text, because controllers only copy it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodTemplateSpec {
    pub metadata: ObjectMeta,
    pub spec: Raw,
}
