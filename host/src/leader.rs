//! Sets up leader election: Leases and identities.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::future::join_all;
use pintle_core::ports::api::{Fences, WriteFence};
use pintle_runtime::election::{
    CandidateConfig, Election, ElectionConfig, Leadership, Sharing, Standing, keep_candidate,
};
use pintle_runtime::manager::{Manager, WallClock};
use pintle_serve::policy::health::Probe;
use pintle_serve::{Check, Checks};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

use crate::cli::RunArgs;
use crate::host::Surroundings;

/// Time after the expiry of its Lease when a leader that has not renewed it becomes unhealthy;
/// kube-controller-manager's value.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);

/// Configured elections that are not running yet: one for each group of plugins.
pub(crate) struct Candidacy {
    elections: Vec<(ElectionConfig, Arc<Leadership>)>,
    fences: Fences,
    /// `NAMESPACE/NAME` of the Lease; with groups, that of the plugins in no group.
    pub(crate) lease: String,
    /// For an election that the API server coordinates.
    candidate: Option<CandidateConfig>,
    clock: WallClock,
}

/// Running elections.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Candidacy {
    /// `None` if the flags disable it. `replaces`: whether the host runs kube-controller-manager's controllers in its
    /// place. `surroundings` provides the clock, the identity and the seed.
    ///
    /// # Errors
    /// The invalid flag, and its valid values.
    pub(crate) fn new(args: &RunArgs, replaces: bool, surroundings: &Surroundings) -> anyhow::Result<Option<Self>> {
        let (lease, class) = (&args.leader.lease, &args.plugins.plugin_class);
        let times = args.leader.times()?;
        let groups = lease.groups(replaces)?;
        let coordinated = args.plugins.controller_flags.coordinates_elections();
        if coordinated && groups.count() > 1 {
            bail!(
                "--leader-elect-group: with --feature-gates=CoordinatedLeaderElection=true the API server elects one host for all; leave one of the two out"
            );
        }
        if !lease.is_on() {
            if groups.count() > 1 {
                bail!("--leader-elect-group: groups need an election; leave --leader-elect=false out");
            }
            return Ok(None);
        }
        let (namespace, name) = lease.of_host(replaces, class);
        let identity = surroundings.identity();
        let candidate = coordinated.then(|| CandidateConfig {
            identity: identity.clone(),
            namespace: namespace.clone(),
            lease: name.clone(),
            kubernetes: args.plugins.controller_flags.versions.emulates().to_owned(),
        });
        let clock = surroundings.clock.clone();
        let sharing = Sharing::new(&identity, groups.count());
        let elections: Vec<_> = groups
            .ids()
            .map(|group| {
                let config = ElectionConfig {
                    identity: identity.clone(),
                    namespace: namespace.clone(),
                    name: groups.lease(group, &name),
                    times,
                    group,
                    sharing: sharing.clone(),
                    coordinated,
                    seed: surroundings.seed.wrapping_add(group.index() as u64),
                };
                (config, Leadership::new(clock.clone(), surroundings.since_boot.clone()))
            })
            .collect();
        let fences = Fences::of_groups(groups, |group| {
            let fence: Arc<dyn WriteFence> = elections[group.index()].1.clone();
            fence
        });
        Ok(Some(Self { elections, fences, lease: format!("{namespace}/{name}"), candidate, clock }))
    }

    /// Fences for writes.
    pub(crate) fn fences(&self) -> Fences {
        self.fences.clone()
    }

    /// Starts the elections, whose leader runs the plugins of `manager`, and adds their health check to the probes.
    pub(crate) fn start(self, manager: &Arc<Manager>, checks: &Checks) -> Running {
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stop = stop.subscribe();
            // The sender is dropped or used only after the last write.
            async move { drop(stop.wait_for(|stops| *stops).await) }
        };
        let mut standings = Vec::new();
        let mut tasks = Vec::new();
        for (config, leadership) in self.elections {
            let (lease, patience) = (config.name.clone(), config.times.lease_duration + UNHEALTHY_AFTER);
            let election = Election::new(config, leadership, manager.clone());
            standings.push((lease, patience, election.standing()));
            tasks.push(tokio::spawn(election.run(stopped())));
        }
        if let Some(config) = self.candidate {
            tasks.push(tokio::spawn(keep_candidate(config, manager.clone(), self.clock, stopped())));
        }
        let handles: Vec<AbortHandle> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let stops = stop.subscribe();
        checks.add(Check::new("leader-election-tasks", &Probe::ALL, move || run_on(&stops, &handles)));
        // client-go's `HealthzAdaptor`: a leader that neither renews nor stops is stuck.
        checks.add(Check::new("leaderElection", &[Probe::Healthz], move || health(&standings)));
        Running { stop, tasks }
    }
}

/// Whether the elections are running unless stopped. Without them, a leader no longer renews its Lease and other hosts
/// never lead; only a new process does.
fn run_on(stops: &watch::Receiver<bool>, tasks: &[AbortHandle]) -> Result<(), String> {
    let has_ended = !*stops.borrow() && tasks.iter().any(AbortHandle::is_finished);
    if has_ended { Err("a task of the leader election has ended".to_owned()) } else { Ok(()) }
}

/// Whether each Lease held by this host was renewed in time. `standings`: Lease names, and the time limit of a renewal.
fn health(standings: &[(String, Duration, watch::Receiver<Standing>)]) -> Result<(), String> {
    for (lease, patience, standing) in standings {
        if standing.borrow().renewed.is_some_and(|renewed| renewed.elapsed() > *patience) {
            return Err(format!("failed election to renew leadership on lease {lease}"));
        }
    }
    Ok(())
}

