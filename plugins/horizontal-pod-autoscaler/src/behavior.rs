//! From the metrics' proposal to the decision: stabilization windows, scaling policies, and the autoscaler's own
//! limits.
//!
//! *Source*: `normalizeDesiredReplicas`, `normalizeDesiredReplicasWithBehaviors` and the functions they call, in
//! upstream's `horizontal.go`; the defaults of rules are those of `pkg/apis/autoscaling/v2/defaults.go`. Sums saturate.

use std::time::Duration;

use pintle_sdk::Lister;
use plugin_lib::number;

use crate::context::{ABLE, Context, LIMITED};
use crate::memory::Change;
use crate::types::{Behavior, Policy, Rules};

/// The reason and message of a condition.
type Why = (&'static str, &'static str);

const IN_RANGE: Why = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FAST_UP: Why = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Why =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: Why = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Why = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

const STABLE: Why = ("ReadyForNewScale", "recommended size matches current size");
const LOWERED: Why = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const RAISED: Why = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

impl Behavior {
    /// The rules for up and down with upstream's defaults; a window of `None` is the one set by the flag.
    #[doc(alias = "GenerateHPAScaleUpRules", alias = "GenerateHPAScaleDownRules")]
    pub(crate) fn rules(&self) -> (Rules, Rules) {
        let policy = |type_: &str, value| Policy { type_: type_.into(), value, period_seconds: 15 };
        let up = || Rules {
            stabilization_window_seconds: Some(0),
            policies: vec![policy("Pods", 4), policy("Percent", 100)],
            ..Rules::default()
        };
        let down = || Rules { policies: vec![policy("Percent", 100)], ..Rules::default() };
        (self.scale_up.clone().unwrap_or_else(up), self.scale_down.clone().unwrap_or_else(down))
    }

    /// The longest period of the policies of a direction, in seconds.
    #[doc(alias = "getLongestPolicyPeriod")]
    pub(crate) fn longest_period(&self, is_up: bool) -> i32 {
        let (up, down) = self.rules();
        let rules = if is_up { up } else { down };
        rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or(0).max(0)
    }
}

impl<L: Lister> Context<'_, L> {
    /// Decides on the proposal of the metrics, sets the conditions `AbleToScale` and `ScalingLimited`, and stores the
    /// recommendation.
    #[doc(alias = "normalizeDesiredReplicas", alias = "normalizeDesiredReplicasWithBehaviors")]
    pub(crate) fn normalize(&mut self, current: i32, proposed: i32) -> i32 {
        let rules = self.hpa.spec.behavior.as_ref().map(Behavior::rules);
        let stable = self.stabilize(current, proposed, rules.as_ref());
        let able = match &rules {
            _ if stable == proposed => STABLE,
            Some(_) if proposed >= current => LOWERED,
            _ => RAISED,
        };
        let (desired, why) = self.limit(current, stable, rules.as_ref());
        self.set(ABLE, true, able.0, able.1);
        self.set(LIMITED, desired != stable, why.0, why.1);
        desired
    }

    /// Without rules, the highest recommendation in the flag's window; with rules, within the recommendations in the
    /// windows of both directions.
    #[doc(alias = "stabilizeRecommendation", alias = "stabilizeRecommendationWithBehaviors")]
    fn stabilize(&mut self, current: i32, proposed: i32, rules: Option<&(Rules, Rules)>) -> i32 {
        let now = self.uptime;
        let default = Duration::from_millis(self.settings.downscale_stabilization).as_secs_f64();
        let recent = self.memory.recommendations.iter().flatten();
        let Some((up, down)) = rules else {
            let cutoff = now - default;
            let highest = recent.filter(|one| one.0 >= cutoff).map(|one| one.1).fold(proposed, i32::max);
            self.memory.recommend(now, proposed, |at| at < cutoff);
            return highest;
        };
        let window = |rules: &Rules| rules.stabilization_window_seconds.map(f64::from);
        // Upstream's default is the flag in whole seconds.
        let cutoffs = [now - window(up).unwrap_or(0.0), now - window(down).unwrap_or(default.trunc())];
        let within = |cutoff| recent.clone().filter(move |one| one.0 > cutoff).map(|one| one.1);
        let lowest = within(cutoffs[0]).fold(proposed, i32::min);
        let highest = within(cutoffs[1]).fold(proposed, i32::max);
        self.memory.recommend(now, proposed, |at| cutoffs.iter().all(|cutoff| at < *cutoff));
        current.max(lowest).min(highest)
    }

    /// Applies the autoscaler's limits. Without rules, at most double, or four if that is more; with rules, as fast as
    /// the policies allow.
    #[doc(alias = "convertDesiredReplicasWithRules", alias = "convertDesiredReplicasWithBehaviorRate")]
    fn limit(&self, current: i32, desired: i32, rules: Option<&(Rules, Rules)>) -> (i32, Why) {
        let (least, most) = ((self.least(), TOO_FEW), (self.hpa.spec.max_replicas, TOO_MANY));
        let at_most = |fastest| if most.0 > fastest { (fastest, TOO_FAST_UP) } else { most };
        let at_least = |fastest| if least.0 < fastest { (fastest, TOO_FAST_DOWN) } else { least };
        let (least, most) = match rules {
            None => (least, at_most(current.saturating_mul(2).max(4))),
            Some((up, _)) if desired > current => {
                ((i32::MIN, TOO_FEW), at_most(self.fastest(current, up, 1).max(current)))
            }
            Some((_, down)) if desired < current => {
                (at_least(self.fastest(current, down, -1).min(current)), (i32::MAX, TOO_MANY))
            }
            Some(_) => return (desired, IN_RANGE),
        };
        match desired {
            _ if desired < least.0 => least,
            _ if desired > most.0 => most,
            _ => (desired, IN_RANGE),
        }
    }

    /// The replicas that the policies allow in a direction: 1 is up, -1 is down. Unlimited without policies.
    #[doc(alias = "calculateScaleUpLimitWithScalingRules", alias = "calculateScaleDownLimitWithBehaviors")]
    fn fastest(&self, current: i32, rules: &Rules, direction: i64) -> i32 {
        let selects = |policy: &str| rules.select_policy.as_deref() == Some(policy);
        if selects("Disabled") {
            return current;
        }
        let allowed = rules.policies.iter().map(|policy| {
            let changed = |changes: &[Change]| self.changed_within(changes, policy.period_seconds);
            let start = i64::from(current) - changed(&self.memory.ups) + changed(&self.memory.downs);
            let by = direction * i64::from(policy.value);
            let share = start as f64 * (1.0 + by as f64 / 100.0);
            match policy.type_.as_str() {
                "Pods" => start + by,
                // Rounded up, or a small target would never grow.
                _ if direction > 0 => share.ceil() as i64,
                _ => share as i64,
            }
        });
        let wants_highest = (direction > 0) != selects("Min");
        number::narrow(match wants_highest {
            true => allowed.fold(i32::MIN.into(), i64::max),
            false => allowed.fold(i32::MAX.into(), i64::min),
        })
    }

    /// The sum of changes within the period.
    #[doc(alias = "getReplicasChangePerPeriod")]
    fn changed_within(&self, changes: &[Change], period: i32) -> i64 {
        let cutoff = self.uptime - f64::from(period);
        changes.iter().filter(|change| change.0 > cutoff).map(|change| i64::from(change.1)).sum()
    }
}
