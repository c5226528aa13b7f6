//! Returns a list of a million items.

use hostile::{Outcome, StateWrite, nothing};

hostile::attack!(|_, _| {
    let forgets = || StateWrite { name: String::new(), value: None };
    Outcome { state: (0..1_000_000).map(|_| forgets()).collect(), ..nothing() }
});
