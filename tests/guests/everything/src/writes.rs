//! Every mutation, order and patch type.

use crate::bindings::pintle::controller::types::{
    Action, Apply, Create, Delete, DeleteCollection, Event, EventType, Mutation, Order, Outcome, Patch, PatchType,
    Preconditions, Propagation, Refusal, Step, Update,
};
use crate::{object, outcome, pod};

fn event(event_type: EventType, message: &str) -> Event {
    Event {
        regarding_kind: pod(),
        regarding: object("a", "p"),
        regarding_uid: "uid-1".into(),
        event_type,
        reason: "Tried".into(),
        message: message.into(),
    }
}

fn plain(action: Action) -> Mutation {
    Mutation { action, on_success: None, on_failure: None, tolerate: vec![] }
}

fn patch(patch_type: PatchType) -> Mutation {
    plain(Action::Patch(Patch {
        kind: pod(),
        object: object("a", "p"),
        subresource: Some("status".into()),
        patch_type,
        body: "{}".into(),
        preconditions: Preconditions { uid: Some("uid-1".into()), resource_version: Some("7".into()) },
    }))
}

fn delete(propagation: Option<Propagation>) -> Mutation {
    plain(Action::Delete(Delete {
        kind: pod(),
        object: object("a", "p"),
        preconditions: Preconditions { uid: None, resource_version: None },
        propagation,
        grace_period_seconds: Some(0),
    }))
}

pub(crate) fn all() -> Outcome {
    let create = Mutation {
        action: Action::Create(Create {
            kind: pod(),
            namespace: "a".into(),
            object: r#"{"metadata":{"generateName":"p-"}}"#.into(),
            subresource: None,
        }),
        on_success: Some(event(EventType::Normal, "made {name}")),
        on_failure: Some(event(EventType::Warning, "{name}: {error}")),
        tolerate: vec![
            Refusal::NotFound,
            Refusal::AlreadyExists,
            Refusal::Conflict,
            Refusal::Invalid,
            Refusal::Forbidden,
            Refusal::NamespaceTerminating,
        ],
    };
    let evict = Action::Create(Create {
        kind: pod(),
        namespace: "a".into(),
        object: r#"{"metadata":{"name":"p"}}"#.into(),
        subresource: Some("eviction".into()),
    });
    let update = Action::Update(Update { kind: pod(), object: "{}".into(), subresource: Some("status".into()) });
    let apply = PatchType::Apply(Apply { field_manager: "everything".into(), force: true });
    let collection = Action::DeleteCollection(DeleteCollection {
        kind: pod(),
        namespace: "a".into(),
        label_selector: Some("x=y".into()),
        propagation: Some(Propagation::Background),
    });
    let steps = vec![
        Step { order: Order::SlowStart, mutations: vec![create], always: false },
        Step { order: Order::Parallel, mutations: vec![plain(evict), plain(update)], always: false },
        Step {
            order: Order::Sequential,
            mutations: vec![
                patch(PatchType::Json),
                patch(PatchType::Merge),
                patch(PatchType::StrategicMerge),
                patch(apply),
                delete(None),
                delete(Some(Propagation::Background)),
                delete(Some(Propagation::Foreground)),
                delete(Some(Propagation::Orphan)),
                plain(collection),
                plain(Action::Event(event(EventType::Normal, "done"))),
            ],
            always: true,
        },
    ];
    Outcome { steps, ..outcome() }
}
