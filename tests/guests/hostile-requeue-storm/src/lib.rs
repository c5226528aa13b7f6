//! Wants each key again at once.

hostile::attack!(|_, _| hostile::again());
