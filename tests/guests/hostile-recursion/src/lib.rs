//! Calls itself without end.

use std::hint::black_box;

hostile::attack!(|_, _| {
    black_box(deeper(black_box(1)));
    hostile::nothing()
});

/// The addition after the call keeps the compiler from making a loop of it.
fn deeper(depth: u32) -> u32 {
    if depth == 0 { 0 } else { deeper(depth.wrapping_add(1)).wrapping_mul(31).wrapping_add(depth ^ 0x55) }
}
