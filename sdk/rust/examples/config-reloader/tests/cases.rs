//! Runs every case below `cases`, without WebAssembly. `UPDATE_EXPECT=1 cargo test` rewrites the expected outcomes.

#[test]
fn every_case_gives_the_expected_outcome() {
    pintle_sdk::testing::check_cases(env!("CARGO_MANIFEST_DIR"), config_reloader::reconcile);
}
