//! Pods of an owner: their states, their ranks, and writes of them.
//!
//! | question | function |
//! | --- | --- |
//! | in which state are they? | those of [`pintle_sdk::pods`]; cheap for many Pods: [`Brief`] |
//! | which ones go first? | [`rank()`] |
//! | how are they written? | [`create`], [`delete`], [`name_prefix`] |
//! | what does the API server add? | [`complete_template`] |
//!
//! *Source*: Kubernetes' `pkg/controller/controller_utils.go`.

mod brief;
mod control;
mod defaults;
mod rank;

pub use brief::Brief;
pub use control::{create, delete, name_prefix};
pub use defaults::complete_template;
pub use pintle_sdk::pods::*;
pub use rank::{HasRank, rank};
