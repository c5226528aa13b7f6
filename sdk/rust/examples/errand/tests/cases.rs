//! Runs the cases shared by all languages, with this folder's manifest.

#[test]
fn every_case_gives_the_expected_outcome() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../tests/errand/cases");
    pintle_sdk::testing::check_cases_in(
        folder,
        concat!(env!("CARGO_MANIFEST_DIR"), "/manifest.yaml"),
        errand_rust::reconcile,
    );
}
