//! How long a Pod may stay on its Node.

use std::time::Duration;

use plugin_lib::nodes::{Taint, Toleration};

/// How long a Pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Not at all: a taint is not tolerated.
    No,
    /// For some time, which may be zero.
    For(Duration),
    /// Without end.
    Forever,
}

impl Stay {
    /// Decides by the `NoExecute` taints of a Node: the shortest time of the tolerations that apply, which are the first
    /// ones that tolerate each taint. `comparisons` is the feature gate; see [`Toleration::tolerates`].
    #[doc(alias = "getNoExecuteTaints")]
    #[doc(alias = "GetMatchingTolerations")]
    #[doc(alias = "getMinTolerationTime")]
    pub(crate) fn of(taints: &[Taint], tolerations: &[Toleration], comparisons: bool) -> Self {
        let mut shortest: Option<i64> = None;
        for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
            match tolerations.iter().find(|toleration| toleration.tolerates(taint, comparisons)) {
                None => return Self::No,
                Some(used) => shortest = shortest.into_iter().chain(used.toleration_seconds).min(),
            }
        }
        // A negative time is none.
        shortest.map_or(Self::Forever, |seconds| Self::For(Duration::from_secs(seconds.max(0).unsigned_abs())))
    }
}
