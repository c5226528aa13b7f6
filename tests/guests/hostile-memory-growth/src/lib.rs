//! Takes all memory that it can get, and fills it.

hostile::attack!(|_, _| {
    let mut taken = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
});
