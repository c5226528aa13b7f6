//! Lists a kind that it does not watch.

hostile::attack!(|_, lister| {
    std::hint::black_box(lister.list(&hostile::kind("Secret"), &hostile::all()));
    hostile::nothing()
});
