//! Changes by an operator through the admin API.
//!
//! Invariants:
//! 1. Each change, and each rejected request, is a line in the log and an event with the caller's user.
//! 2. A change that differs from the plugin's source is a condition of the plugin until the source changes or releases
//!    the name, or the operator reverts the change.
//! 3. Stopping, resuming and restoring are rejected if another host leads the plugin, because they would have no effect
//!    now.

use pintle_core::lifecycle::{Condition, SwapReport};

use super::{Control, PluginEntry, PluginSource, Wanted, now};
use crate::wire::{Refusal, reason};

/// The declaration of a plugin's source.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    pub(super) is_disabled: bool,
    /// Digest of the component; absent while it is not available.
    pub(super) digest: Option<String>,
}

/// Changes by operators that differ from the plugin's source.
#[derive(Clone, Debug, Default)]
pub(super) struct Deviations {
    /// Enabled or disabled.
    toggle: Option<Condition>,
    /// Another component or spec.
    version: Option<Condition>,
}

impl Deviations {
    /// The condition of a plugin that differs from its source.
    pub(super) fn condition(&self) -> Option<&Condition> {
        self.toggle.as_ref().or(self.version.as_ref())
    }

    /// Whether an operator has swapped in another component or spec.
    pub(super) fn has_version(&self) -> bool {
        self.version.is_some()
    }

    /// Whether an operator has enabled or disabled it.
    pub(super) fn has_toggled(&self) -> bool {
        self.toggle.is_some()
    }
}

/// The condition of a plugin that an operator has changed.
pub const OVERRIDDEN: &str = "Overridden";

/// A caller of the admin API.
pub struct Operator<'c> {
    control: &'c Control,
    /// Name of the caller for humans.
    who: String,
}

impl Control {
    /// Changes on behalf of this user.
    pub fn operator(&self, uid: Option<u32>) -> Operator<'_> {
        let who = uid.map_or_else(|| "an unknown uid".to_owned(), |uid| format!("uid {uid}"));
        Operator { control: self, who }
    }
}

