//! Cases written by a host: the input of a run, and failed runs.
//!
//! *Not here*: reading and running cases (`pintle-author`).

mod input;
mod mask;
mod saved;

pub use self::input::{
    Input, InputCall, InputDiscovery, InputError, InputFailure, InputKey, InputResource, InputReview, InputSignature,
    InputSubresource,
};
pub use self::saved::save;
