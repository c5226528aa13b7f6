//! Needs another read after each.

use hostile::{Need, Outcome, nothing};

hostile::attack!(|_, _| Outcome { needs: vec![Need::RawPath("/version".into())], ..nothing() });
