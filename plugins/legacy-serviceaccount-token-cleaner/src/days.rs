//! Days in the format of labels and the ConfigMap: `2006-01-02`.

use pintle_sdk::time::Timestamp;

/// The day of a time, in the format of labels.
pub(crate) fn day(time: Timestamp) -> String {
    time.to_string().split('T').next().unwrap_or_default().to_owned()
}

/// The beginning of a day.
pub(crate) fn beginning(day: &str) -> Option<Timestamp> {
    // A longer text would also contain a time.
    let is_bare = day.len() == "2006-01-02".len();
    is_bare.then(|| Timestamp::parse(&format!("{day}T00:00:00Z"))).flatten()
}

pub(crate) fn is_day(text: &str) -> bool {
    beginning(text).is_some()
}
