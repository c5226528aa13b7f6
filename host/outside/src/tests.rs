//! Tests with real signatures, verified by other libraries.

mod certificates;
mod endpoints;
mod tokens;

use std::fs;
use std::path::PathBuf;

use pintle_core::contract::manifest::SettingType;
use serde_json::json;

use crate::{Bindings, Secret, secret};

/// A key for these tests.
fn test_key(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/testdata").join(format!("{name}.pem"))).unwrap()
}

#[test]
fn a_secret_names_its_files_and_nothing_else() {
    let of = |kind, value| secret(kind, &value);
    assert_eq!(of(SettingType::Key, json!({"file": "/k"})), Ok(Secret::Key { file: "/k".into() }));
    let pair = Secret::Authority { certificate: "/c".into(), key: "/k".into() };
    assert_eq!(of(SettingType::Authority, json!({"certificate": "/c", "key": "/k"})), Ok(pair));
    for wrong in [json!("/k"), json!({}), json!({"file": "/k", "more": 1}), json!({"file": 1})] {
        let why = of(SettingType::Key, wrong.clone()).unwrap_err();
        assert!(why.starts_with(r#"write a key as {"file": "/path/of/key.pem"}"#), "{wrong}: {why}");
    }
    for wrong in [json!({"file": "/k"}), json!({"certificate": "/c"})] {
        assert!(of(SettingType::Authority, wrong).unwrap_err().starts_with("write an authority as"));
    }
}

#[test]
fn a_malformed_file_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    fs::write(&file, "no key").unwrap();
    let mut bindings = Bindings::default();
    let why = bindings.bind_secret("p", "key", Secret::Key { file: file.clone() }).unwrap_err().to_string();
    assert!(why.starts_with(&format!("{}: it contains no private key in PEM", file.display())), "{why}");
}
