//! Wires leader election: which Lease, under which identity.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use pintle_core::ports::api::WriteFence;
use pintle_core::serving::health::Probe;
use pintle_runtime::election::{Election, ElectionConfig, Leadership};
use pintle_runtime::manager::Manager;
use pintle_serve::{Check, Checks};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::cli::leader::LeaderElectArgs;

/// How long after the end of the Lease a leader that has not renewed it is unhealthy; kube-controller-manager's value.
const UNHEALTHY_AFTER: Duration = Duration::from_secs(20);

/// An election that is configured and not running yet.
pub(crate) struct Candidacy {
    config: ElectionConfig,
    leadership: Arc<Leadership>,
}

/// An election that runs.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Candidacy {
    /// `None` if the flags say so. `replaces`: whether the host runs kube-controller-manager's controllers in its place.
    ///
    /// # Errors
    /// The flag that is wrong, and its valid values.
    pub(crate) fn new(args: &LeaderElectArgs, replaces: bool, class: &str) -> anyhow::Result<Option<Self>> {
        let times = args.times()?;
        if !args.lease.is_on() {
            return Ok(None);
        }
        let (namespace, name) = args.lease.of_host(replaces, class);
        let uuid = Uuid::new_v4();
        // As kube-controller-manager's.
        let host = sysinfo::System::host_name().unwrap_or_else(|_| "unknown".to_owned());
        let config =
            ElectionConfig { identity: format!("{host}_{uuid}"), namespace, name, times, seed: uuid.as_u64_pair().0 };
        Ok(Some(Self { config, leadership: Leadership::new(Arc::new(Timestamp::now)) }))
    }

    /// The bound of writes.
    pub(crate) fn fence(&self) -> Arc<dyn WriteFence> {
        self.leadership.clone()
    }

    /// Starts the election, whose leader runs `manager`, and adds its check to those of the probes.
    pub(crate) fn start(self, manager: Arc<Manager>, checks: &Checks) -> Running {
        let (stop, stopped) = oneshot::channel();
        let (lease, patience) = (self.config.name.clone(), self.config.times.lease_duration + UNHEALTHY_AFTER);
        let election = Election::new(self.config, self.leadership, manager);
        let standing = election.standing();
        // client-go's `HealthzAdaptor`: a leader that neither renews nor stops hangs.
        checks.add(Check::new("leaderElection", &[Probe::Healthz], move || {
            match standing.borrow().renewed.filter(|renewed| renewed.elapsed() > patience) {
                Some(_) => Err(format!("failed election to renew leadership on lease {lease}")),
                None => Ok(()),
            }
        }));
        let task = tokio::spawn(election.run(async {
            // The sender is dropped or used only after the last write.
            let _ = stopped.await;
        }));
        Running { stop, task }
    }
}

impl Running {
    /// Releases the Lease, if this host holds it. Call it after the last write.
    pub(crate) async fn stop(self) {
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the leader election failed; other hosts can take the Lease when it expires");
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command, RunArgs};

    fn args(flags: &[&str]) -> RunArgs {
        let Ok(Cli { command: Command::Run(args) }) = Cli::try_parse_from(["pintle", "run"].iter().chain(flags)) else {
            panic!("{flags:?} do not parse")
        };
        args
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
        let candidacy = |flags: &[&str]| Candidacy::new(&args(flags).leader, true, "default");
        assert!(candidacy(&[]).unwrap().is_some() && candidacy(&["--leader-elect"]).unwrap().is_some());
        assert!(candidacy(&["--leader-elect=false"]).unwrap().is_none());
        for flags in
            [&["--leader-elect-lease-duration=5s"][..], &["--leader-elect=false", "--leader-elect-retry-period=10s"]]
        {
            assert!(candidacy(flags).err().unwrap().to_string().contains("--leader-elect-re"), "{flags:?}");
        }
        let one = candidacy(&[]).unwrap().unwrap().config.identity;
        let other = candidacy(&[]).unwrap().unwrap().config.identity;
        assert!(one != other && one.split_once('_').is_some(), "{one} {other}");
    }
}
