//! Usage of ResourceQuotas by objects: one engine for the quota controller, which counts existing objects, and for the
//! embedded API server (`host/sim`), which admits new ones, as upstream.
//!
//! | module | task | upstream |
//! | --- | --- | --- |
//! | [`admission`] | check of a request, and the new usage | `apiserver/pkg/admission/plugin/resourcequota/controller.go` |
//! | [`evaluator`] | usage of one kind; scopes | `apiserver/pkg/quota/v1/interfaces.go`, `generic/evaluator.go` |
//! | [`object_count`] | numbers of objects of any kind | `apiserver/pkg/quota/v1/generic/evaluator.go`, `registry.go` |
//! | [`persistent_volume_claims`] | claims and their storage, by class | `pkg/quota/v1/evaluator/core/persistent_volume_claims.go` |
//! | [`pod_resources`] | requests and limits of a Pod, also during a resize | `component-helpers/resource/helpers.go` |
//! | [`pods`] | Pods and their requests | `pkg/quota/v1/evaluator/core/pods.go` |
//! | [`resource_claims`] | devices, by class and by extended resource | `pkg/quota/v1/evaluator/core/resource_claims.go` |
//! | [`resource_list`] | amounts by the names of resources | `apiserver/pkg/quota/v1/resources.go` |
//! | [`services`] | Services, load balancers and node ports | `pkg/quota/v1/evaluator/core/services.go` |
//!
//! All functions are pure: objects, classes and the time are arguments.
//!
//! *Not here*: the controller (`plugins/resourcequota`), and the calls of the admission
//! (`host/sim/src/server/quota.rs`).

pub mod admission;
pub mod evaluator;
pub mod object_count;
pub mod persistent_volume_claims;
pub mod pod_resources;
pub mod pods;
pub mod resource_claims;
pub mod resource_list;
pub mod services;
mod types;

pub use pintle_sdk::time::Timestamp;

pub use evaluator::{Evaluator, scopes, usage_stats};
pub use object_count::ObjectCount;
pub use persistent_volume_claims::PersistentVolumeClaims;
pub use pods::Pods;
pub use resource_claims::{DeviceClasses, Neighbours, ResourceClaims};
pub use resource_list::ResourceList;
pub use services::Services;
pub use types::{
    DeviceClass, PersistentVolumeClaim, Pod, ResourceClaim, ResourceQuota,
    ResourceQuotaSpecScopeSelectorMatchExpressions as Scope, Service,
};
