//! A simulated cluster: successive runs of plugins, each on the results of the previous ones.
//!
//! *Flow*
//!
//! ```text
//! objects ──snapshot──> lister ──reconcile──> outcome ──faults──> writes ──> objects
//! ```
//!
//! *Invariants*
//! 1. The same seed and the same calls give the same cluster: there is no clock and no other source of randomness.
//! 2. A run reads the objects of one instant, and the next run of its key sees its writes.
//!
//! *Not here*: grants, admission, validation and defaults of kinds, garbage collection, and controllers other than the
//! tested plugins: a test simulates them, with [`Cluster::edit`] and [`Cluster::remove`].

mod execution;
mod fault;
mod objects;
mod patch;
mod plugin;
mod run;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::objects::Objects;
use self::run::{Memory, id};
use super::fixture::{Discovery, Fixture, FixtureLister};
use crate::lister::ApiResource;
use crate::outcome::{Event, Preconditions};
use crate::time::Timestamp;
use crate::types::{Key, Kind, ObjectKey};

pub use fault::Fault;
pub use plugin::Plugin;
pub use run::{Run, Write};

/// 2026-01-01T00:00:00Z, as in cases.
const START: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Runs plugins against in-memory objects.
///
/// Writes behave as in the API server: names are generated, resourceVersions and preconditions checked, finalizers
/// delay a deletion, a running Pod gets a grace period. Every kind has the subresource `status`, and
/// CertificateSigningRequests have `approval`.
///
/// The seed determines all random choices: the order of parallel writes, the order and interleaving of runs in a
/// [round](Self::round), the faults of [`Fault::one_in`], and [`random`](Self::random). A test that panics prints it.
///
/// ```
/// use pintle_sdk::testing::{Cluster, Fault, Plugin};
/// use pintle_sdk::{Error, Key, Lister, Mutation, Outcome, Resource, Step};
/// use serde_json::json;
///
/// pintle_sdk::types!("v1/Namespace": [], "v1/ServiceAccount": []);
///
/// fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
///     if lister.get::<ServiceAccount>(&key.name, "robot")?.is_some() {
///         return Ok(Outcome::new());
///     }
///     let robot = Mutation::create(&ServiceAccount::KIND, &key.name, json!({"metadata": {"name": "robot"}}));
///     Ok(Outcome::new().step(Step::sequential([robot])))
/// }
///
/// const MANIFEST: &str = "
/// name: robots
/// watches: [{kind: v1/Namespace}, {kind: v1/ServiceAccount}]
/// queues: [{name: robots}]
/// ";
///
/// let plugin = Plugin::new(MANIFEST, reconcile);
/// let key = plugin.key(&Namespace::KIND, "", "team");
/// for seed in pintle_sdk::testing::seeds(0..3) {
///     let mut cluster = Cluster::new(seed);
///     cluster.insert(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}));
///     cluster.inject(Fault::reject(500, "InternalError", "not now").times(1));
///     cluster.settle(&[(&plugin, &key)], |_| false);
///     assert!(cluster.get(&ServiceAccount::KIND, "team", "robot").is_some());
///     assert_eq!(cluster.writes().len(), 2, "one is rejected, one succeeds");
/// }
/// ```
#[derive(Debug)]
pub struct Cluster {
    seed: u64,
    chance: u64,
    objects: Objects,
    resources: Vec<ApiResource>,
    /// Plugin -> name -> value.
    state: HashMap<String, BTreeMap<String, String>>,
    /// State of the host by plugin and key, as text.
    memory: HashMap<String, Memory>,
    faults: Vec<Fault>,
    events: Vec<Event>,
    writes: Vec<Write>,
    /// Uptime of the host, which restarts after a crash.
    uptime: Duration,
}

/// The seeds of a test: those of the range, or the one in the environment variable `PINTLE_SEED`.
///
/// # Panics
/// If the variable is not a number.
pub fn seeds(range: Range<u64>) -> impl Iterator<Item = u64> {
    let one = std::env::var("PINTLE_SEED").ok();
    let one = one.map(|text| text.parse().unwrap_or_else(|_| panic!("PINTLE_SEED is not a number: {text:?}")));
    one.map_or(range, |seed: u64| seed..seed + 1)
}

