//! The types of the kind {{Kind}}. `pintle crds` makes `crds/` of them, with kube's `CustomResource` and schemars: the feature `crds` of
//! this package, which the component does not have.

use pintle_sdk::api::meta::{Condition, ObjectMeta};
use serde::{Deserialize, Serialize};

/// The desired state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "crds", derive(kube::CustomResource, schemars::JsonSchema))]
#[cfg_attr(
    feature = "crds",
    kube(
        group = "{{group}}",
        version = "{{version}}",
        kind = "{{Kind}}",
        plural = "{{plural}}",
        // The type that kube makes of it, which only `examples/crds.rs` uses.
        root = "{{Kind}}Definition",{{rustScope}}
        status = "{{Kind}}Status",
        category = "all",
        doc = "{{Kind}} has members, which a ConfigMap lists.",
        printcolumn(name = "Members", type_ = "integer", json_path = ".status.members"),
        printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
        printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    )
)]
pub struct {{Kind}}Spec {
    /// Names of the members.
    #[cfg_attr(
        feature = "crds",
        schemars(
            length(min = 1),
            inner(length(max = 63), regex(pattern = "^[a-z]([-a-z0-9]*[a-z0-9])?$")),
            extend("x-kubernetes-list-type" = "set")
        )
    )]
    pub members: Vec<String>,

    /// Member that leads, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,

    /// How the ConfigMap lists the members.
    #[serde(default)]
    pub format: Format,
}

/// How the ConfigMap lists the members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "crds", derive(schemars::JsonSchema))]
pub enum Format {
    /// One in each line.
    #[default]
    Lines,
    /// All in one line.
    Commas,
}

/// What the controller has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "crds", derive(schemars::JsonSchema))]
pub struct {{Kind}}Status {
    /// Number of members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<i32>,

    /// Generation of the spec that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Ready is the only condition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "crds",
        schemars(
            with = "Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>",
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
        )
    )]
    pub conditions: Vec<Condition>,
}

/// A {{Kind}} as the controller reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct {{Kind}} {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: {{Kind}}Spec,
    /// What the controller has found.
    pub status: {{Kind}}Status,
}

pintle_sdk::resource!({{Kind}}, "{{group}}", "{{version}}", "{{Kind}}");
