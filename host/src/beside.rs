//! Prevents two programs from running the same built-in controllers on one cluster, and a host from taking
//! kube-controller-manager's Lease without its operator's request.
//!
//! | controllers of the host | flags | Lease | starts unless |
//! | --- | --- | --- | --- |
//! | none of kube-controller-manager's | | its own | |
//! | any | `--beside-kube-controller-manager` | its own | |
//! | `*` | none | kube-controller-manager's | kube-controller-manager renews it |
//! | any | `--leader-elect` | kube-controller-manager's | |
//! | any | `--leader-elect=false` | none | kube-controller-manager, or another Pintle, renews its Lease |
//! | a list | none | its own | kube-controller-manager's Lease exists, whoever holds it |
//!
//! *Not here*: kube-controller-managers without a Lease (`--leader-elect=false`), and the election (`leader`).

use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::lease::{LeaseHolder, LeaseReadings, LeaseSpec};
use pintle_core::policy::roles;
use pintle_core::ports::api::{ApiError, ApiErrorClass, ApiReader};
use pintle_runtime::election::read_lease;
use tokio::time::Instant;

use crate::flags::controllers_flag::ControllersFlag;

/// Location of kube-controller-manager's Lease (its flags `--leader-elect-resource-namespace` and
/// `--leader-elect-resource-name`).
const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "kube-controller-manager";

/// Interval between two reads. kube-controller-manager renews every 2 s.
const AGAIN: Duration = Duration::from_secs(1);
/// Longest pause after an error.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Relation of a host to kube-controller-manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    /// It runs none of kube-controller-manager's controllers, or its operator states that kube-controller-manager runs
    /// without those of the host.
    Beside,
    /// It runs controllers in place of kube-controller-manager: the two exclude each other.
    Instead,
    /// It runs controllers from a list, and nothing states whether kube-controller-manager runs the others. It may be
    /// down for a moment, and would wait indefinitely if its Lease were taken.
    Unsaid,
}

impl Stance {
    /// `runs_some`: whether the host runs controllers of kube-controller-manager.
    pub(crate) fn of(runs_some: bool, beside: bool, controllers: &ControllersFlag, leader_elect: Option<bool>) -> Self {
        match leader_elect {
            _ if beside || !runs_some => Self::Beside,
            None if !controllers.has_all() => Self::Unsaid,
            _ => Self::Instead,
        }
    }

    /// Whether the host uses kube-controller-manager's Lease.
    pub(crate) fn replaces(self) -> bool {
        self == Self::Instead
    }
}

