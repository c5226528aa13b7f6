//! Scenarios in rounds: each implementation has its turn in each round.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::arguments::Args;
use crate::report::{Implementation, Sample};

/// Of the place of a scenario in its list, and an implementation: a sample for each round.
pub(crate) type Samples = BTreeMap<(usize, Implementation), Vec<Sample>>;

/// Takes samples of the wanted scenarios. `others` are measured beside the builds of Pintle.
pub(crate) async fn measure<M: Copy>(
    args: &Args,
    scenarios: &[(&str, M)],
    others: impl Fn(M) -> &'static [Implementation],
    sample: impl AsyncFn(M, Implementation) -> Result<Sample>,
) -> Result<Samples> {
    let mut samples = Samples::new();
    for round in 0..args.rounds() {
        for (place, (name, measured)) in scenarios.iter().enumerate().filter(|(_, (name, _))| args.wants(name)) {
            for implementation in args.turns(round, others(*measured)) {
                let sample = sample(*measured, implementation).await;
                let sample = sample.with_context(|| format!("{name} with {}", implementation.name()))?;
                eprintln!("round {} {name} {}: {sample:.1?}", round + 1, implementation.name());
                samples.entry((place, implementation)).or_default().push(sample);
            }
        }
    }
    Ok(samples)
}
