//! Returns a string of 12 MiB.

hostile::attack!(|_, _| hostile::writing(vec![hostile::create("hostile", &"x".repeat(12 << 20))]));
