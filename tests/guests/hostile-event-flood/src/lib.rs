//! Records 500 events with each run.

use hostile::{Action, Event, EventType, Outcome, again, writing};

hostile::attack!(|key, _| {
    let event = |i| {
        Action::Event(Event {
            regarding_kind: key.kind.clone(),
            regarding: key.object.clone(),
            regarding_uid: String::new(),
            event_type: EventType::Normal,
            reason: "Flood".into(),
            message: format!("event {i}"),
        })
    };
    Outcome { steps: writing((0..500).map(event).collect()).steps, ..again() }
});
