//! Hands a host call 32 MiB.

hostile::attack!(|_, lister| {
    std::hint::black_box(lister.dependents(&"x".repeat(32 << 20)));
    hostile::nothing()
});
