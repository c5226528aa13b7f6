//! Lists with the costliest selector that there may be, again and again.

use hostile::{Query, all};

hostile::attack!(|key, lister| {
    let label_selector = Some((0..50_000).map(|i| format!("!k{i},")).collect::<String>() + "!k");
    loop {
        std::hint::black_box(lister.list(&key.kind, &Query { label_selector: label_selector.clone(), ..all() }));
    }
});
