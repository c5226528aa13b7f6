//! Reads a Secret by a need.

use hostile::{LiveObject, Need, Outcome, kind, nothing, object};

hostile::attack!(|_, lister| {
    let secret = Need::LiveObject(LiveObject { kind: kind("Secret"), object: object("calm", "token") });
    match lister.answer(&secret) {
        Some(answer) => assert!(answer.is_err(), "it has been told"),
        None => return Outcome { needs: vec![secret], ..nothing() },
    }
    nothing()
});
