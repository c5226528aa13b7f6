//! Groups of plugins with one Lease each: several hosts share the groups as evenly as possible.
//!
//! Every host is a candidate for every Lease, and sees the holder of each. There is no other state:
//! 1. A host leaves a free Lease to hosts that lead fewer groups, for a short time ([`Shares::hold_back`]).
//! 2. A host that leads two groups fewer than another one asks for one of them: it writes its identity to the
//!    annotation [`WANTED_BY`] of that Lease ([`Shares::wish`]).
//! 3. A holder that is asked, and still leads two groups more, ends its runs and releases the Lease, which is reserved
//!    for the asking host by the annotation [`RESERVED_FOR`] ([`Shares::gives_to`]).
//!
//! Each of these moves brings two hosts closer to each other, so that they end when no host leads two groups more than
//! another one. Every client that may write the Leases can write the annotations, but whatever they contain, each group
//! has at most one leader.
//!
//! *Not here*: the Lease of one group (the rest of `election`).
//!
//! *Source*: work sharing on request, as in work stealing (Blumofe and Leiserson, 1999); group membership is derived
//! from the Leases instead of an object per host.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Times;

/// Annotation of a Lease: identity of a host that asks for it.
pub const WANTED_BY: &str = "pintle.dev/wanted-by";
/// Annotation of a released Lease: identity of the host that it is reserved for.
pub const RESERVED_FOR: &str = "pintle.dev/reserved-for";

/// Maximum length of a group name, which becomes part of the name of a Lease.
const MAX_GROUP: usize = 63;

/// A group, by its index in [`Groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(usize);

impl GroupId {
    /// The group of all plugins without a named group.
    pub const REST: Self = Self(0);

    /// Its index.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The groups of plugins that are led together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    names: Vec<String>,
    by_plugin: BTreeMap<String, GroupId>,
}

impl Groups {
    /// Creates named groups with their plugins; all other plugins are [`GroupId::REST`]. Without named groups, there is
    /// only the rest.
    ///
    /// # Errors
    /// A sentence if a name is not a DNS label or used twice, a group has no plugins, or a plugin is in two groups.
    pub fn new(named: impl IntoIterator<Item = (String, Vec<String>)>) -> Result<Self, String> {
        let mut groups = Self::default();
        for (name, plugins) in named {
            if !crate::contract::manifest::is_label(&name) || name.len() > MAX_GROUP {
                return Err(format!("{name:?} is not a name of a group: write up to {MAX_GROUP} of a-z, 0-9 and `-`"));
            }
            if groups.names.contains(&name) {
                return Err(format!("the group {name} is given twice; name all of its controllers at once"));
            }
            if plugins.is_empty() {
                return Err(format!("the group {name} has no controllers"));
            }
            groups.names.push(name.clone());
            let id = GroupId(groups.names.len());
            for plugin in plugins {
                if let Some(other) = groups.by_plugin.insert(plugin.clone(), id) {
                    let other = &groups.names[other.0 - 1];
                    return Err(match *other == name {
                        true => format!("the group {name} names {plugin} twice"),
                        false => format!("{plugin} is in the groups {other} and {name}; a controller belongs to one"),
                    });
                }
            }
        }
        Ok(groups)
    }

    /// The group of a plugin.
    pub fn of(&self, plugin: &str) -> GroupId {
        self.by_plugin.get(plugin).copied().unwrap_or(GroupId::REST)
    }

    /// All groups, starting with the rest.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..=self.names.len()).map(GroupId)
    }

    /// Number of groups, including the rest.
    pub fn count(&self) -> usize {
        self.names.len() + 1
    }

    /// Name of the Lease of a group. `rest`: name of the Lease of the rest.
    pub fn lease(&self, id: GroupId, rest: &str) -> String {
        match id.0.checked_sub(1).and_then(|i| self.names.get(i)) {
            Some(name) => format!("{rest}-{name}"),
            None => rest.to_owned(),
        }
    }

    /// The plugins in named groups.
    pub fn plugins(&self) -> impl Iterator<Item = &str> {
        self.by_plugin.keys().map(String::as_str)
    }
}

