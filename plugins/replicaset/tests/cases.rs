//! Every folder of `cases/`.

#[test]
fn every_case_has_its_expected_outcome() {
    pintle_sdk::testing::check_cases(env!("CARGO_MANIFEST_DIR"), plugin_replicaset::reconcile);
}
