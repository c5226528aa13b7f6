//! What the types of older contracts have less than those of the newest one.

/// Types of contract 0.1 that 0.2 extends.
pub(crate) mod v0_1 {
    use wasmtime::component::{ComponentType, Lift};

    use crate::contract::types;

    /// An outcome.
    #[derive(Debug, ComponentType, Lift)]
    #[component(record)]
    pub(crate) struct Outcome {
        needs: Vec<Need>,
        steps: Vec<types::Step>,
        #[component(name = "requeue-after-ms")]
        requeue_after_ms: Option<u32>,
        state: Vec<types::StateWrite>,
        observations: Vec<Observation>,
    }

    /// A need.
    #[derive(Debug, ComponentType, Lift)]
    #[component(variant)]
    pub(crate) enum Need {
        #[component(name = "live-object")]
        LiveObject(LiveObject),
        #[component(name = "live-list")]
        LiveList(LiveList),
        #[component(name = "raw-path")]
        RawPath(String),
        #[component(name = "discovery")]
        Discovery,
    }

    /// A need of one object.
    #[derive(Debug, ComponentType, Lift)]
    #[component(record)]
    pub(crate) struct LiveObject {
        kind: types::Kind,
        object: types::ObjectKey,
    }

    /// A need of metadata.
    #[derive(Debug, ComponentType, Lift)]
    #[component(record)]
    pub(crate) struct LiveList {
        kind: types::Kind,
        namespace: String,
        #[component(name = "label-selector")]
        label_selector: Option<String>,
        limit: u32,
    }

    /// A sample.
    #[derive(Debug, ComponentType, Lift)]
    #[component(record)]
    pub(crate) struct Observation {
        metric: String,
        labels: Vec<String>,
        value: f64,
    }

    impl From<Outcome> for types::Outcome {
        fn from(outcome: Outcome) -> Self {
            Self {
                needs: outcome.needs.into_iter().map(Into::into).collect(),
                steps: outcome.steps,
                requeue_after_ms: outcome.requeue_after_ms,
                state: outcome.state,
                observations: outcome.observations.into_iter().map(Into::into).collect(),
                wake: Vec::new(),
                run_labels: Vec::new(),
                error: None,
            }
        }
    }

    impl From<Need> for types::Need {
        fn from(need: Need) -> Self {
            match need {
                Need::LiveObject(LiveObject { kind, object }) => {
                    Self::LiveObject(types::LiveObject { kind, object, subresource: None })
                }
                Need::LiveList(LiveList { kind, namespace, label_selector, limit }) => {
                    let (field_selector, detail) = (None, types::Detail::Metadata);
                    Self::LiveList(types::LiveList { kind, namespace, label_selector, field_selector, detail, limit })
                }
                Need::RawPath(path) => Self::RawPath(path),
                Need::Discovery => Self::Discovery,
            }
        }
    }

    impl From<Observation> for types::Observation {
        fn from(Observation { metric, labels, value }: Observation) -> Self {
            Self { metric, labels, value, at: types::Moment::Now }
        }
    }
}
