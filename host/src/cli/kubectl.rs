//! Arguments of `kubectl pintle`.

use clap::{Args, Parser, Subcommand};
use pintle_sources::resource::DEFAULT_CLASS;

use super::{plugin, top};
use crate::flags;

/// Asks the Pintle that leads in a cluster: runs a command of `pintle` in its Pod, by `kubectl exec`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-pintle",
    bin_name = "kubectl pintle",
    version,
    max_term_width = 110,
    after_help = "Examples:
  # What runs, and how it is
  kubectl pintle top
  kubectl pintle plugin list

  # A new version wants to delete much: look, then let it, or go back
  kubectl pintle plugin describe widgets
  kubectl pintle plugin approve widgets
  kubectl pintle plugin rollback widgets

  # A release of the chart in another namespace, in another cluster
  kubectl pintle top -n controllers --context staging

  # A host on standby
  kubectl pintle plugin list --pod pintle-6d4b75cb6d-xk2vq"
)]
pub struct KubectlCli {
    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub kubectl: KubectlArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "documented at its type")]
    pub place: PlaceArgs,

    /// What to do.
    #[command(subcommand)]
    pub command: HostCommand,
}

/// The commands of `pintle` that ask a running host.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Manage the plugins of the host: list, load, swap, roll back, disable, unload.
    Plugin(Box<plugin::PluginCommand>),
    /// Show the host at a glance: its plugins with queues, runs, latency, faults and memory, and who leads.
    Top(top::TopArgs),
}

/// Flags of kubectl, which it gets as they are. All have values, and may stand anywhere.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Flags of kubectl")]
pub struct KubectlArgs {
    /// Kubeconfig file. Default: that of kubectl.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<String>,

    /// Context of the kubeconfig. Default: the current context.
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Cluster of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,

    /// User of the kubeconfig.
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,

    /// User to impersonate.
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub as_user: Option<String>,

    /// Group to impersonate. Repeatable.
    #[arg(long, global = true, value_name = "NAME")]
    pub as_group: Vec<String>,
}

/// Where the host is. All flags have values, and may stand anywhere.
#[derive(Debug, Args)]
#[command(next_help_heading = "The host")]
pub struct PlaceArgs {
    /// Namespace of the Pods of Pintle.
    #[arg(long, short, global = true, value_name = "NAME", default_value = "pintle-system", value_parser = flags::class)]
    pub namespace: String,

    /// Container of the Pods.
    #[arg(long, short, global = true, value_name = "NAME", default_value = "pintle", value_parser = flags::class)]
    pub container: String,

    /// This Pod, instead of the one that leads.
    #[arg(long, global = true, value_name = "NAME", value_parser = flags::object_name)]
    pub pod: Option<String>,

    /// Class of the host (its --plugin-class), part of the default name of its Lease.
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_CLASS, value_parser = flags::class)]
    pub plugin_class: String,

    /// Name of the Lease whose holder is asked. Default: `pintle`, or `pintle-CLASS` with --plugin-class; if that has no holder, the one of
    /// kube-controller-manager, if a Pintle holds it.
    #[arg(long, global = true, value_name = "NAME", value_parser = flags::object_name)]
    pub leader_elect_resource_name: Option<String>,

    /// Namespace of the Lease.
    #[arg(long, global = true, value_name = "NAMESPACE", default_value = "kube-system", value_parser = flags::class)]
    pub leader_elect_resource_namespace: String,
}
