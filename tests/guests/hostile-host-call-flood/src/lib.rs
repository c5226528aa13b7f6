//! Asks for the time, again and again.

hostile::attack!(|_, lister| {
    loop {
        std::hint::black_box(lister.attempt());
    }
});
