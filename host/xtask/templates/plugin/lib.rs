//! Ensures that every namespace has a ServiceAccount `{{name}}`.
//!
//! | upstream | here |
//! | --- | --- |
//! | `controller.go` | `reconcile` |

mod reconcile;
mod types;

pub use reconcile::reconcile;

pintle_sdk::export!(reconcile);
