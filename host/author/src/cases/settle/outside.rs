//! Answers of a case in place of keys, authorities and endpoints: its `signatures` and `calls`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{self, BoxFuture};
use pintle_core::contract::outcome::{CertificateRequest, Need};
use pintle_core::ports::outside::{Authority, Bound, Endpoint, Outside, OutsideAnswer, SigningKey};

use crate::cases::cluster::{called, signed};
use crate::cases::input::{Input, InputCall, InputSignature};

/// The answers of a case. Everything in a manifest can be asked, so that a missing answer is reported by name; the
/// configuration shows only those keys and authorities as bound that the case has signatures by.
#[derive(Clone)]
pub(super) struct Answers(Arc<(Vec<InputSignature>, Vec<InputCall>)>);

/// One binding, by its name in the manifest.
struct Named {
    name: String,
    answers: Answers,
}

impl Answers {
    pub(super) fn of(input: &Input) -> Self {
        Self(Arc::new((input.signatures.clone(), input.calls.clone())))
    }

    fn named(&self, name: &str) -> Arc<Named> {
        Arc::new(Named { name: name.to_owned(), answers: self.clone() })
    }
}

impl Named {
    fn signed(&self, need: &Need) -> BoxFuture<'static, OutsideAnswer> {
        future::ready(signed(&self.answers.0.0, need, &self.name)).boxed()
    }
}

impl Outside for Answers {
    fn key(&self, _plugin: &str, setting: &str) -> Option<Arc<dyn SigningKey>> {
        Some(self.named(setting))
    }

    fn authority(&self, _plugin: &str, setting: &str) -> Option<Arc<dyn Authority>> {
        Some(self.named(setting))
    }

    fn endpoint(&self, _plugin: &str, endpoint: &str) -> Option<Arc<dyn Endpoint>> {
        Some(self.named(endpoint))
    }

    fn bound(&self, _plugin: &str) -> Vec<Bound> {
        // A case does not distinguish keys and authorities.
        let bound = |name: &str| Bound { kind: "key".to_owned(), name: name.to_owned(), place: String::new() };
        self.0.0.iter().filter_map(InputSignature::bound).map(bound).collect()
    }
}

impl SigningKey for Named {
    fn sign(&self, claims: String) -> BoxFuture<'static, OutsideAnswer> {
        self.signed(&Need::SignJwt { key: self.name.clone(), claims })
    }
}

impl Authority for Named {
    fn sign(&self, request: CertificateRequest) -> BoxFuture<'static, OutsideAnswer> {
        self.signed(&Need::SignCertificate(request))
    }
}

impl Endpoint for Named {
    fn call<'a>(&'a self, operation: &'a str, body: &'a str, _timeout: Duration) -> BoxFuture<'a, OutsideAnswer> {
        future::ready(called(&self.answers.0.1, &self.name, operation, body)).boxed()
    }
}
