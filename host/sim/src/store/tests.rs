use serde_json::json;

use super::*;
use crate::discovery::Registry;
use crate::faults::FaultScript;

struct Fixture {
    store: Store,
    resource: Arc<Resource>,
    faults: FaultScript,
}

impl Fixture {
    fn new(log_events: usize) -> Self {
        let resource = Registry::builtin().by_plural("v1", "configmaps").cloned().unwrap();
        let store = Store::new(StoreLimits { log_events, history_writes: 100 });
        store.open_table(&resource.storage);
        Self { store, resource, faults: FaultScript::default() }
    }

    fn ctx(&self, verb: WriteVerb) -> WriteContext<'_> {
        WriteContext {
            resource: &self.resource,
            subresource: None,
            verb,
            user_agent: "test",
            faults: &self.faults,
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn create(&self, key: &str) -> Entry {
        let (namespace, name) = key.split_once('/').unwrap();
        let value = json!({"metadata": {"name": name, "namespace": namespace}, "data": {"n": "0"}});
        self.store.create(&self.ctx(WriteVerb::Create), key, value, |_, _| Ok(())).unwrap()
    }

    fn change(&self, key: &str, n: u64) -> Entry {
        let before = self.store.get(&self.resource.storage, key).unwrap();
        let mut value = (*before.value).clone();
        value["data"]["n"] = json!(n.to_string());
        self.store.replace(&self.ctx(WriteVerb::Update), key, before.version.rv, value).unwrap()
    }

    fn remove(&self, key: &str) -> Entry {
        let before = self.store.get(&self.resource.storage, key).unwrap();
        self.store.remove(&self.ctx(WriteVerb::Delete), key, before.version.rv, (*before.value).clone()).unwrap()
    }

    fn list(&self, at: Option<u64>, after: Option<&str>, limit: Option<usize>) -> Result<Listed, ApiError> {
        self.store.list(&self.resource.storage, &ListRange { namespace: None, at, after, limit }, |_| true)
    }

    fn names(&self, at: Option<u64>) -> Vec<String> {
        self.list(at, None, None)
            .unwrap()
            .items
            .iter()
            .map(|item| format!("{}={}", item.key, item.value()["data"]["n"].as_str().unwrap()))
            .collect()
    }
}

#[test]
fn a_list_in_the_past_is_what_a_list_was_then() {
    let fixture = Fixture::new(100);
    fixture.create("a/x");
    let rv = fixture.create("b/y").version.rv;
    fixture.change("a/x", 1);
    fixture.change("a/x", 2);
    fixture.remove("b/y");
    fixture.create("c/z");
    assert_eq!(fixture.names(Some(rv)), ["a/x=0", "b/y=0"]);
    assert_eq!(fixture.names(None), ["a/x=2", "c/z=0"]);
}

#[test]
fn pages_go_on_where_the_last_one_ended_and_count_what_is_left() {
    let fixture = Fixture::new(100);
    for name in ["a/1", "a/2", "a/3"] {
        fixture.create(name);
    }
    let first = fixture.list(None, None, Some(2)).unwrap();
    assert_eq!((first.items.len(), first.next.as_deref(), first.remaining), (2, Some("a/2"), 1));
    fixture.remove("a/3");
    let second = fixture.list(Some(first.rv), first.next.as_deref(), Some(2)).unwrap();
    assert_eq!((second.items.len(), second.next.is_none()), (1, true));
}

#[test]
fn a_log_that_is_too_short_answers_with_gone_and_ends_slow_watches() {
    let fixture = Fixture::new(2);
    let rv = fixture.create("a/x").version.rv;
    let mut slow = fixture.store.watch_from(&fixture.resource.storage, rv).unwrap();
    for n in 1..=3 {
        fixture.change("a/x", n);
    }
    assert!(matches!(fixture.store.read(&mut slow, 10).0, Read::Lagged));
    assert_eq!(fixture.store.watch_from(&fixture.resource.storage, rv).unwrap_err().code, 410);
    assert_eq!(fixture.list(Some(rv), None, None).err().unwrap().code, 410);
    assert!(fixture.store.watch_from(&fixture.resource.storage, rv + 1).is_ok());
}

#[test]
fn a_cursor_reads_each_event_once_and_in_order() {
    let fixture = Fixture::new(100);
    let mut cursor = fixture.store.watch_from(&fixture.resource.storage, fixture.store.rv()).unwrap();
    fixture.create("a/x");
    fixture.change("a/x", 1);
    fixture.remove("a/x");
    let kinds = |cursor: &mut Cursor, limit| match fixture.store.read(cursor, limit) {
        (Read::Events(events), _) => events.iter().map(|event| event.kind).collect::<Vec<_>>(),
        _ => panic!("the log is long enough"),
    };
    assert_eq!(kinds(&mut cursor, 2), [EventType::Added, EventType::Modified]);
    assert_eq!(kinds(&mut cursor, 2), [EventType::Deleted]);
    assert_eq!(kinds(&mut cursor, 2), []);
}

#[test]
fn a_table_that_was_closed_ends_its_watches_even_when_it_opens_again() {
    let fixture = Fixture::new(100);
    let mut cursor = fixture.store.watch_from(&fixture.resource.storage, fixture.store.rv()).unwrap();
    fixture.store.close_table(&fixture.resource.storage);
    fixture.store.open_table(&fixture.resource.storage);
    assert!(matches!(fixture.store.read(&mut cursor, 1).0, Read::Gone));
}

#[test]
fn a_stale_version_does_not_replace() {
    let fixture = Fixture::new(100);
    let first = fixture.create("a/x");
    fixture.change("a/x", 1);
    let result =
        fixture.store.replace(&fixture.ctx(WriteVerb::Update), "a/x", first.version.rv, (*first.value).clone());
    assert!(matches!(result, Err(CommitError::Changed)));
}

#[test]
fn the_history_numbers_every_write_and_a_killed_client_writes_no_more() {
    let fixture = Fixture::new(100);
    let killed = fixture.faults.kill_client_after(2, "test");
    fixture.create("a/x");
    assert!(!*killed.borrow());
    fixture.change("a/x", 1);
    assert!(*killed.borrow());
    let refused = fixture.store.create(&fixture.ctx(WriteVerb::Create), "a/y", json!({"metadata": {}}), |_, _| Ok(()));
    assert!(matches!(refused, Err(CommitError::Api(error)) if error.drop_connection));
    let history: Vec<_> = fixture.store.history().iter().map(|record| (record.n, record.verb, record.effect)).collect();
    assert_eq!(history, [(1, WriteVerb::Create, EventType::Added), (2, WriteVerb::Update, EventType::Modified)]);
}