/// Inputs of a candidate in addition to its Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Time for which a free Lease is left to other hosts.
    pub hold_back: Duration,
    /// Whether to ask the holder for the Lease.
    pub asks: bool,
    /// The host that gets the Lease, if this one holds it.
    pub gives_to: Option<String>,
}

/// The leaders of all groups, as seen by one host.
#[derive(Debug)]
pub struct Shares {
    identity: String,
    groups: Vec<Option<Seen>>,
}

/// The last seen Lease of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// Empty if it is free.
    holder: String,
    wanted_by: Option<String>,
}

impl Shares {
    /// Creates the state without any seen Lease.
    pub fn new(identity: &str, n_groups: usize) -> Self {
        Self { identity: identity.to_owned(), groups: vec![None; n_groups] }
    }

    /// Records a Lease; returns whether it has changed. `holder` is empty if the Lease is free.
    pub fn saw(&mut self, group: GroupId, holder: &str, wanted_by: Option<&str>) -> bool {
        let seen = Some(Seen { holder: holder.to_owned(), wanted_by: wanted_by.map(str::to_owned) });
        match self.groups.get_mut(group.0) {
            Some(before) if *before != seen => {
                *before = seen;
                true
            }
            _ => false,
        }
    }

    /// Number of groups that a host leads.
    fn n_led(&self, host: &str) -> usize {
        self.groups.iter().flatten().filter(|seen| seen.holder == host).count()
    }

    /// Time for which this host leaves a free Lease to others; it grows with the number of groups that the host leads.
    pub fn hold_back(&self, times: &Times) -> Duration {
        let n_led = u32::try_from(self.n_led(&self.identity)).unwrap_or(u32::MAX);
        times.retry_period.saturating_mul(n_led.min(4)) / 2
    }

    /// The group that this host should ask for; `None` while a Lease is free or not read yet, or if no host leads two
    /// groups more.
    pub fn wish(&self) -> Option<GroupId> {
        let seen: Vec<&Seen> = self.groups.iter().flatten().filter(|seen| !seen.holder.is_empty()).collect();
        if seen.len() < self.groups.len() || seen.iter().any(|seen| seen.wanted_by.as_ref() == Some(&self.identity)) {
            return None;
        }
        let hosts: BTreeSet<&str> = seen.iter().map(|seen| seen.holder.as_str()).collect();
        // Of hosts that lead as many groups, the last one, as on every other host.
        let most = hosts.into_iter().max_by_key(|host| self.n_led(host))?;
        if self.n_led(most) < self.n_led(&self.identity) + 2 {
            return None;
        }
        let is_wanted = |seen: &&Seen| seen.holder == most && seen.wanted_by.is_none();
        seen.iter().position(is_wanted).map(GroupId)
    }

    /// Whether this host gives a group to the asking host.
    pub fn gives_to(&self, asker: &str) -> bool {
        asker != self.identity && self.n_led(asker) + 2 <= self.n_led(&self.identity)
    }

