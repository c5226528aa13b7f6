//! Runs every folder of `cases`: objects and a key in, the outcome out.

#[test]
fn every_case_gives_the_expected_outcome() {
    pintle_sdk::testing::check_cases(env!("CARGO_MANIFEST_DIR"), plugin_namespace::reconcile);
}
