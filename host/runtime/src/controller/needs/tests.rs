use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use pintle_cache::CachesConfig;
use pintle_core::object::id::ObjectKey;
use pintle_core::policy::grants::Grants;
use pintle_core::ports::api::{ApiError, ApiErrorClass, ListPage};
use pintle_core::ports::outside::Nothing;
use pintle_testing::{FakeServer, FakeView, cached, key, manifest, pod};
use serde_json::json;

use super::*;

/// Inputs of reads in addition to a server and a manifest.
pub(super) struct Beside {
    /// The server for discovery.
    discovered: Arc<FakeServer>,
    caches: Arc<Caches>,
    stopped: CancellationToken,
    pages: Semaphore,
}

impl Beside {
    pub(super) async fn new() -> Self {
        let discovered = FakeServer::new();
        let kinds = ["Pod", "Secret", "ConfigMap", "Node"].map(|name| Kind::new("", "v1", name));
        discovered.state().resources = kinds.iter().map(|kind| (*pintle_testing::resource(kind)).clone()).collect();
        let caches = Caches::new(discovered.clone(), CachesConfig::default());
        caches.discovered().await;
        Self { discovered, caches, stopped: CancellationToken::new(), pages: Semaphore::new(MAX_PAGES) }
    }

    /// Without traces, endpoints and a fence.
    pub(super) fn source<'a>(&'a self, reader: &'a FakeServer, manifest: &'a Manifest) -> Source<'a> {
        Source {
            reader,
            caches: &self.caches,
            stopped: &self.stopped,
            repeated: &|| (),
            manifest,
            trace: None,
            outside: &Nothing,
            fence: None,
            pages: &self.pages,
            max_answer_bytes: 8 << 20,
        }
    }
}

/// Performs needs; returns the number of denied ones.
pub(super) async fn perform(
    needs: Vec<Need>,
    answered: &mut Answered,
    source: &Source<'_>,
    rights: &Rights<'_>,
) -> Result<usize, Crowded> {
    let asked = ask(needs, answered, source, rights)?;
    let n_denied = asked.n_denied;
    super::perform(asked, answered, source).await;
    Ok(n_denied)
}

/// The answers to reads of these paths, which are granted except `/denied`.
async fn read_paths(paths: &[&str], answered: &mut Answered, server: &FakeServer) -> Result<Vec<String>, Crowded> {
    let manifest = manifest(|m| m["grants"] = json!([{"verbs": ["get"], "kinds": [], "paths": ["/a*"]}]));
    let grants = Grants::new(&manifest.grants, None);
    let view = FakeView::showing(Vec::new());
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let beside = Beside::new().await;
    let source = Source { max_answer_bytes: 700 << 10, ..beside.source(server, &manifest) };
    let needs = paths.iter().map(|path| Need::RawPath((*path).to_owned())).collect();
    perform(needs, answered, &source, &rights).await?;
    let text = |answer: &Result<Arc<str>, NeedError>| match answer {
        Ok(text) => text.to_string(),
        Err(error) => error.reason.clone(),
    };
    Ok(answered.answers.iter().map(|(_, answer)| text(answer)).collect())
}

