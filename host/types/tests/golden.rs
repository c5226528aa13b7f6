//! The generated types of a definition with every feature, in every language. `UPDATE_EXPECT=1` rewrites the files.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails the test by panicking")]

use expect_test::expect_file;
use pintle_types::{Input, Options, Target, generate};

const TEAM: &str = include_str!("team.yaml");

fn types(target: Target) -> String {
    let input = Input { name: "/home/somebody/crds/team.yaml", text: TEAM, must_define: true };
    generate(&[input], &Options { kinds: &[], version: None, target }).unwrap()
}

#[test]
fn every_feature_has_its_form_in_every_language() {
    expect_file!["golden/team.go"].assert_eq(&types(Target::Go { package: "main".into() }));
    expect_file!["golden/team.rs"].assert_eq(&types(Target::Rust));
    expect_file!["golden/team.ts"].assert_eq(&types(Target::TypeScript));
    expect_file!["golden/team.d.ts"].assert_eq(&types(Target::Declarations));
    expect_file!["golden/team.py"].assert_eq(&types(Target::Python));
}
