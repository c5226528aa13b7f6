//! Needs more reads at once than it may.

use hostile::{Need, Outcome, nothing};

hostile::attack!(|_, _| Outcome { needs: vec![Need::RawPath("/version".into()); 257], ..nothing() });
