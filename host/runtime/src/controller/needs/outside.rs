//! Performs needs outside of the API server: signatures and calls, as bound by the operator.
//!
//! Invariants:
//! 1. A need without a binding is denied, and nothing leaves the process.
//! 2. A call has effects: it is sent once, and with an election only within a term.
//! 3. Where the manifest limits a signature to what the object of the key asks for, the run's own view decides.
//! 4. A run has a limited number of signatures and calls over all its rounds, and each takes a turn in the rate limit
//!    of the plugin's requests.

use std::future::Future;

use pintle_core::contract::outcome::{CertificateRequest, Need, NeedError};
use pintle_core::policy::{outside as decide, signatures};
use pintle_core::ports::outside::{Outside, OutsideAnswer};

use super::{READ_DEADLINE, Source, refusal, too_long};
use crate::writer::Rights;

/// Maximum bytes of a token, a certificate or the answer to a call.
const MAX_ANSWER_BYTES: usize = 8 << 20;

/// The denial of a need without a binding.
pub(super) fn unbound(need: &Need, outside: &dyn Outside, plugin: &str) -> Option<NeedError> {
    let is_bound = match need {
        Need::SignJwt { key, .. } => outside.key(plugin, key).is_some(),
        Need::SignCertificate(request) => outside.authority(plugin, &request.authority).is_some(),
        Need::Call { endpoint, .. } => outside.endpoint(plugin, endpoint).is_some(),
        _ => true,
    };
    if is_bound { None } else { decide::unbound(need, plugin) }
}

/// Refuses needs that are too long, malformed, or beyond the maximum of a run. `n_performed` counts the needs of the
/// run.
pub(super) fn refused_before(need: &Need, n_performed: &mut usize) -> Option<NeedError> {
    if !decide::is_outside(need) {
        return None;
    }
    if *n_performed >= decide::MAX_PER_RUN {
        return Some(decide::too_many());
    }
    *n_performed += 1;
    decide::check(need).err()
}

/// Refuses a signature that the object of the key does not ask for, if the manifest limits it to that.
pub(super) fn unrequested(need: &Need, rights: &Rights<'_>) -> Option<NeedError> {
    if !decide::is_outside(need) {
        return None;
    }
    let object = rights.view.object(&rights.key.kind, &rights.key.object);
    signatures::check(need, rights.manifest, rights.key, object.as_deref()).err()
}

/// Performs a signature or call that has a binding.
pub(super) async fn perform(need: &Need, source: &Source<'_>) -> OutsideAnswer {
    let plugin = &source.manifest.name;
    // The operator's bindings do not change while the host runs.
    let gone = || decide::unbound(need, plugin).unwrap_or_else(|| refusal("NotGranted", "nothing is bound"));
    let answer = match need {
        Need::SignJwt { key, claims } => {
            let key = source.outside.key(plugin, key).ok_or_else(gone)?;
            stoppable(source, || signed(key.sign(claims.clone()))).await?
        }
        Need::SignCertificate(request) => {
            let authority = source.outside.authority(plugin, &request.authority).ok_or_else(gone)?;
            let request: CertificateRequest = request.clone();
            stoppable(source, || signed(authority.sign(request))).await?
        }
        Need::Call { endpoint, operation, body, timeout } => {
            let endpoint = source.outside.endpoint(plugin, endpoint).ok_or_else(gone)?;
            let timeout = timeout.unwrap_or(decide::CALL_TIMEOUT).min(decide::CALL_TIMEOUT);
            stoppable(source, || fenced(source, || endpoint.call(operation, body, timeout))).await?
        }
        _ => return Err(gone()),
    };
    if answer.len() > MAX_ANSWER_BYTES { Err(too_long(MAX_ANSWER_BYTES)) } else { Ok(answer) }
}

/// A signature waits for its turn and its files, within the deadline of all needs.
async fn signed(signature: impl Future<Output = OutsideAnswer>) -> OutsideAnswer {
    let late = || refusal("Timeout", format!("the host has not signed within {READ_DEADLINE:?}"));
    tokio::time::timeout(READ_DEADLINE, signature).await.unwrap_or_else(|_| Err(late()))
}

