//! Never drops a lister, in an instance that lives on.

hostile::attack!(|_, lister| {
    std::mem::forget(lister);
    hostile::again()
});
