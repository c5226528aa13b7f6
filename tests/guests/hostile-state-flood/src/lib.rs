//! Keeps more than it may.

use hostile::{Outcome, StateWrite, nothing};

hostile::attack!(|key, _| {
    let value = Some("x".repeat(600_000));
    Outcome { state: vec![StateWrite { name: key.object.name, value }], ..nothing() }
});
