//! Never returns.

hostile::attack!(|key, _| {
    loop {
        std::hint::black_box(&key);
    }
});
