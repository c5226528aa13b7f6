//! From what the metrics ask for to what is done: windows of time, limits of speed, and the autoscaler's own limits.
//!
//! *Source*: `normalizeDesiredReplicas`, `normalizeDesiredReplicasWithBehaviors` and what they call, in upstream's `horizontal.go`; the
//! defaults of rules are those of `pkg/apis/autoscaling/v2/defaults.go`. Sums stay at the end of the range.

use std::time::Duration;

use pintle_sdk::time::Timestamp;

use crate::context::{ABLE, LIMITED};
use crate::memory::{Change, Memory, changed_within};
use crate::types::{Behavior, HorizontalPodAutoscalerSpec as Spec, Policy, Rules, Status};

/// A number of replicas, and the reason and message of its condition.
type Decision = (i32, &'static str, &'static str);

const IN_RANGE: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_FAST_UP: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

const LOWERED: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const RAISED: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);

/// What the decision depends on.
pub(crate) struct Question<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) current: i32,
    /// What the metrics ask for.
    pub(crate) proposed: i32,
    /// Upstream's flag.
    pub(crate) downscale_stabilization: Duration,
    /// Seconds since the host started.
    pub(crate) uptime: f64,
    pub(crate) now: Timestamp,
}

/// The rules of an autoscaler with upstream's defaults; a window of `None` is that of the flag.
pub(crate) fn rules(behavior: &Behavior) -> (Rules, Rules) {
    let policy = |type_: &str, value| Policy { type_: type_.into(), value, period_seconds: 15 };
    let up = behavior.scale_up.clone().unwrap_or_else(|| Rules {
        stabilization_window_seconds: Some(0),
        policies: vec![policy("Pods", 4), policy("Percent", 100)],
        ..Rules::default()
    });
    let down = behavior
        .scale_down
        .clone()
        .unwrap_or_else(|| Rules { policies: vec![policy("Percent", 100)], ..Rules::default() });
    (up, down)
}

impl Rules {
    /// The longest period of the policies, in seconds.
    pub(crate) fn longest_period(&self) -> i32 {
        self.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or(0).max(0)
    }

    fn selects(&self, policy: &str) -> bool {
        self.select_policy.as_deref() == Some(policy)
    }
}

