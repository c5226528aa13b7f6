//! What the demo prints.

use std::time::Instant;

/// Prints what happens, with the time since the start.
#[derive(Clone)]
pub(crate) struct TimeLine(Instant);

impl TimeLine {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn title(&self, text: &str) {
        println!("\n{:>7.2}s  == {text}", self.0.elapsed().as_secs_f64());
    }

    pub(crate) fn say(&self, text: &str) {
        println!("{:>7.2}s  ok {text}", self.0.elapsed().as_secs_f64());
    }

    pub(crate) fn note(&self, text: &str) {
        println!("{:>7.2}s     {text}", self.0.elapsed().as_secs_f64());
    }
}
