//! Keeps its lister, and reads with it in a later run.

use std::cell::RefCell;

use hostile::{Lister, again};

thread_local! {
    static KEPT: RefCell<Option<Lister>> = const { RefCell::new(None) };
}

hostile::attack!(|_, lister| {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => drop(std::hint::black_box(kept.now())),
        None => *kept = Some(lister),
    });
    again()
});
