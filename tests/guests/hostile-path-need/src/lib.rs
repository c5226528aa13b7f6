//! Leaves its path by dots.

use hostile::{Need, Outcome, nothing};

hostile::attack!(|_, lister| {
    let path = Need::RawPath("/version/../api/v1/secrets".into());
    match lister.answer(&path) {
        Some(answer) => assert!(answer.is_err(), "it has been told"),
        None => return Outcome { needs: vec![path], ..nothing() },
    }
    nothing()
});
