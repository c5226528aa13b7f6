//! Panics.

hostile::attack!(|_, _| panic!("as asked"));
