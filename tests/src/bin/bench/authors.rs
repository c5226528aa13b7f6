//! What authors of plugins wait for.

use anyhow::{Context, Result};
use pintle_tests::author_times::{self, Times};
use pintle_tests::authors::LANGUAGES;
use serde_json::json;

use crate::arguments::Args;
use crate::report::{median, write};

/// How often an author saves in each round.
const N_SAVES: usize = 3;

/// What authors wait for, with `--desk`, in medians of the rounds.
pub(crate) fn authors(args: &Args) -> Result<()> {
    let desk = args.desk()?;
    let mut records = Vec::new();
    println!(
        "{:<10} {:>11} {:>11} {:>11} {:>14} {:>11} {:>14}",
        "language", "first build", "later build", "pintle test", "save to effect", "component", "compressed"
    );
    for language in LANGUAGES {
        let mut all = Vec::new();
        for round in 0..args.rounds() {
            let times = author_times::measure(desk, language, N_SAVES).context(language)?;
            eprintln!("round {} {language}: {times:.2?}", round + 1);
            all.push(times);
        }
        let of = |field: fn(&Times) -> f64| median(all.iter().map(field).collect());
        let fields: [fn(&Times) -> f64; 6] = [
            |times| times.first_build.as_secs_f64(),
            |times| times.later_build.as_secs_f64(),
            |times| times.test.as_secs_f64(),
            |times| times.save.as_secs_f64(),
            |times| times.bytes as f64,
            |times| times.compressed_bytes as f64,
        ];
        let [first, later, test, save, bytes, compressed] = fields.map(of);
        let (size, travels) = (bytes / 1e6, compressed / 1e6);
        println!(
            "{language:<10} {first:>9.1} s {later:>9.1} s {test:>9.1} s {save:>12.1} s {size:>8.2} MB {travels:>11.2} MB"
        );
        records.push(json!({
            "language": language, "first_build_seconds": first, "later_build_seconds": later, "test_seconds": test,
            "save_seconds": save, "bytes": bytes as u64, "compressed_bytes": compressed as u64,
        }));
    }
    write("authors.json", &records)
}
