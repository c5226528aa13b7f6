//! Outcomes for the objects of `cases/`.

#[test]
fn outcomes_are_as_expected() {
    pintle_sdk::testing::check_cases(env!("CARGO_MANIFEST_DIR"), plugin_garbage_collector::reconcile);
}
