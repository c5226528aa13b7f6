//! Cost of a signature: tokens by RSA and ECDSA keys.

#![allow(missing_docs, reason = "benchmarks")]
#![allow(clippy::unwrap_used, reason = "a panic is how a benchmark fails")]

use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use pintle_core::ports::outside::Outside as _;
use pintle_outside::{Bindings, Secret};

fn tokens(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let claims = r#"{"iss":"kubernetes/serviceaccount","sub":"system:serviceaccount:default:default"}"#;
    for (name, file) in
        [("RS256", "rsa-pkcs8"), ("ES256", "p256-pkcs8"), ("ES384", "p384-pkcs8"), ("ES512", "p521-pkcs8")]
    {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/testdata").join(format!("{file}.pem"));
        let mut bindings = Bindings::default();
        bindings.bind_secret("p", "key", Secret::Key { file }).unwrap();
        let key = bindings.key("p", "key").unwrap();
        criterion.bench_function(&format!("token {name}"), |bencher| {
            bencher.iter(|| runtime.block_on(key.sign(claims.to_owned())).unwrap());
        });
    }
}

criterion_group!(benches, tokens);
criterion_main!(benches);
