//! Hands a host call more than it may have.

hostile::attack!(|_, lister| {
    std::hint::black_box(lister.dependents(&"x".repeat(2 << 20)));
    hostile::nothing()
});