/// Returns when the host may start. `controllers`: names of those that would run twice. `elects`: whether another
/// Pintle may hold the Lease, because this host takes part in its election. Waits while the API server does not
/// respond, and at most for the duration of the Lease if it is not renewed.
///
/// # Errors
/// The host may not start, or may not read the Lease. One line with the next steps.
///
/// # Cancel safety
/// Reads only.
pub(crate) async fn check(
    reader: &dyn ApiReader,
    controllers: &[String],
    stance: Stance,
    elects: bool,
) -> anyhow::Result<()> {
    if stance == Stance::Beside {
        return Ok(());
    }
    let mut readings = LeaseReadings::default();
    let mut started = None;
    let mut pause = AGAIN;
    loop {
        let (spec, is_of_pintle) = match read(reader).await {
            Ok(None) => return Ok(()),
            Ok(Some((spec, _))) if stance == Stance::Unsaid => bail!("{}", undecided(&spec, controllers)),
            Ok(Some(read)) => read,
            Err(why) if why.class == ApiErrorClass::Forbidden => bail!(
                "the host may not read the Lease {NAMESPACE}/{NAME}, which shows whether kube-controller-manager runs the same controllers: {why}; {}, or start with --beside-kube-controller-manager if kube-controller-manager does not run them",
                roles::advice(&why.message)
            ),
            Err(why) => {
                tracing::warn!(error = %why, "the Lease of kube-controller-manager cannot be read; controllers start once it can");
                tokio::time::sleep(why.retry_after().unwrap_or(pause).min(MAX_PAUSE)).await;
                pause = (pause * 2).min(MAX_PAUSE);
                continue;
            }
        };
        if elects && is_of_pintle {
            return Ok(());
        }
        let is_first = started.is_none();
        let first = *started.get_or_insert_with(Instant::now);
        match readings.add(spec, first.elapsed(), Timestamp::now()) {
            LeaseHolder::None => return Ok(()),
            LeaseHolder::Running(holder) if is_of_pintle => bail!(
                "another Pintle runs in this cluster ({holder} renews the Lease {NAMESPACE}/{NAME}), and would write to the same objects as controllers of this host; start both with --leader-elect, so that one waits for the other, or name the controllers that this host runs with --controllers"
            ),
            LeaseHolder::Running(holder) => bail!("{}", refusal(&holder, controllers)),
            LeaseHolder::Unknown(at_most) => {
                if is_first {
                    tracing::info!(
                        "kube-controller-manager held its Lease a short time ago; waiting up to {at_most:?} to see whether it still runs"
                    );
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// The list items that disable these controllers in kube-controller-manager.
fn without(controllers: &[String]) -> String {
    controllers.iter().map(|name| format!(",-{name}")).collect()
}

fn undecided(spec: &LeaseSpec, controllers: &[String]) -> String {
    let held = match spec.holder_identity.as_deref().unwrap_or_default() {
        "" => "nobody holds it now".to_owned(),
        holder => format!("its last holder is {holder}"),
    };
    format!(
        "kube-controller-manager has a Lease in this cluster ({NAMESPACE}/{NAME}; {held}), and would write to the same objects as controllers of this host. Append `{}` to its `--controllers`, and start this host with --beside-kube-controller-manager; or, if this host replaces kube-controller-manager, start it with --leader-elect: no other controllers run then",
        without(controllers)
    )
}

fn refusal(holder: &str, controllers: &[String]) -> String {
    let without = without(controllers);
    format!(
        "kube-controller-manager runs in this cluster ({holder} renews the Lease {NAMESPACE}/{NAME}), and would write to the same objects as controllers of this host. Append `{without}` to the `--controllers` of kube-controller-manager, and then start this host with --beside-kube-controller-manager; or stop kube-controller-manager; or start this host with --leader-elect, so that it waits until kube-controller-manager has stopped, and then runs its controllers in place of all those of kube-controller-manager; or name the controllers that this host runs with --controllers, or components to run alone"
    )
}

/// The part of the Lease with its holder, and whether the holder is a Pintle.
async fn read(reader: &dyn ApiReader) -> Result<Option<(LeaseSpec, bool)>, ApiError> {
    let Some(lease) = read_lease(reader, &ObjectKey::new(NAMESPACE, NAME)).await? else { return Ok(None) };
    let spec = LeaseSpec::of(&lease)
        .map_err(|why| ApiError::transport(format!("the Lease {NAMESPACE}/{NAME} does not parse: {why}")))?;
    Ok(Some((spec, lease.is_of_pintle())))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use pintle_core::ports::api::{ListPage, ListWatchTarget};
    use pintle_testing::{FakeServer, refusal};
    use serde_json::json;

    use super::*;

    type Answer = Result<Box<str>, ApiError>;

    fn unlisted(_: &ListWatchTarget, _: u32, _: Option<&str>) -> Result<ListPage, ApiError> {
        panic!("listed")
    }

    /// The Lease, renewed `ago` seconds ago.
    fn lease(ago: i64) -> Answer {
        let renewed = Timestamp::now() - jiff::SignedDuration::from_secs(ago);
        let spec = json!({"holderIdentity": "kcm-0", "leaseDurationSeconds": 15, "renewTime": format!("{renewed:.6}")});
        Ok(json!({ "spec": spec }).to_string().into())
    }

    /// Returns these answers in order, repeating the last one. Returns the error, the number of reads, and the time.
    async fn checked(answers: Vec<Answer>) -> (Option<String>, usize, Duration) {
        checked_by(false, answers).await
    }

    async fn checked_by(elects: bool, answers: Vec<Answer>) -> (Option<String>, usize, Duration) {
        checked_as(Stance::Instead, elects, answers).await
    }

    async fn checked_as(stance: Stance, elects: bool, answers: Vec<Answer>) -> (Option<String>, usize, Duration) {
        let answers = Arc::new(Mutex::new((VecDeque::from(answers), 0)));
        let read = answers.clone();
        let server = FakeServer::answering(unlisted, move |resource, object| {
            assert_eq!((&*resource.plural, &*object.to_string()), ("leases", "kube-system/kube-controller-manager"));
            let mut answers = read.lock().unwrap();
            answers.1 += 1;
            if answers.0.len() > 1 { answers.0.pop_front().unwrap() } else { answers.0[0].clone() }
        });
        let start = Instant::now();
        let names = ["a-controller".to_owned(), "b-controller".to_owned()];
        let why = check(&*server, &names, stance, elects).await.err();
        let n_read = answers.lock().unwrap().1;
        (why.map(|why| why.to_string()), n_read, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_lease_refuses_with_the_flag_that_kube_controller_manager_needs() {
        let (why, n_read, _) = checked(vec![lease(1), lease(1), lease(0)]).await;
        let why = why.unwrap();
        assert!(n_read <= 3, "{n_read}");
        for words in [
            "kcm-0 renews the Lease kube-system/kube-controller-manager",
            "Append `,-a-controller,-b-controller`",
            "--beside-kube-controller-manager",
        ] {
            assert!(why.contains(words), "{why}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_pintle_is_waited_for_by_an_election_alone() {
        let of_pintle = |ago| -> Answer {
            let mut object: serde_json::Value = serde_json::from_str(&lease(ago).unwrap()).unwrap();
            object["metadata"] = json!({"annotations": {"pintle.dev/holder": "kcm-0"}});
            Ok(object.to_string().into())
        };
        assert_eq!(checked_by(true, vec![of_pintle(1)]).await, (None, 1, Duration::ZERO));
        let why = checked(vec![of_pintle(1), of_pintle(0)]).await.0.unwrap();
        assert!(why.contains("another Pintle runs") && why.contains("--leader-elect"), "{why}");
        let why = checked_by(true, vec![lease(1), lease(0)]).await.0.unwrap();
        assert!(why.contains("start this host with --leader-elect"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_nobody_renews_delays_the_start_by_its_duration_at_most() {
        let last = lease(3);
        let (why, _, time) = checked(vec![last.clone()]).await;
        assert_eq!((why, time), (None, Duration::from_secs(15)));
        assert_eq!(checked(vec![lease(3600)]).await, (None, 1, Duration::ZERO));
        assert_eq!(checked(vec![Err(refusal(404))]).await, (None, 1, Duration::ZERO));
        assert_eq!(checked(vec![Ok("{}".into())]).await, (None, 1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn without_permission_nothing_starts_and_an_api_server_that_is_away_is_waited_for() {
        let (why, ..) = checked(vec![Err(refusal(403))]).await;
        let why = why.unwrap();
        assert!(
            why.contains("`pintle rbac | kubectl apply -f -`") && why.contains("--beside-kube-controller-manager"),
            "{why}"
        );
        let away = vec![Err(refusal(500)), Err(ApiError::transport("gone")), Ok("garbage".into()), Err(refusal(404))];
        let (why, n_read, _) = checked(away).await;
        assert_eq!((why, n_read), (None, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_of_controllers_takes_no_place_that_nobody_gave_it() {
        let released = || -> Answer { Ok(json!({"spec": {"holderIdentity": ""}}).to_string().into()) };
        for (lease, words) in
            [(lease(1), "its last holder is kcm-0"), (lease(3600), "kcm-0"), (released(), "nobody holds")]
        {
            let (why, n_read, time) = checked_as(Stance::Unsaid, true, vec![lease]).await;
            let why = why.unwrap();
            for words in [words, "`,-a-controller,-b-controller`", "--beside-kube-controller-manager", "--leader-elect"]
            {
                assert!(why.contains(words), "{why}");
            }
            assert_eq!((n_read, time), (1, Duration::ZERO));
        }
        assert_eq!(checked_as(Stance::Unsaid, true, vec![Err(refusal(404))]).await, (None, 1, Duration::ZERO));
    }

    #[tokio::test]
    async fn a_host_beside_it_reads_nothing() {
        let server = FakeServer::answering(unlisted, |_, _| panic!("read"));
        check(&*server, &[], Stance::Beside, false).await.unwrap();
    }

    #[test]
    fn flags_say_what_a_host_is_to_kube_controller_manager() {
        for (runs_some, beside, controllers, leader_elect, stance) in [
            (false, false, "*", None, Stance::Beside),
            (false, false, "a", Some(true), Stance::Beside),
            (true, true, "*", Some(true), Stance::Beside),
            (true, false, "*", None, Stance::Instead),
            (true, false, "*,-a", None, Stance::Instead),
            (true, false, "a", None, Stance::Unsaid),
            (true, false, "a", Some(true), Stance::Instead),
            (true, false, "a", Some(false), Stance::Instead),
        ] {
            let flag = controllers.parse().unwrap();
            assert_eq!(Stance::of(runs_some, beside, &flag, leader_elect), stance, "{controllers} {leader_elect:?}");
        }
    }
}
