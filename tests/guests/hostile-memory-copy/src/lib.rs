//! Copies 48 MiB to and fro: one instruction that nothing interrupts.

hostile::attack!(|_, _| {
    let mut bytes = vec![1_u8; 48 << 20];
    loop {
        std::hint::black_box(&mut bytes).copy_within(..47 << 20, 1 << 20);
    }
});
