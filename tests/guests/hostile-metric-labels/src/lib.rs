//! Observes with a new label each time.

use std::cell::Cell;

use hostile::{Observation, Outcome, again};

thread_local! {
    static OBSERVED: Cell<u32> = const { Cell::new(0) };
}

hostile::attack!(|key, _| {
    let observation = |i| {
        OBSERVED.set(OBSERVED.get() + 1);
        let label = format!("{} {} {i}", key.object.name, OBSERVED.get());
        Observation { metric: "hostile_labels_total".into(), labels: vec![label], value: 1.0 }
    };
    Outcome { observations: (0..1_000).map(observation).collect(), ..again() }
});
