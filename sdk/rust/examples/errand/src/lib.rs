//! Runs errands: each one exercises one part of contract 0.2.
//!
//! `tests/errand/README.md` in the repository specifies its behaviour, and the cases there show it.

use std::time::Duration;

use pintle_sdk::api::meta::ObjectMeta;
use pintle_sdk::time::Timestamp;
use pintle_sdk::{
    CertificateRequest, Error, Key, Kind, Lister, LiveDetail, Moment, Mutation, Need, ObjectKey, Outcome, PatchType,
    Query, Resource, Step, Wake, decode, resource,
};
use serde::Deserialize;
use serde_json::{Value, json};

const DEPLOYMENT: Kind = Kind::new("apps", "v1", "Deployment");
const POD: Kind = Kind::new("", "v1", "Pod");
const SECRET: Kind = Kind::new("", "v1", "Secret");
const TICK: Kind = Kind::new("pintle", "v1", "Tick");
const ACCESS_REVIEW: Kind = Kind::new("authorization.k8s.io", "v1", "SubjectAccessReview");

const ERRANDS: &str = "errands";
const ROUNDS: &str = "rounds";

/// A one-time task.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Errand {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

resource!(Errand, "example.com", "v1", "Errand");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    r#do: String,
    of: String,
    until: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    answer: Option<String>,
}

/// The fields that the plugin reads of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: ObjectMeta,
    spec: PodSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
}

/// The operator's settings.
#[derive(Debug, Deserialize)]
struct Config {
    greeting: String,
}

/// Computes the outcome of one errand, or, for the tick of the rounds, which errands run.
///
/// # Errors
/// Terminal if the errand refers to something unknown, or an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    if key.queue == ROUNDS {
        return rounds(lister);
    }
    let Some(errand) = lister.get::<Errand>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let (outcome, answer) = run(&errand, lister)?;
    let outcome = outcome.run_label("do", &errand.spec.r#do);
    Ok(match answer {
        Some(answer) if errand.status.answer.as_ref() != Some(&answer) => {
            let body = json!({"status": {"answer": answer}});
            let patch = Mutation::patch(&Errand::KIND, errand.metadata.key(), PatchType::Merge, body);
            let patch = patch.subresource("status").uid(&errand.metadata.uid);
            outcome.step(Step::sequential([patch]).always())
        }
        _ => outcome,
    })
}

/// Runs every errand again.
fn rounds(lister: &impl Lister) -> Result<Outcome, Error> {
    let errands = lister.list_json(&Errand::KIND, &Query::all());
    let errands: Vec<Errand> = errands.iter().map(|text| decode(&Errand::KIND, text)).collect::<Result<_, _>>()?;
    let outcome = Outcome::new().observe("errand_controller_rounds_total", Vec::new(), 1.0);
    Ok(errands.iter().fold(outcome, |outcome, errand| outcome.wake(key(errand.metadata.key()))))
}