#[tokio::test(start_paused = true)]
async fn a_read_without_an_answer_ends() {
    let server = FakeServer::new();
    let account = Account::new(1 << 20);
    assert_eq!(read_paths(&["/a"], &mut Answered::new(&account), &server).await, Ok(vec!["/a".into()]));
    server.state().stuck = true;
    let started = tokio::time::Instant::now();
    assert_eq!(read_paths(&["/a"], &mut Answered::new(&account), &server).await, Ok(vec!["Timeout".into()]));
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn discovery_takes_its_two_turns_in_the_rate_limit() {
    let manifest = manifest(|m| m["discovery"] = true.into());
    let grants = Grants::new(&manifest.grants, None);
    let (view, server) = (FakeView::showing(Vec::new()), FakeServer::new());
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let beside = Beside::new().await;
    let source = beside.source(&server, &manifest);
    let mut answered = Answered::new(&Account::new(1 << 20));
    beside.discovered.state().failed_groups = vec!["example.com/v1".to_owned()];
    perform(vec![Need::Discovery], &mut answered, &source, &rights).await.unwrap();
    assert_eq!(server.requests(), ["turn", "turn"]);
    assert_eq!(answered.answers[0].1.as_deref(), Ok(r#"["example.com/v1"]"#), "the answer of a new discovery");
}

#[tokio::test(start_paused = true)]
async fn answers_denials_and_needs_of_all_runs_share_one_account() {
    let server = FakeServer::new();
    let account = Account::new(1 << 20);
    let long = |name: &str, n_bytes: usize| format!("/{name}{}", "x".repeat(n_bytes));
    // An answer repeats the path, so that each byte of a path costs three.
    let (fits, too_long) = (long("a", 200 << 10), long("a", 400 << 10));
    let mut first = Answered::new(&account);
    assert_eq!(read_paths(&[&fits], &mut first, &server).await, Ok(vec![fits.clone()]));
    let before = account.n_bytes();
    assert!((600 << 10..602 << 10).contains(&before), "{before}");
    // Larger than the maximum answer: it is not read.
    let mut of_long = Answered::new(&Account::new(4 << 20));
    assert_eq!(read_paths(&[&long("a", 700 << 10)], &mut of_long, &server).await, Ok(vec!["TooLarge".into()]));
    // The need fits, the answer does not.
    let mut second = Answered::new(&account);
    assert_eq!(read_paths(&[&fits], &mut second, &server).await, Ok(vec!["TooLarge".into()]));
    drop(second);
    assert_eq!(account.n_bytes(), before);
    // Not even the need fits, granted or not.
    for path in [&too_long, &long("denied", 400 << 10)] {
        let error = read_paths(&[path], &mut Answered::new(&account), &server).await.unwrap_err();
        assert!(error.to_string().starts_with("the runs of the plugin hold 1048576 bytes already"), "{error}");
    }
    drop(first);
    // A denial does not contain the denied path.
    let mut denied = Answered::new(&account);
    assert_eq!(read_paths(&[&long("denied", 400 << 10)], &mut denied, &server).await, Ok(vec!["NotGranted".into()]));
    assert!((800 << 10..802 << 10).contains(&account.n_bytes()), "{}", account.n_bytes());
    drop(denied);
    assert_eq!(account.n_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn each_answer_and_all_answers_of_a_run_are_bounded() {
    let n_lists = AtomicUsize::new(0);
    // The length of an object is in its name; a page has one item of five mebibytes.
    let page = move |_: &ListWatchTarget, _, _: Option<&str>| {
        n_lists.fetch_add(1, Ordering::Relaxed);
        let item = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(5 << 20));
        assert!(n_lists.load(Ordering::Relaxed) <= 2, "no page is read that no answer has room for");
        Ok(ListPage { items: vec![item.into()], resource_version: String::new(), next: Some("more".into()) })
    };
    let server = FakeServer::answering(page, |_, object| Ok("x".repeat(object.name.parse().unwrap()).into()));
    let manifest = manifest(|m| m["grants"] = json!([{"verbs": ["get", "list"], "kinds": ["*"]}]));
    let grants = Grants::new(&manifest.grants, None);
    let view = FakeView::showing(Vec::new());
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let beside = Beside::new().await;
    let source = beside.source(&server, &manifest);
    let kind: Kind = "v1/Secret".parse().unwrap();
    let of = |n_bytes: usize| Need::live_object(kind.clone(), ObjectKey::new("one", &n_bytes.to_string()));
    let list = Need::live_list(kind.clone(), "one", 10);
    let read = async |needs: Vec<Need>| {
        let mut answered = Answered::new(&Account::new(u64::MAX));
        perform(needs, &mut answered, &source, &rights).await.unwrap();
        let result = |answer: Result<Arc<str>, NeedError>| {
            answer.map_or_else(|error| error.message, |text| text.len().to_string())
        };
        answered.answers.into_iter().map(|(_, answer)| result(answer)).collect::<Vec<_>>()
    };
    const MOST: usize = 8 << 20;
    let too_long = |limit: usize| format!("the answer has more than {limit} bytes");
    assert_eq!(read(vec![of(MOST), of(MOST + 1), list]).await, [MOST.to_string(), too_long(MOST), too_long(MOST)]);
    let all = (0..8).map(|i| of(MOST - i)).chain([of(28), of(1)]).collect();
    let lengths = (0..8).map(|i| (MOST - i).to_string()).chain(["28".into(), too_long(0)]);
    assert_eq!(read(all).await, lengths.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn pages_of_lists_are_counted_and_few_at_once() {
    let account = Account::new(1 << 20);
    let (counted, seen) = (account.clone(), Arc::new(parking_lot::Mutex::new(Vec::new())));
    let log = seen.clone();
    let page = move |_: &ListWatchTarget, _, page: Option<&str>| {
        log.lock().push(counted.n_bytes() >> 10);
        let item = format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(300 << 10));
        let next = page.map_or(Some("b"), |page| (page == "b").then_some("c"));
        Ok(ListPage { items: vec![item.into()], resource_version: String::new(), next: next.map(str::to_owned) })
    };
    let server = FakeServer::answering(page, |_, _| unreachable!());
    let manifest = manifest(|m| {
        m["grants"] = json!([{"verbs": ["list"], "kinds": ["*"]}, {"verbs": ["get"], "kinds": [], "paths": ["/a*"]}]);
    });
    let grants = Grants::new(&manifest.grants, None);
    let view = FakeView::showing(Vec::new());
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let beside = Beside::new().await;
    let pages = Semaphore::new(MAX_PAGES);
    let source = Source { pages: &pages, ..beside.source(&server, &manifest) };
    let list_need = || Need::live_list("v1/Secret".parse().unwrap(), "one", 10);
    let list = async |account: &Arc<Account>| {
        let mut answered = Answered::new(account);
        perform(vec![list_need()], &mut answered, &source, &rights).await.unwrap();
        let (_, answer) = answered.answers.pop().unwrap();
        answer.map_or_else(|error| error.reason, |text| (text.len() >> 10).to_string())
    };
    assert_eq!(list(&account).await, "900");
    assert_eq!((std::mem::take(&mut *seen.lock()), account.n_bytes()), (vec![0, 300, 600], 0));
    // Bytes that other runs hold count.
    let mut others = account.open();
    assert!(others.grow(300 << 10));
    assert_eq!(list(&account).await, "TooLarge");
    assert_eq!(std::mem::take(&mut *seen.lock()), [300, 600, 900]);
    drop(others);
    // Other runs have all turns. An answer that waits for an earlier one counts.
    let turns = pages.acquire_many(u32::try_from(MAX_PAGES).unwrap()).await.unwrap();
    let needs = vec![list_need(), Need::RawPath(format!("/a{}", "x".repeat(100 << 10)))];
    let mut answered = Answered::new(&account);
    let ((), n_held) = tokio::join!(async { _ = perform(needs, &mut answered, &source, &rights).await }, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        account.n_bytes() >> 10
    },);
    assert_eq!((n_held, answered.answers.len()), (300, 2), "twice the need and its answer");
    drop(answered);
    assert_eq!(account.n_bytes(), 0);
    assert_eq!(list(&Account::new(1 << 30)).await, "Timeout");
    assert!(seen.lock().is_empty());
    drop(turns);
    assert_eq!(list(&Account::new(1 << 30)).await, "900");
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_pages_expire_is_asked_for_once_more_as_a_whole() {
    for expires_again in [false, true] {
        let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let log = seen.clone();
        let page = move |_: &ListWatchTarget, limit: u32, page: Option<&str>| {
            let mut seen = log.lock();
            seen.push((limit, page.map(str::to_owned)));
            let item = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).into();
            let paged = |items, next: Option<&str>| {
                Ok(ListPage { items, resource_version: String::new(), next: next.map(str::to_owned) })
            };
            match page {
                None if seen.len() == 1 || expires_again => paged(vec![item("a"), item("b")], Some("b")),
                None => paged(vec![item("c"), item("d")], None),
                Some(_) => Err(ApiError { class: ApiErrorClass::Gone, code: 410, ..ApiError::transport("too old") }),
            }
        };
        let server = FakeServer::answering(page, |_, _| unreachable!());
        let manifest = manifest(|m| m["grants"] = json!([{"verbs": ["list"], "kinds": ["*"]}]));
        let grants = Grants::new(&manifest.grants, None);
        let view = FakeView::showing(Vec::new());
        let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
        let beside = Beside::new().await;
        let source = beside.source(&server, &manifest);
        let mut answered = Answered::new(&Account::new(1 << 20));
        let need = Need::live_list("v1/Secret".parse().unwrap(), "one", 1_000);
        perform(vec![need], &mut answered, &source, &rights).await.unwrap();
        let (_, answer) = answered.answers.pop().unwrap();
        let mut asked = vec![(500, None), (500, Some("b".to_owned())), (1_000, None)];
        match answer {
            Ok(text) if !expires_again => {
                let objects: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
                let names: Vec<&serde_json::Value> = objects.iter().map(|object| &object["metadata"]["name"]).collect();
                assert_eq!(names, ["c", "d"]);
            }
            answer => {
                assert_eq!(answer.unwrap_err().code, 410);
                asked.push((998, Some("b".to_owned())));
            }
        }
        assert_eq!(*seen.lock(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_have_as_much_as_was_asked_for() {
    let manifest = manifest(|m| {
        m["contract"] = "0.2".into();
        m["watches"] = json!([{"kind": "v1/Secret", "fields": ["data"], "enqueue": [{"to": "self"}]}]);
        m["grants"] = json!([
            {"verbs": ["list"], "kinds": ["v1/Secret"]},
            {"verbs": ["get"], "kinds": ["v1/Pod"], "subresources": ["scale"]},
            {"verbs": ["create"], "kinds": ["v1/Node"]},
        ]);
    });
    let page = |target: &ListWatchTarget, _: u32, _: Option<&str>| {
        let meta = r#"{"name":"s","uid":"u","resourceVersion":"7","managedFields":[{}]}"#;
        assert_eq!(target.field_selector.as_deref(), Some("type=b"));
        let item = match target.detail {
            Detail::Metadata => format!(r#"{{"metadata":{meta}}}"#),
            Detail::Full => format!(r#"{{"metadata":{meta},"data":{{"a":"x"}},"type":"b"}}"#),
        };
        Ok(ListPage { items: vec![item.into()], resource_version: String::new(), next: None })
    };
    let server = FakeServer::answering(page, |_, _| unreachable!());
    let grants = Grants::new(&manifest.grants, None);
    let view = FakeView::showing(Vec::new());
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let beside = Beside::new().await;
    let source = beside.source(&server, &manifest);
    let kind = |name: &str| Kind::new("", "v1", name);
    let list = |detail| Need::LiveList {
        kind: kind("Secret"),
        namespace: "ns".into(),
        label_selector: None,
        field_selector: Some("type=b".into()),
        detail,
        limit: 10,
    };
    let sub = |subresource: &str| Need::LiveObject {
        kind: kind("Pod"),
        object: ObjectKey::new("ns", "p"),
        subresource: Some(subresource.into()),
    };
    let review = |name: &str, namespace: &str, object: &str| Need::Review {
        kind: kind(name),
        namespace: namespace.into(),
        object: object.into(),
    };
    let needs = vec![
        list(LiveDetail::Metadata),
        list(LiveDetail::Projection),
        list(LiveDetail::Whole),
        sub("scale"),
        sub("log"),
        Need::live_object(kind("Pod"), ObjectKey::new("ns", "p")),
        review("Node", "", r#"{"kind":"Pod","spec":{"user":"ann"}}"#),
        review("Node", "ns", "{}"),
        review("Node", "", "no object"),
        review("Secret", "ns", "{}"),
    ];
    let mut answered = Answered::new(&Account::new(1 << 20));
    assert_eq!(perform(needs, &mut answered, &source, &rights).await, Ok(3));
    let lines = answered.answers.iter().map(|(_, answer)| match answer {
        Ok(text) => format!("{text}\n"),
        Err(error) => format!("{}: {}\n", error.reason, error.message.split("; ").next().unwrap_or_default()),
    });
    expect![[r#"
        [{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","uid":"u","resourceVersion":"7"}}]
        [{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","uid":"u","resourceVersion":"7"},"data":{"a":"x"}}]
        [{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","uid":"u","resourceVersion":"7"},"data":{"a":"x"},"type":"b"}]
        {"subresource":"scale","of":"pods ns/p"}
        NotGranted: get v1/Pod (log) ns/p is not granted to plugin widgets: its manifest does not ask for it
        NotGranted: get v1/Pod ns/p is not granted to plugin widgets: its manifest does not ask for it
        {"apiVersion":"v1","kind":"Node","spec":{"user":"ann"},"status":{"allowed":true}}
        BadRequest: v1/Node is cluster-scoped, the namespace is "ns"
        Malformed: expected ident at line 1 column 2
        NotGranted: create v1/Secret ns/ is not granted to plugin widgets: its manifest does not ask for it
    "#]].assert_eq(&lines.collect::<String>());
    assert_eq!(server.requests(), ["review nodes \"\""]);
}

#[tokio::test(start_paused = true)]
async fn only_granted_reads_are_performed() {
    let manifest = manifest(|m| {
        m["grants"] = json!([
            {"verbs": ["get"], "kinds": ["v1/Pod"], "of": "controlled"},
            {"verbs": ["get"], "kinds": ["v1/ConfigMap"], "of": "key"},
            {"verbs": ["get", "list"], "kinds": ["*"], "namespaces": ["one"]},
        ]);
    });
    let shown = [("a", None), ("mine", Some("a")), ("orphan", None), ("theirs", Some("b"))];
    let view = FakeView::showing(shown.map(|(name, owner)| (pod(), cached(name, owner))).into());
    let grants = Grants::new(&manifest.grants, None);
    let rights = Rights { grants: &grants, manifest: &manifest, key: &key("a"), view: &view };
    let get = |kind: &str, namespace: &str, name: &str| {
        Need::live_object(kind.parse().unwrap(), ObjectKey::new(namespace, name))
    };
    let list = |kind: &str, namespace: &str| Need::live_list(kind.parse().unwrap(), namespace, 1);
    let needs = vec![
        get("v1/Pod", "ns", "mine"),
        get("v1/Pod", "ns", "orphan"),
        get("v1/Pod", "ns", "theirs"),
        get("v1/Pod", "ns", "unseen"),
        get("v1/ConfigMap", "ns", "a"),
        get("v1/Secret", "one", "s"),
        list("v1/Secret", "one"),
        list("v1/Secret", ""),
        // The namespace is granted, but Nodes are cluster-scoped: their path contains no namespace.
        get("v1/Node", "one", "n"),
        list("v1/Node", "one"),
        // No object can have such a name, even if another object contains it.
        get("v1/Secret", "one", "../../nodes/n"),
        get("v1/Secret", "one", ""),
        get("v1/Unknown", "one", "n"),
        list("v1/Secret", "one/../two"),
    ];
    let mut answered = Answered::new(&Account::new(1 << 20));
    let (reader, beside) = (FakeServer::answering_needs(), Beside::new().await);
    let source = beside.source(&reader, &manifest);
    assert_eq!(perform(needs, &mut answered, &source, &rights).await, Ok(6));
    let lines: Vec<String> = answered
        .answers
        .into_iter()
        .map(|(need, answer)| {
            let need = match need {
                Need::LiveObject { kind, object, .. } => format!("get {kind} {object}"),
                Need::LiveList { kind, namespace, .. } => format!("list {kind} {namespace:?}"),
                other => format!("{other:?}"),
            };
            let answer: Arc<str> = answer.unwrap_or_else(|error| {
                // Another test covers the hint.
                let message = error.message.split("; ").next().unwrap_or_default().to_owned();
                format!("{}: {message}", error.reason).into()
            });
            format!("{need} -> {answer}\n")
        })
        .collect();
    expect![[r#"
        get v1/Pod ns/mine -> {"live":"mine"}
        get v1/Pod ns/orphan -> NotGranted: get v1/Pod ns/orphan is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches show ns/orphan controlled by nothing, not by v1/Pod a
        get v1/Pod ns/theirs -> NotGranted: get v1/Pod ns/theirs is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches show ns/theirs controlled by v1/Pod b, not by v1/Pod a
        get v1/Pod ns/unseen -> NotGranted: get v1/Pod ns/unseen is not granted to plugin widgets, whose manifest asks for objects of the key only: the caches of the plugin do not show v1/Pod ns/unseen
        get v1/ConfigMap ns/a -> NotGranted: get v1/ConfigMap ns/a is not granted to plugin widgets, whose manifest asks for objects of the key only: the key is v1/Pod ns/a
        get v1/Secret one/s -> {"live":"s"}
        list v1/Secret "one" -> [{"apiVersion":"v1","kind":"Secret","metadata":{"name":"secrets0"}}]
        list v1/Secret "" -> NotGranted: list v1/Secret is not granted to plugin widgets: its manifest does not ask for it
        get v1/Node one/n -> BadRequest: v1/Node is cluster-scoped, the namespace is "one"
        list v1/Node "one" -> BadRequest: v1/Node is cluster-scoped, the namespace is "one"
        get v1/Secret one/../../nodes/n -> NotFound: no object can have the name "one/../../nodes/n"
        get v1/Secret one/ -> NotFound: no object can have the name "one/"
        get v1/Unknown one/n -> NotFound: the API server has no kind v1/Unknown
        list v1/Secret "one/../two" -> NotGranted: list v1/Secret one/../two/ is not granted to plugin widgets: its manifest does not ask for it
    "#]].assert_eq(&lines.concat());
}
