//! Logs 100,000 long lines.

use hostile::log::{self, Level};

hostile::attack!(|_, _| {
    let line = "x".repeat(4_000);
    for _ in 0..100_000 {
        log::write(Level::Debug, &line);
    }
    hostile::again()
});