/// The writes of the errand, and its answer, if there is one.
fn run(errand: &Errand, lister: &impl Lister) -> Result<(Outcome, Option<String>), Error> {
    let (of, namespace) = (errand.spec.of.as_str(), errand.metadata.namespace.as_str());
    let errand_key = |name: &str| key(ObjectKey::new(namespace, name));
    let answer = match errand.spec.r#do.as_str() {
        "wake" => {
            let tick = Key::new(ROUNDS, TICK, "", ROUNDS);
            let later = Wake::after(tick, Duration::from_millis(1500));
            return Ok((Outcome::new().wake(errand_key(of)).wake(later), Some("woken".into())));
        }
        "crowd" => {
            let all = (0..=10_000).map(|i| errand_key(&format!("e{i}")));
            return Ok((all.fold(Outcome::new(), Outcome::wake), Some("woken".into())));
        }
        "later" => {
            let until = Timestamp::parse(&errand.spec.until);
            let (until, now) =
                (until.ok_or_else(|| Error::Terminal("spec.until is not a time".into()))?, lister.now()?);
            if until > now {
                return Ok((Outcome::new().requeue_at(until, now), None));
            }
            "due".to_owned()
        }
        "uptime" => {
            let (name, now) = (format!("since/{namespace}/{}", errand.metadata.name), lister.uptime().as_secs());
            let Some(since) = lister.state(&name) else {
                return Ok((Outcome::new().keep(name, now.to_string()), Some("started".into())));
            };
            let since: u64 = since.parse().map_err(|_| Error::Terminal(format!("{since:?} is not a number")))?;
            format!("{} s", now - since)
        }
        "scale" => ask(lister, Need::live_object(&DEPLOYMENT, namespace, of).subresource("scale"), |text| {
            let scale: Value = decode(&DEPLOYMENT, text)?;
            // The API server omits zero.
            Ok(scale["spec"]["replicas"].as_i64().unwrap_or_default().to_string())
        })?,
        "pods" => {
            let need = Need::live_list(&POD, namespace, 10).fields(format!("spec.nodeName={of}"));
            ask(lister, need.detail(LiveDetail::Projection), |text| {
                let pods: Vec<Pod> = decode(&POD, text)?;
                let shown = pods.iter().map(|pod| format!("{} on {}", pod.metadata.name, pod.spec.node_name));
                Ok(shown.collect::<Vec<_>>().join(", "))
            })?
        }
        "secrets" => ask(lister, Need::live_list(&SECRET, namespace, 10).detail(LiveDetail::Whole), |text| {
            let secrets: Vec<Value> = decode(&SECRET, text)?;
            Ok(secrets.len().to_string())
        })?,
        "review" => {
            let attributes = json!({"namespace": namespace, "verb": "get", "resource": "pods"});
            let review = json!({"spec": {"user": of, "resourceAttributes": attributes}});
            ask(lister, Need::review(&ACCESS_REVIEW, "", review), |text| {
                let review: Value = decode(&ACCESS_REVIEW, text)?;
                Ok(if review["status"]["allowed"] == true { "allowed" } else { "denied" }.to_owned())
            })?
        }
        "token" => ask(lister, Need::sign_jwt("key", json!({"sub": of})), |token| Ok(token.to_owned()))?,
        "certificate" => {
            let need = Need::sign_certificate(CertificateRequest {
                authority: "authority".into(),
                request: of.into(),
                usages: vec!["client auth".into()],
                not_before: lister.now_text(),
                not_after: errand.spec.until.clone(),
            });
            ask(lister, need, |certificate| Ok(certificate.to_owned()))?
        }
        "call" => {
            let need = Need::call("desk", "look-up", json!({"name": of})).timeout(Duration::from_secs(10));
            ask(lister, need, |text| {
                let found: Value = serde_json::from_str(text).map_err(|error| Error::Terminal(error.to_string()))?;
                Ok(found["place"].as_str().unwrap_or_default().to_owned())
            })?
        }
        "count" => {
            let Some(text) = lister.get_json(&POD, &ObjectKey::new(namespace, of)) else {
                return Ok((Outcome::new(), Some("absent".into())));
            };
            let pod: Pod = decode(&POD, &text)?;
            let mut outcome =
                Outcome::new().step(Step::sequential([Mutation::delete(&POD, namespace, of).uid(pod.metadata.uid)]));
            if let Some(delete) = outcome.last_place() {
                for (at, result) in [(Moment::Done(delete), "deleted"), (Moment::Failed(delete), "kept")] {
                    outcome = outcome.observe_at(at, "errand_controller_deletions_total", vec![result.into()], 1.0);
                }
            }
            return Ok((outcome, Some("tried".into())));
        }
        "greet" => greet(of, lister)?,
        "fail" => {
            let error = Error::retry_after("out of order", Duration::from_secs(5));
            return Ok((Outcome::new().fail(error), Some(greet(of, lister)?)));
        }
        "kinds" => {
            let found = lister.resources_of(&DEPLOYMENT.group, &DEPLOYMENT.name);
            let found = found.iter().map(|resource| format!("{}.{}", resource.plural, resource.kind.version));
            found.collect::<Vec<_>>().join(",")
        }
        "tally" => {
            let n_pods = lister.count(&POD, &Query::namespace(namespace));
            let label = vec![namespace.to_owned()];
            let outcome = Outcome::new().observe("errand_controller_pods", label, f64::from(n_pods));
            return Ok((outcome, Some(n_pods.to_string())));
        }
        other => return Err(Error::Terminal(format!("nothing is called {other}"))),
    };
    Ok((Outcome::new(), Some(answer)))
}

/// Greets with the word in the operator's settings.
fn greet(name: &str, lister: &impl Lister) -> Result<String, Error> {
    Ok(format!("{}, {name}", lister.config::<Config>()?.greeting))
}

/// The key of an errand.
fn key(object: ObjectKey) -> Key {
    Key::new(ERRANDS, Errand::KIND, object.namespace, object.name)
}

/// Reads the answer to a need; an error is an answer too.
fn ask(lister: &impl Lister, need: Need, read: impl FnOnce(&str) -> Result<String, Error>) -> Result<String, Error> {
    match lister.ask(need)? {
        Ok(text) => read(&text),
        Err(error) => Ok(format!("refused: {}", error.reason)),
    }
}

pintle_sdk::export!(reconcile);