impl Question<'_> {
    /// Decides, sets the conditions `AbleToScale` and `ScalingLimited`, and remembers what was proposed.
    pub(crate) fn decide(&self, memory: &mut Memory, status: &mut Status) -> i32 {
        let Self { proposed, now, .. } = *self;
        let (stable, stabilized, (desired, reason, message)) = match &self.spec.behavior {
            None => {
                let stable = self.highest_recent(memory);
                (stable, RAISED, self.limited(stable))
            }
            Some(behavior) => {
                let (up, down) = rules(behavior);
                let stable = self.stabilized(memory, &up, &down);
                let stabilized = if proposed >= self.current { LOWERED } else { RAISED };
                (stable, stabilized, self.limited_by(stable, memory, &up, &down))
            }
        };
        if stable == proposed {
            status.set(ABLE, true, "ReadyForNewScale", "recommended size matches current size", now);
        } else {
            status.set(ABLE, true, stabilized.0, stabilized.1, now);
        }
        status.set(LIMITED, desired != stable, reason, message, now);
        desired
    }

    /// Without rules: the highest recommendation of the window of the flag.
    fn highest_recent(&self, memory: &mut Memory) -> i32 {
        let cutoff = self.uptime - self.downscale_stabilization.as_secs_f64();
        let recent = memory.recommendations.iter().flatten().filter(|one| one.0 >= cutoff);
        let highest = recent.map(|one| one.1).fold(self.proposed, i32::max);
        memory.recommend(self.uptime, self.proposed, |at| at < cutoff);
        highest
    }

    /// With rules: within what was recommended in the windows of both directions.
    fn stabilized(&self, memory: &mut Memory, up: &Rules, down: &Rules) -> i32 {
        let window = |rules: &Rules| rules.stabilization_window_seconds.map(f64::from);
        // Upstream's default is the flag in whole seconds.
        let default = self.downscale_stabilization.as_secs_f64().trunc();
        let up_cutoff = self.uptime - window(up).unwrap_or(0.0);
        let down_cutoff = self.uptime - window(down).unwrap_or(default);
        let (mut lowest, mut highest) = (self.proposed, self.proposed);
        for one in memory.recommendations.iter().flatten() {
            if one.0 > up_cutoff {
                lowest = lowest.min(one.1);
            }
            if one.0 > down_cutoff {
                highest = highest.max(one.1);
            }
        }
        memory.recommend(self.uptime, self.proposed, |at| at < up_cutoff && at < down_cutoff);
        self.current.max(lowest).min(highest)
    }

    /// Without rules: at most double, and four.
    fn limited(&self, desired: i32) -> Decision {
        let Spec { max_replicas: most, .. } = *self.spec;
        let least = self.spec.min_replicas();
        let fastest = self.current.saturating_mul(2).max(4);
        let (most, why) = if most > fastest { (fastest, TOO_FAST_UP) } else { (most, TOO_MANY) };
        if desired < least {
            (least, TOO_FEW.0, TOO_FEW.1)
        } else if desired > most {
            (most, why.0, why.1)
        } else {
            (desired, IN_RANGE.0, IN_RANGE.1)
        }
    }

    /// With rules: as fast as the policies allow.
    fn limited_by(&self, desired: i32, memory: &Memory, up: &Rules, down: &Rules) -> Decision {
        let history = History { ups: &memory.ups, downs: &memory.downs, now: self.uptime };
        if desired > self.current {
            let fastest = history.most(self.current, up).max(self.current);
            let most = self.spec.max_replicas;
            let (most, why) = if most > fastest { (fastest, TOO_FAST_UP) } else { (most, TOO_MANY) };
            if desired > most {
                return (most, why.0, why.1);
            }
        } else if desired < self.current {
            let fastest = history.least(self.current, down).min(self.current);
            let least = self.spec.min_replicas();
            let (least, why) = if least < fastest { (fastest, TOO_FAST_DOWN) } else { (least, TOO_FEW) };
            if desired < least {
                return (least, why.0, why.1);
            }
        }
        (desired, IN_RANGE.0, IN_RANGE.1)
    }
}

/// What was changed before.
struct History<'a> {
    ups: &'a [Change],
    downs: &'a [Change],
    now: f64,
}

impl History<'_> {
    /// Replicas at the beginning of the policy's period.
    fn start(&self, current: i32, policy: &Policy) -> i64 {
        let changed = |changes| changed_within(changes, policy.period_seconds, self.now);
        i64::from(current) - changed(self.ups) + changed(self.downs)
    }

    /// The most replicas that the rules allow.
    fn most(&self, current: i32, rules: &Rules) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let (start, value) = (self.start(current, policy), i64::from(policy.value));
            match policy.type_.as_str() {
                "Pods" => start + value,
                // Rounded up, or a small target would never grow.
                _ => (start as f64 * (1.0 + value as f64 / 100.0)).ceil() as i64,
            }
        });
        select(proposals, rules, current, i64::max, i64::min)
    }

    /// The fewest replicas that the rules allow.
    fn least(&self, current: i32, rules: &Rules) -> i32 {
        let proposals = rules.policies.iter().map(|policy| {
            let (start, value) = (self.start(current, policy), i64::from(policy.value));
            match policy.type_.as_str() {
                "Pods" => start - value,
                _ => (start as f64 * (1.0 - value as f64 / 100.0)) as i64,
            }
        });
        select(proposals, rules, current, i64::min, i64::max)
    }
}

/// The proposal that changes most, or least; without policies, as far away as numbers go.
fn select(
    proposals: impl Iterator<Item = i64>,
    rules: &Rules,
    current: i32,
    most_change: fn(i64, i64) -> i64,
    least_change: fn(i64, i64) -> i64,
) -> i32 {
    if rules.selects("Disabled") {
        return current;
    }
    let (choose, nothing) = match rules.selects("Min") {
        true => (least_change, most_change(i64::from(i32::MIN), i64::from(i32::MAX))),
        false => (most_change, least_change(i64::from(i32::MIN), i64::from(i32::MAX))),
    };
    let chosen = proposals.fold(nothing, choose);
    i32::try_from(chosen).unwrap_or(if chosen < 0 { i32::MIN } else { i32::MAX })
}
