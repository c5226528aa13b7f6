//! Cases of plugins, as far as a host writes them: what a run sees, and a run that failed.
//!
//! *Not here*: how cases are read and run (`pintle-author`).

mod input;
mod mask;
mod saved;

pub use self::input::{
    Input, InputCall, InputDiscovery, InputError, InputFailure, InputKey, InputResource, InputReview, InputSignature,
    InputSubresource,
};
pub use self::saved::save;