/// Sends a call only while the fence is open, and abandons it when the fence closes.
async fn fenced<F: Future<Output = OutsideAnswer>>(source: &Source<'_>, call: impl FnOnce() -> F) -> OutsideAnswer {
    let Some(fence) = source.fence else { return call().await };
    if !fence.is_open() {
        return Err(refusal("NotLeading", "the host does not lead, so that the call was not sent"));
    }
    tokio::select! {
        biased;
        () = fence.closed() => {
            Err(refusal("Transport", "the host does not lead any more; whether the operation took place is not known"))
        }
        answer = call() => answer,
    }
}

/// Performs the work when its turn comes, unless the controller stops.
async fn stoppable<F: Future<Output = OutsideAnswer>>(source: &Source<'_>, work: impl FnOnce() -> F) -> OutsideAnswer {
    let in_turn = async {
        if tokio::time::timeout(READ_DEADLINE, source.reader.turn()).await.is_err() {
            let why = format!("the plugin's rate limit has left no turn within {READ_DEADLINE:?}; nothing was sent");
            return Err(refusal("Timeout", why));
        }
        work().await
    };
    tokio::select! {
        biased;
        () = source.stopped.cancelled() => Err(refusal("Stopping", "the controller stops")),
        answer = in_turn => answer,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use expect_test::expect;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use parking_lot::Mutex;
    use pintle_core::contract::manifest::Manifest;
    use pintle_core::object::id::{Key, ObjectKey};
    use pintle_core::policy::grants::Grants;
    use pintle_core::ports::api::WriteFence;
    use pintle_core::ports::outside::{Authority, Endpoint, SigningKey};
    use pintle_testing::{FakeServer, FakeView, key, manifest, whole};
    use serde_json::json;
    use tokio::sync::watch;

    use super::super::Answered;
    use super::super::tests::{Beside, perform};
    use super::*;
    use pintle_core::policy::held::Account;

    /// Binds the key `key`, the authority `ca` and the endpoint `desk`. A call is answered after the number of seconds
    /// in its body.
    #[derive(Default)]
    struct FakeOutside {
        calls: Arc<Mutex<Vec<String>>>,
        /// Number of turns in the plugin's rate limit.
        n_turns: Mutex<usize>,
        /// No turn ever comes.
        is_stuck: bool,
    }

    struct Signer(&'static str);

    impl SigningKey for Signer {
        fn sign(&self, claims: String) -> BoxFuture<'static, OutsideAnswer> {
            let name = self.0;
            async move { Ok(format!("{name}({claims})")) }.boxed()
        }
    }

    impl Authority for Signer {
        fn sign(&self, request: CertificateRequest) -> BoxFuture<'static, OutsideAnswer> {
            let name = self.0;
            async move { Ok(format!("{name}({})", request.request)) }.boxed()
        }
    }

    struct Desk(Arc<Mutex<Vec<String>>>);

    impl Endpoint for Desk {
        fn call<'a>(&'a self, operation: &'a str, body: &'a str, timeout: Duration) -> BoxFuture<'a, OutsideAnswer> {
            self.0.lock().push(format!("{operation} {body} {timeout:?}"));
            async move {
                tokio::time::sleep(Duration::from_secs(body.parse().unwrap())).await;
                Ok("true".to_owned())
            }
            .boxed()
        }
    }

    impl Outside for FakeOutside {
        fn key(&self, plugin: &str, setting: &str) -> Option<Arc<dyn SigningKey>> {
            ((plugin, setting) == ("widgets", "key")).then(|| Arc::new(Signer("jwt")) as Arc<dyn SigningKey>)
        }

        fn authority(&self, plugin: &str, setting: &str) -> Option<Arc<dyn Authority>> {
            (plugin == "widgets" && ["ca", "nodes"].contains(&setting))
                .then(|| Arc::new(Signer("x509")) as Arc<dyn Authority>)
        }

        fn endpoint(&self, plugin: &str, endpoint: &str) -> Option<Arc<dyn Endpoint>> {
            ((plugin, endpoint) == ("widgets", "desk")).then(|| Arc::new(Desk(self.calls.clone())) as Arc<dyn Endpoint>)
        }
    }

    /// A fence that is open until it is closed.
    struct Gate(watch::Receiver<bool>);

    impl WriteFence for Gate {
        fn is_open(&self) -> bool {
            *self.0.borrow()
        }

        fn closed(&self) -> BoxFuture<'_, ()> {
            let mut open = self.0.clone();
            async move { drop(open.wait_for(|open| !open).await) }.boxed()
        }
    }

    fn declared() -> Arc<Manifest> {
        manifest(|m| {
            m["contract"] = "0.2".into();
            m["config"] = json!({
                "key": {"type": "key"}, "other": {"type": "key"}, "ca": {"type": "authority"}, "unbound": {"type": "authority"},
                "nodes": {"type": "authority", "signers": ["kubernetes.io/kubelet-serving"]},
            });
            m["endpoints"] = json!({"desk": {"operations": ["look-up"]}, "away": {"operations": ["look-up"]}});
        })
    }

    fn jwt(key: &str, claims: &str) -> Need {
        Need::SignJwt { key: key.into(), claims: claims.into() }
    }

    fn certificate(authority: &str) -> Need {
        Need::SignCertificate(CertificateRequest {
            authority: authority.into(),
            request: "REQUEST".into(),
            usages: Vec::new(),
            not_before: String::new(),
            not_after: String::new(),
        })
    }

    fn call(endpoint: &str, body: &str, timeout: Option<u64>) -> Need {
        let timeout = timeout.map(Duration::from_secs);
        Need::Call { endpoint: endpoint.into(), operation: "look-up".into(), body: body.into(), timeout }
    }

    /// Performs the rounds of a run; returns the number of denied needs, and the answers of the last round.
    async fn run(
        rounds: Vec<Vec<Need>>,
        outside: &FakeOutside,
        fence: Option<&dyn WriteFence>,
    ) -> (usize, Vec<String>) {
        let manifest = declared();
        let grants = Grants::new(&manifest.grants, None);
        let view = FakeView::showing(Vec::new());
        let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
        let (server, beside) = (FakeServer::new(), Beside::new().await);
        server.state().stuck = outside.is_stuck;
        let source = Source { outside, fence, ..beside.source(&server, &manifest) };
        let mut answered = Answered::new(&Account::new(64 << 20));
        let (mut n_denied, mut n_last) = (0, 0);
        for needs in rounds {
            n_last = needs.len();
            n_denied += perform(needs, &mut answered, &source, &rights).await.unwrap();
        }
        let requests = server.requests();
        assert!(requests.iter().all(|request| request == "turn"), "nothing of this is a request to the API server");
        *outside.n_turns.lock() += requests.len();
        let last = answered.answers.len() - n_last;
        let shown = |answer: Result<Arc<str>, NeedError>| {
            answer.map_or_else(|error| format!("{}: {}", error.reason, error.message), |text| text.to_string())
        };
        (n_denied, answered.answers.drain(last..).map(|(_, answer)| shown(answer)).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_bound_is_performed_and_the_rest_is_denied() {
        let outside = FakeOutside::default();
        let needs = vec![
            jwt("key", "{}"),
            jwt("other", "{}"),
            certificate("ca"),
            certificate("unbound"),
            call("desk", "1", None),
            call("desk", "2", Some(3)),
            call("away", "1", None),
            jwt("key", "no object"),
        ];
        let (n_denied, answers) = run(vec![needs], &outside, None).await;
        assert_eq!(n_denied, 3);
        expect![[r#"
            jwt({})
            NotGranted: no key is bound to setting "other"; start the host with --set 'widgets.other={"file": "/path/of/key.pem"}'
            x509(REQUEST)
            NotGranted: no authority is bound to setting "unbound"; start the host with --set 'widgets.unbound={"certificate": "/path/of/ca.crt", "key": "/path/of/ca.key"}'
            true
            true
            NotGranted: nothing is bound to endpoint "away"; start the host with --endpoint 'widgets.away=https://HOST/PATH'
            Malformed: the claims are not a JSON object: expected ident at line 1 column 2"#]]
        .assert_eq(&answers.join("\n"));
        assert_eq!(*outside.calls.lock(), ["look-up 1 30s", "look-up 2 3s"]);
        assert_eq!(*outside.n_turns.lock(), 4, "what is refused takes no turn");
    }

    #[tokio::test(start_paused = true)]
    async fn an_authority_with_signers_signs_only_what_the_key_asks_for() {
        const REQUESTS: &str = "certificates.k8s.io/v1/CertificateSigningRequest";
        let manifest = declared();
        let grants = Grants::new(&manifest.grants, None);
        let (server, beside) = (FakeServer::new(), Beside::new().await);
        let outside = FakeOutside::default();
        let source = Source { outside: &outside, ..beside.source(&server, &manifest) };
        for (status, expected) in
            [(json!({"conditions": [{"type": "Approved"}]}), (0, "x509(REQUEST)")), (json!({}), (1, "NotGranted"))]
        {
            let spec = json!({"signerName": "kubernetes.io/kubelet-serving", "request": "UkVRVUVTVA==", "usages": []});
            let object = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
            let view = FakeView::showing(vec![whole(REQUESTS, &object)]);
            let key = Key { queue: "widgets".into(), kind: REQUESTS.parse().unwrap(), object: ObjectKey::new("", "a") };
            let rights = Rights { grants: &grants, manifest: &manifest, key: &key, view: &view };
            let mut answered = Answered::new(&Account::new(64 << 20));
            let n_denied = perform(vec![certificate("nodes")], &mut answered, &source, &rights).await.unwrap();
            let answer = answered.answers.remove(0).1.map_or_else(|error| error.reason, |text| text.to_string());
            assert_eq!((n_denied, answer.as_str()), expected);
        }
        assert_eq!(server.requests(), ["turn"], "what is refused takes no turn");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_has_a_limited_number_of_signatures_and_calls_over_all_its_rounds() {
        let outside = FakeOutside::default();
        let many = |n: usize| (0..n).map(|i| jwt("key", &format!(r#"{{"n":{i}}}"#))).collect::<Vec<_>>();
        let (n_denied, answers) =
            run(vec![many(255), vec![call("desk", "0", None), jwt("key", "{}")]], &outside, None).await;
        // This is not a denial: the plugin may do this, but less often.
        assert_eq!((n_denied, &*answers[0]), (0, "true"));
        assert!(answers[1].starts_with("TooMany: a run may have 256 signatures and calls"), "{}", answers[1]);
        // Denied needs do not count.
        let denied = (0..256).map(|i| jwt("other", &format!(r#"{{"n":{i}}}"#))).collect();
        let (n_denied, answers) = run(vec![denied, vec![jwt("key", "{}")]], &outside, None).await;
        assert_eq!((n_denied, &*answers[0]), (256, "jwt({})"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_turn_in_the_rate_limit_nothing_is_signed_or_sent() {
        let outside = FakeOutside { is_stuck: true, ..FakeOutside::default() };
        let (n_denied, answers) = run(vec![vec![jwt("key", "{}"), call("desk", "1", None)]], &outside, None).await;
        let none = "Timeout: the plugin's rate limit has left no turn within 30s; nothing was sent";
        assert_eq!((n_denied, answers, outside.calls.lock().len()), (0, vec![none.to_owned(); 2], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_sent_only_while_the_host_leads_and_a_signature_always() {
        let outside = FakeOutside::default();
        let (open, gate) = watch::channel(false);
        let needs = || vec![vec![call("desk", "5", None), jwt("key", "{}")]];
        let (n_denied, answers) = run(needs(), &outside, Some(&Gate(gate.clone()))).await;
        assert_eq!((n_denied, outside.calls.lock().len()), (0, 0));
        assert_eq!(answers, ["NotLeading: the host does not lead, so that the call was not sent", "jwt({})"]);
        open.send_replace(true);
        let gate = Gate(gate);
        let (close, (_, answers)) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                open.send_replace(false)
            },
            run(needs(), &outside, Some(&gate)),
        );
        assert!(close && outside.calls.lock().len() == 1);
        assert_eq!(
            answers[0],
            "Transport: the host does not lead any more; whether the operation took place is not known"
        );
    }
}