impl Operator<'_> {
    /// As [`Control::load`], and also allows names that `--controllers` excludes.
    ///
    /// # Errors
    /// As there.
    pub async fn load(&self, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        let origin = wanted.origin.clone();
        let name = match self.control.name_of(&wanted).await {
            Ok(name) => name,
            Err(why) => return self.noted("", "load", Err(why)),
        };
        self.noted(&name, "load", self.control.exclusion(&name).map_or(Ok(()), Err))?;
        let report = self.noted(&name, "load", self.control.load(&name, wanted).await)?;
        tracing::info!(plugin = name, by = self.who, origin, "loaded through the admin API");
        let message = format!("plugin {name} is loaded from {origin} by {}", self.who);
        self.control.plugins.record_event(&name, false, "Loaded", message);
        Ok(report)
    }

    /// As [`Control::swap`].
    ///
    /// # Errors
    /// As there.
    pub async fn swap(&self, name: &str, wanted: Wanted<'_>) -> Result<SwapReport, Refusal> {
        let report = self.noted(name, "swap", self.control.swap(name, wanted).await)?;
        tracing::info!(plugin = name, by = self.who, "swapped through the admin API");
        self.note_version(name, &report, false);
        Ok(report)
    }

    /// As [`Control::rollback`].
    ///
    /// # Errors
    /// As there.
    pub async fn rollback(&self, name: &str) -> Result<SwapReport, Refusal> {
        self.noted(name, "rollback", self.runs_here(name))?;
        let report = self.noted(name, "rollback", self.control.rollback(name).await)?;
        tracing::info!(plugin = name, by = self.who, "rolled back through the admin API");
        self.note_version(name, &report, true);
        Ok(report)
    }

    /// As [`Control::disable`].
    ///
    /// # Errors
    /// As there.
    pub fn disable(&self, name: &str, why: &str) -> Result<(), Refusal> {
        self.noted(name, "disable", self.runs_here(name))?;
        self.note_toggle(name, true);
        let why = if why.is_empty() { format!("by {}", self.who) } else { format!("{why} (by {})", self.who) };
        self.noted(name, "disable", self.control.disable(name, &why))
    }

    /// As [`Control::enable`].
    ///
    /// # Errors
    /// As there.
    pub fn enable(&self, name: &str) -> Result<(), Refusal> {
        self.noted(name, "enable", self.runs_here(name))?;
        self.note_toggle(name, false);
        self.noted(name, "enable", self.control.enable(name, &format!("by {}", self.who)))
    }

    /// As [`Control::approve`].
    ///
    /// # Errors
    /// As there.
    pub fn approve(&self, name: &str) -> Result<(), Refusal> {
        self.noted(name, "approve", self.runs_here(name))?;
        self.noted(name, "approve", self.control.approve(name, &format!("by {}", self.who)))
    }

    /// As [`Control::unload`].
    ///
    /// # Errors
    /// As there.
    pub async fn unload(&self, name: &str) -> Result<(), Refusal> {
        self.noted(name, "unload", self.control.unload(name, &format!("by {}", self.who)).await)
    }

    /// Checks that the plugin exists, and that no other host runs it.
    fn runs_here(&self, name: &str) -> Result<(), Refusal> {
        self.control.known(name)?;
        if self.control.may_run(name) {
            return Ok(());
        }
        let elections = self.control.overview().host.elections;
        let leaders: Vec<String> = elections
            .into_iter()
            .filter(|election| !election.leads)
            .filter_map(|election| Some((election.lease, election.holder.filter(|holder| !holder.is_empty())?)))
            .map(|(lease, holder)| format!("{holder} holds the Lease {lease}"))
            .collect();
        let leaders = if leaders.is_empty() { "no host leads".to_owned() } else { leaders.join(", ") };
        let text = format!(
            "this host is a standby, so {name} does not run here ({leaders}); give the command to the host that leads. To disable a plugin on every host, now and after a failover, apply a ControllerPlugin with `disabled: true`"
        );
        Err(Refusal::new(reason::STANDBY, text))
    }

    /// Reports a rejected request.
    fn noted<T>(&self, name: &str, request: &str, result: Result<T, Refusal>) -> Result<T, Refusal> {
        result.inspect_err(|why| {
            let Refusal { reason, message } = why;
            tracing::warn!(plugin = name, by = self.who, request, reason, "refused through the admin API: {message}");
            // The manager records those of new versions.
            if request != "swap" && reason != reason::NOT_FOUND {
                let message = format!("{request} by {}: {reason}: {message}", self.who);
                self.control.plugins.record_event(name, true, "Refused", message);
            }
        })
    }

    fn note_toggle(&self, name: &str, disables: bool) {
        let mut state = self.control.state.lock();
        let held = state.by_name.entry(name.to_owned()).or_default();
        let is_declared = held.declared.as_ref().is_some_and(|declared| declared.is_disabled) == disables;
        let (reason, verb) = if disables { ("Disabled", "disable") } else { ("Enabled", "enable") };
        held.deviations.toggle = self.deviation(name, held, reason, verb).filter(|_| !is_declared);
    }

    fn note_version(&self, name: &str, report: &SwapReport, is_back: bool) {
        let digest = report.to.as_ref().map(|to| &to.digest);
        let origin = report.to.as_ref().map(|to| &to.origin);
        let mut state = self.control.state.lock();
        let held = state.by_name.entry(name.to_owned()).or_default();
        let declared = held.declared.as_ref().and_then(|declared| declared.digest.as_ref());
        let is_of_base = held.claim.is_none() && held.base.as_ref().map(|base| &base.origin) == origin;
        let is_same = is_of_base || (declared.is_some() && declared == digest);
        // A rollback without an earlier swap restores an older declaration of the source, possibly the same component
        // with another spec.
        let is_declared = is_same && (!is_back || held.deviations.version.is_some());
        let (reason, verb) = if is_back { ("RolledBack", "rollback") } else { ("Swapped", "swap") };
        held.deviations.version = self.deviation(name, held, reason, verb).filter(|_| !is_declared);
        drop(state);
        self.control.plugins.mark_changed();
    }

    /// The condition for a change of a plugin with a declaring source.
    fn deviation(&self, name: &str, held: &PluginEntry, reason: &str, verb: &str) -> Option<Condition> {
        let declaration = match (held.claim, &held.base) {
            (Some(PluginSource::Admin), _) | (None, None) => return None,
            (Some(PluginSource::Resource), _) => format!("ControllerPlugin {name} declares"),
            (Some(PluginSource::Folder), _) => format!("the file of {name} in the plugin folder declares"),
            (None, Some(_)) => "the host was started with".to_owned(),
        };
        Some(Condition {
            kind: OVERRIDDEN.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: format!(
                "{} ran `pintle plugin {verb}`, which is not what {declaration}; it lasts until that changes, or the host restarts",
                self.who
            ),
            last_transition_time: now(),
        })
    }
}
