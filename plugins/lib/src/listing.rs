//! Lists of the objects of several users.

use pintle_sdk::api::Listed;
use pintle_sdk::{Lister, Query, decode, log};

/// The matching objects, decoded one by one: a decoded object is larger than its text. Objects that do not fit the type
/// are reported in the log and skipped, so that the run continues for the objects of other users.
///
/// Not for decisions that must know all objects, such as whether one is in use.
pub fn fitting<T: Listed>(lister: &impl Lister, query: &Query) -> impl Iterator<Item = T> {
    let decoded = |text: String| decode(&T::KIND, &text).inspect_err(|error| log::error(&error.to_string())).ok();
    lister.list_json(&T::KIND, query).into_iter().filter_map(decoded)
}