impl Running {
    /// Releases the Leases held by this host. Call it after the last write.
    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        for ended in join_all(self.tasks).await {
            if let Err(error) = ended {
                tracing::error!(%error, "the leader election failed; other hosts can take the Lease when it expires");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, RunArgs};

    #[tokio::test]
    async fn an_election_that_ends_is_unhealthy_unless_the_host_stops() {
        let stop = watch::Sender::new(false);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let task = tokio::spawn(async move { ended.await.expect("a panic") });
        let tasks = [task.abort_handle()];
        assert_eq!(run_on(&stop.subscribe(), &tasks), Ok(()));
        drop(end);
        assert!(task.await.is_err());
        assert!(run_on(&stop.subscribe(), &tasks).is_err());
        stop.send_replace(true);
        assert_eq!(run_on(&stop.subscribe(), &tasks), Ok(()));
    }

    fn args(flags: &[&str]) -> RunArgs {
        let Ok(Cli { command: Command::Run(args) }) = Cli::try_parse_from(["pintle", "run"].iter().chain(flags)) else {
            panic!("{flags:?} do not parse")
        };
        *args
    }

    #[test]
    fn the_lease_is_that_of_kube_controller_manager_or_of_the_class() {
        let lease =
            |flags: &[&str], replaces| args(flags).leader.lease.of_host(replaces, &args(flags).plugins.plugin_class).1;
        assert_eq!(lease(&[], true), "kube-controller-manager");
        assert_eq!(lease(&[], false), "pintle");
        assert_eq!(lease(&["--plugin-class=blue"], false), "pintle-blue");
        assert_eq!(lease(&["--plugin-class=blue", "--leader-elect-resource-name=x"], false), "x");
        assert_eq!(args(&[]).leader.lease.of_host(true, "default").0, "kube-system");
    }

    #[test]
    fn an_election_is_on_unless_it_is_turned_off_and_its_times_are_checked_in_any_case() {
        let candidacy = |flags: &[&str]| Candidacy::new(&args(flags), true, &Surroundings::default());
        assert!(candidacy(&[]).unwrap().is_some() && candidacy(&["--leader-elect"]).unwrap().is_some());
        assert!(candidacy(&["--leader-elect=false"]).unwrap().is_none());
        for flags in
            [&["--leader-elect-lease-duration=5s"][..], &["--leader-elect=false", "--leader-elect-retry-period=10s"]]
        {
            assert!(candidacy(flags).err().unwrap().to_string().contains("--leader-elect-re"), "{flags:?}");
        }
        let identity = || candidacy(&[]).unwrap().unwrap().elections[0].0.identity.clone();
        let (one, other) = (identity(), identity());
        assert!(one != other && one.split_once('_').is_some(), "{one} {other}");
    }

    #[test]
    fn each_group_has_a_lease_and_the_plugins_that_it_names_by_any_of_their_names() {
        let flags = ["--leader-elect-group=gc=garbagecollector,namespace", "--leader-elect-group", "mine=a, b"];
        let candidacy = Candidacy::new(&args(&flags), false, &Surroundings::default()).unwrap().unwrap();
        let leases: Vec<&str> = candidacy.elections.iter().map(|(config, _)| config.name.as_str()).collect();
        assert_eq!(leases, ["pintle", "pintle-gc", "pintle-mine"]);
        let group = |plugin: &str| candidacy.fences.groups().of(plugin).index();
        assert_eq!([group("garbage-collector-controller"), group("b"), group("deployment-controller")], [1, 2, 0]);
    }

    #[test]
    fn groups_that_cannot_be_are_refused_with_what_to_do() {
        let gc = "--leader-elect-group=gc=garbagecollector";
        for (flags, replaces, why) in [
            (&[gc][..], true, "start it with --beside-kube-controller-manager"),
            (&[gc, "--leader-elect=false"], false, "groups need an election"),
            (&[gc, "--feature-gates=CoordinatedLeaderElection=true"], false, "the API server elects one host for all"),
            (&[gc, "--leader-elect-group=gc=namespace"], false, "the group gc is given twice"),
            (&[gc, "--leader-elect-group=b=garbage-collector-controller"], false, "is in the groups gc and b"),
        ] {
            let error = Candidacy::new(&args(flags), replaces, &Surroundings::default()).err().unwrap().to_string();
            assert!(error.contains(why) && error.starts_with("--leader-elect-group: "), "{error}");
        }
        for wrong in ["gc", "GC=a", "gc="] {
            let parsed = Cli::try_parse_from(["pintle", "run", "--leader-elect-group", wrong]);
            assert!(parsed.is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_api_server_elects_with_its_gate_on() {
        let gate = |on: bool| format!("--feature-gates=CoordinatedLeaderElection={on}");
        let coordinated = |flags: &[&str]| {
            let candidacy = Candidacy::new(&args(flags), true, &Surroundings::default()).unwrap().unwrap();
            assert_eq!(candidacy.candidate.is_some(), candidacy.elections[0].0.coordinated);
            candidacy.candidate.map(|candidate| candidate.lease)
        };
        assert_eq!(coordinated(&[&gate(true)]).as_deref(), Some("kube-controller-manager"));
        assert_eq!((coordinated(&[]), coordinated(&[&gate(false)])), (None, None));
    }
}