    /// The inputs of the candidate for a group's Lease.
    pub fn share(&self, group: GroupId, times: &Times) -> Share {
        let asker = self.groups.get(group.0).and_then(Option::as_ref).and_then(|seen| seen.wanted_by.clone());
        Share {
            hold_back: self.hold_back(times),
            asks: self.wish() == Some(group),
            gives_to: asker.filter(|asker| self.gives_to(asker)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn groups(named: &[(&str, &[&str])]) -> Result<Groups, String> {
        let owned = |plugins: &[&str]| plugins.iter().map(|plugin| (*plugin).to_owned()).collect();
        Groups::new(named.iter().map(|(name, plugins)| ((*name).to_owned(), owned(plugins))))
    }

    #[test]
    fn plugins_that_no_group_names_are_the_rest() {
        let groups = groups(&[("gc", &["z"]), ("work", &["a", "b"])]).unwrap();
        let leases: Vec<String> = groups.ids().map(|id| groups.lease(id, "pintle")).collect();
        assert_eq!(leases, ["pintle", "pintle-gc", "pintle-work"]);
        assert_eq!((groups.of("b").index(), groups.of("c")), (2, GroupId::REST));
        assert_eq!(Groups::default().ids().collect::<Vec<_>>(), [GroupId::REST]);
    }

    #[test]
    fn impossible_groups_are_refused_with_the_reason() {
        for (named, why) in [
            (&[("A", &["x"][..])][..], "\"A\" is not a name of a group"),
            (&[("a", &[])], "the group a has no controllers"),
            (&[("a", &["x"]), ("a", &["y"])], "the group a is given twice"),
            (&[("a", &["x"]), ("b", &["x"])], "x is in the groups a and b"),
            (&[("a", &["x", "x"])], "the group a names x twice"),
        ] {
            let error = groups(named).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    fn shares(me: &str, holders: &[&str]) -> Shares {
        let mut shares = Shares::new(me, holders.len());
        for (i, holder) in holders.iter().enumerate() {
            shares.saw(GroupId(i), holder, None);
        }
        shares
    }

    #[test]
    fn a_host_asks_only_who_leads_two_groups_more() {
        let wish = |me: &str, holders: &[&str]| shares(me, holders).wish().map(GroupId::index);
        assert_eq!(wish("b", &["a", "a"]), Some(0));
        assert_eq!(wish("b", &["a"]), None);
        assert_eq!(wish("b", &["a", "b", "a"]), None);
        assert_eq!(wish("b", &["b", "a", "a", "a"]), Some(1));
        assert_eq!(wish("a", &["a", "a"]), None);
        // A free Lease is taken instead.
        assert_eq!(wish("b", &["a", "a", "a", ""]), None);
        let mut unread = Shares::new("b", 3);
        unread.saw(GroupId(0), "a", None);
        unread.saw(GroupId(1), "a", None);
        assert_eq!(unread.wish(), None);
    }

    #[test]
    fn a_host_asks_for_one_group_at_a_time_and_for_none_that_another_one_has_asked_for() {
        let mut of_b = shares("b", &["a", "a", "a"]);
        assert!(of_b.saw(GroupId(0), "a", Some("c")) && !of_b.saw(GroupId(0), "a", Some("c")));
        assert_eq!(of_b.wish().map(GroupId::index), Some(1));
        of_b.saw(GroupId(1), "a", Some("b"));
        assert_eq!(of_b.wish(), None);
    }

    #[test]
    fn a_holder_gives_only_while_it_leads_two_groups_more() {
        let mut of_a = shares("a", &["a", "a", "a", "b"]);
        of_a.saw(GroupId(1), "a", Some("b"));
        let times = Times::DEFAULT;
        assert_eq!(of_a.share(GroupId(1), &times).gives_to.as_deref(), Some("b"));
        assert_eq!(of_a.share(GroupId(0), &times).gives_to, None);
        of_a.saw(GroupId(0), "b", None);
        assert_eq!(of_a.share(GroupId(1), &times).gives_to, None);
        assert!(!of_a.gives_to("a"), "whatever the annotation says");
    }

    #[test]
    fn who_leads_more_waits_longer_for_a_free_lease_and_never_long() {
        let wait = |holders: &[&str]| shares("a", holders).hold_back(&Times::DEFAULT).as_secs();
        assert_eq!((wait(&["", "b"]), wait(&["a", ""]), wait(&["a", "a", ""]), wait(&["a"; 40])), (0, 1, 2, 4));
    }

    proptest! {
        /// Hosts that see every change immediately ask and give, one at a time, in any order.
        #[test]
        fn asking_and_giving_ends_with_even_shares(
            holders in prop::collection::vec(0..4_usize, 1..12),
            order in prop::collection::vec(0..4_usize, 32),
        ) {
            let names = ["a", "b", "c", "d"];
            let mut holders: Vec<&str> = holders.into_iter().map(|i| names[i]).collect();
            let mut n_moves = 0;
            loop {
                let mut turn = order.iter().map(|i| names[*i]).chain(names);
                let asked = turn.find_map(|asker| Some((asker, shares(asker, &holders).wish()?)));
                let Some((asker, group)) = asked else { break };
                prop_assert!(shares(holders[group.index()], &holders).gives_to(asker));
                holders[group.index()] = asker;
                n_moves += 1;
                prop_assert!(n_moves <= holders.len());
            }
            let counts = names.map(|name| holders.iter().filter(|holder| **holder == name).count());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1, "{counts:?}");
        }
    }
}
