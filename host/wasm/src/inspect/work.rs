//! Estimates the compiler work of a function, beyond its length.
//!
//! Cranelift tracks each local through each branch and each loop, so a function of a few kilobytes can occupy it for
//! hours: 200 nested loops that write 200 locals take 10 s, and twice as many of both take minutes. A compilation
//! cannot be interrupted, so such functions are rejected. One unit is about a millisecond, measured with up to 10,000
//! locals, 64 nested loops and 4,000 branches.

use wasmparser::{BlockType, FunctionBody, Operator};

/// Maximum depth of nested loops.
pub(super) const MAX_LOOP_DEPTH: u64 = 64;
/// Maximum units of work of one function. The interpreter loops of SQLite and QuickJS have about 1,000.
pub(super) const MAX_WORK: u64 = 5_000;
/// Maximum units of work of all functions.
pub(super) const MAX_TOTAL_WORK: u64 = 60_000;

/// Counts of one function.
pub(super) struct Found {
    pub(super) loop_depth: u64,
    pub(super) units: u64,
}

/// Counts locals, branches and loops.
pub(super) fn of(body: &FunctionBody<'_>) -> wasmparser::Result<Found> {
    let mut n_locals = 0_u64;
    for group in body.get_locals_reader()? {
        n_locals += u64::from(group?.0);
    }
    let mut n_branches = 0_u64;
    // One entry per open block: whether it is a loop.
    let mut open: Vec<bool> = Vec::new();
    let (mut depth, mut loop_depth) = (0_u64, 0_u64);
    let mut operators = body.get_operators_reader()?;
    while !operators.eof() {
        match operators.read()? {
            Operator::Block { blockty } | Operator::If { blockty } => {
                n_branches += branches(blockty);
                open.push(false);
            }
            Operator::Loop { blockty } => {
                n_branches += branches(blockty);
                open.push(true);
                depth += 1;
                loop_depth = loop_depth.max(depth);
            }
            Operator::End => depth -= u64::from(open.pop() == Some(true)),
            Operator::Else | Operator::Br { .. } | Operator::BrIf { .. } => n_branches += 1,
            Operator::BrTable { targets } => n_branches += u64::from(targets.len()),
            // Parameters are locals too; only the type lists them.
            Operator::LocalGet { local_index }
            | Operator::LocalSet { local_index }
            | Operator::LocalTee { local_index } => {
                n_locals = n_locals.max(u64::from(local_index) + 1);
            }
            _ => {}
        }
    }
    let looped = n_locals.saturating_mul(n_locals).saturating_mul(loop_depth);
    let units = n_locals.saturating_mul(n_branches) / 1_000 + looped / 30_000;
    Ok(Found { loop_depth, units })
}

/// A block with parameters and results adds as many values to track.
fn branches(block: BlockType) -> u64 {
    match block {
        BlockType::FuncType(_) => 16,
        BlockType::Empty | BlockType::Type(_) => 1,
    }
}
