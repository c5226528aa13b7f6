//! Flags of leader election; names and defaults are kube-controller-manager's.

use std::time::Duration;

use anyhow::bail;
use clap::{ArgAction, Args, ValueEnum};
use pintle_core::policy::election::{Groups, Times};

use crate::builtins::Catalogue;
use crate::flags::{self, upstream};

/// Which Lease.
#[derive(Debug, Clone, Args)]
pub struct LeaseArgs {
    /// Run controllers only while this host holds a Lease, so that several hosts can stand by for each other. [default: true] If given,
    /// the host takes the place of kube-controller-manager, and waits while one holds the Lease; without the flag it does not start
    /// beside one, and a host with a list of --controllers never takes its Lease.
    #[arg(
        long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set
    )]
    pub leader_elect: Option<bool>,

    /// Name of the Lease. Default: `kube-controller-manager` for a host that runs its controllers in its place, so that the two exclude
    /// each other; otherwise `pintle`, or `pintle-CLASS` with --plugin-class.
    #[arg(long, value_name = "NAME", value_parser = flags::object_name)]
    pub leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease.
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", value_parser = flags::class)]
    pub leader_elect_resource_namespace: String,

    /// A group of controllers that is led separately, so that several hosts share the controllers: each group has a Lease, whose name
    /// is that of the host's Lease with `-NAME`, and hosts hand groups over until they lead equally many. Controllers that no group
    /// names are one more group. Repeatable. The hosts need the same groups. Not for a host that excludes kube-controller-manager by its
    /// Lease: such a host needs --beside-kube-controller-manager.
    #[arg(long = "leader-elect-group", value_name = "NAME=CONTROLLER,...", value_parser = group)]
    pub leader_elect_groups: Vec<Group>,
}

/// A group of controllers with a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    name: String,
    controllers: Vec<String>,
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.controllers.join(","))
    }
}

fn group(text: &str) -> Result<Group, String> {
    let (name, controllers) =
        text.split_once('=').ok_or("write NAME=CONTROLLER,..., for example gc=garbagecollector,namespace")?;
    let controllers = controllers.split(',').map(str::trim).filter(|controller| !controller.is_empty());
    let group = Group { name: name.to_owned(), controllers: controllers.map(full_name).collect() };
    Groups::new([(group.name.clone(), group.controllers.clone())]).map(|_| group)
}

/// Resolves an alias of a kube-controller-manager controller; any other name is returned unchanged.
fn full_name(name: &str) -> String {
    let built_in = Catalogue::carried().manifests().map(|manifest| (manifest.name.as_str(), &manifest.aliases[..]));
    let mut all = built_in.chain(upstream::controllers());
    let found = all.find(|(_, aliases)| aliases.iter().any(|alias| alias == name));
    found.map_or(name, |(full, _)| full).to_owned()
}

/// How several hosts agree which one runs the controllers.
#[derive(Debug, Clone, Args)]
pub struct LeaderElectArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub lease: LeaseArgs,

    /// How long other hosts wait after the last renewal that they saw, before they take the Lease.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = flags::duration)]
    pub leader_elect_lease_duration: Duration,

    /// How long the leader tries to renew the Lease before it stops its controllers. Must be less than the lease duration.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration)]
    pub leader_elect_renew_deadline: Duration,

    /// Time between two renewals, or two tries to take the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = flags::duration)]
    pub leader_elect_retry_period: Duration,

    /// Kind of the object that is held.
    #[arg(long, value_enum, default_value_t = ResourceLock::Leases)]
    pub leader_elect_resource_lock: ResourceLock,
}

/// Kinds of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResourceLock {
    /// A Lease of coordination.k8s.io/v1.
    Leases,
}

impl LeaseArgs {
    /// Whether there is an election.
    pub fn is_on(&self) -> bool {
        self.leader_elect != Some(false)
    }

    /// The groups with separate leaders. `replaces`: as for [`LeaseArgs::of_host`].
    ///
    /// # Errors
    /// The invalid flag, and what to do.
    pub fn groups(&self, replaces: bool) -> anyhow::Result<Groups> {
        if replaces && !self.leader_elect_groups.is_empty() {
            bail!(
                "--leader-elect-group: this host and kube-controller-manager exclude each other by one Lease, so the host cannot have more; \
                 start it with --beside-kube-controller-manager, and kube-controller-manager without the controllers of this host"
            );
        }
        let named = self.leader_elect_groups.iter().map(|group| (group.name.clone(), group.controllers.clone()));
        Groups::new(named).map_err(|why| anyhow::anyhow!("--leader-elect-group: {why}"))
    }

    /// Namespace and name of the Lease. `replaces`: whether the host runs kube-controller-manager's controllers in its place; `class`:
    /// the host's class of ControllerPlugins.
    pub fn of_host(&self, replaces: bool, class: &str) -> (String, String) {
        let name = match &self.leader_elect_resource_name {
            Some(name) => name.clone(),
            None if replaces => crate::beside::NAME.to_owned(),
            None => default_lease(class),
        };
        (self.leader_elect_resource_namespace.clone(), name)
    }
}

/// Default Lease name of hosts of a class that do not replace kube-controller-manager.
pub(crate) fn default_lease(class: &str) -> String {
    if class == pintle_sources::resource::DEFAULT_CLASS { "pintle".to_owned() } else { format!("pintle-{class}") }
}

impl LeaderElectArgs {
    /// The times of the election.
    ///
    /// # Errors
    /// The invalid flag, and its valid values.
    pub fn times(&self) -> anyhow::Result<Times> {
        let times = Times {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
        };
        times.check().map_err(anyhow::Error::msg)?;
        Ok(times)
    }
}