impl Cluster {
    /// An empty cluster at 2026-01-01T00:00:00Z.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            chance: seed,
            uptime: Duration::ZERO,
            objects: Objects::new(START),
            resources: Vec::new(),
            state: HashMap::new(),
            memory: HashMap::new(),
            faults: Vec::new(),
            events: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// Starts at another time.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        self.objects.now = now;
        self
    }

    /// The resources of discovery, for plugins with `discovery: true`.
    #[must_use]
    pub fn resources(mut self, resources: Vec<ApiResource>) -> Self {
        self.resources = resources;
        self
    }

    /// Defaults that each new object of a kind gets, as from the API server or from admission.
    #[must_use]
    pub fn defaults(mut self, kind: &Kind, defaults: Value) -> Self {
        self.objects.defaults.push((kind.clone(), defaults));
        self
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.objects.now
    }

    /// Advances the time. It does not pass otherwise.
    pub fn advance(&mut self, by: Duration) {
        self.objects.now = self.objects.now.plus(by);
        self.uptime += by;
    }

    /// A number below `below`, by the seed; 0 if that is 0.
    ///
    /// *Source*: splitmix64.
    pub fn random(&mut self, below: u64) -> u64 {
        random(&mut self.chance, below)
    }

    /// An object.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(kind, &ObjectKey::new(namespace, name))
    }

    /// All objects of a kind, by namespace and name.
    pub fn list<'a>(&'a self, kind: &Kind) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.objects.of_kind(kind).map(|object| &object.value)
    }

    /// Adds an object as another client would, status included; sets uid, generation and creation time unless the
    /// object has them.
    ///
    /// # Panics
    /// If it has no `apiVersion`, `kind` or `metadata.name`, or exists already.
    pub fn insert(&mut self, object: Value) {
        let inserted = self.objects.insert(object);
        inserted.unwrap_or_else(|rejection| panic!("insert: {}", rejection.message));
    }

    /// Changes an object as its user, another controller or a kubelet would, status included.
    ///
    /// # Panics
    /// If it does not exist, or the change is not allowed.
    pub fn edit(&mut self, kind: &Kind, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let edited = self.objects.edit(kind, &ObjectKey::new(namespace, name), change);
        drop(edited.unwrap_or_else(|rejection| panic!("edit: {}", rejection.message)));
    }

    /// Deletes an object as its user would: finalizers delay it, and a running Pod gets its grace period.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn delete(&mut self, kind: &Kind, namespace: &str, name: &str) {
        let key = ObjectKey::new(namespace, name);
        let deleted = self.objects.delete(kind, &key, &Preconditions::default(), None, None);
        deleted.unwrap_or_else(|rejection| panic!("delete: {}", rejection.message));
    }

    /// Removes an object immediately, as a kubelet does with a Pod that has shut down.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn remove(&mut self, kind: &Kind, namespace: &str, name: &str) {
        assert!(
            self.objects.remove(kind, &ObjectKey::new(namespace, name)),
            "remove: {kind} {namespace}/{name} not found"
        );
    }

    /// A number that increases with every change of an object.
    pub fn version(&self) -> u64 {
        self.objects.version
    }

    /// Adds a fault. If several apply to one write, the first is used.
    pub fn inject(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Removes all faults.
    pub fn clear_faults(&mut self) {
        self.faults.clear();
    }

    /// Faults that are not used up.
    pub fn n_faults(&self) -> usize {
        self.faults.iter().filter(|fault| !fault.is_used_up()).count()
    }

    /// Events of plugins so far, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Writes of plugins so far, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// A plugin's state, by name.
    pub fn state(&self, plugin: &Plugin<'_>) -> BTreeMap<String, String> {
        self.state.get(&plugin.manifest.name).cloned().unwrap_or_default()
    }

    /// The view of a run of this key now.
    pub fn fixture(&self, plugin: &Plugin<'_>, key: &Key) -> Fixture {
        let memory = self.memory.get(&id(plugin, key));
        let objects = self.objects.snapshot();
        Fixture {
            key: key.clone(),
            lister: FixtureLister {
                manifest: Arc::clone(&plugin.manifest),
                now: self.now().to_string(),
                uptime: self.uptime,
                live: objects.clone(),
                objects,
                config: Value::Object(plugin.config.clone()),
                state: self.state(plugin),
                attempt: memory.map_or(0, |memory| memory.attempt),
                failures: memory.map(|memory| memory.failures.clone()).unwrap_or_default(),
                resources: self.resources.clone(),
                raw: BTreeMap::new(),
                subresources: Vec::new(),
                reviews: Vec::new(),
                signatures: Vec::new(),
                calls: Vec::new(),
                discovery: Discovery::default(),
                asked: RefCell::default(),
                answers: RefCell::default(),
                indexes: RefCell::default(),
            },
        }
    }
}

impl Drop for Cluster {
    /// Prints the seed of a failed test.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the cluster's seed was {}: PINTLE_SEED={} replays it where a test uses `seeds`",
                self.seed, self.seed
            );
        }
    }
}

fn random(chance: &mut u64, below: u64) -> u64 {
    *chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *chance;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).checked_rem(below).unwrap_or(0)
}
