//! A StatefulSet with derived values.

use std::collections::BTreeMap;

use pintle_sdk::Error;
use pintle_sdk::api::meta::Raw;
use pintle_sdk::document::Document;
use pintle_sdk::selector::Selector;

use crate::types::StatefulSet;

/// Default history limit.
const HISTORY_LIMIT: i32 = 10;

/// A StatefulSet.
pub(crate) struct Set {
    pub(crate) object: StatefulSet,
    pub(crate) selector: Selector,
    pub(crate) claims: Vec<ClaimTemplate>,
    /// First ordinal.
    pub(crate) start: i64,
    pub(crate) replicas: i64,
    pub(crate) policy: Policy,
}

/// A template of claims.
pub(crate) struct ClaimTemplate {
    pub(crate) name: String,
    pub(crate) document: Document,
}

/// The claim retention policy: when claims are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// With the StatefulSet.
    pub(crate) when_deleted: bool,
    /// With a condemned replica.
    pub(crate) when_scaled: bool,
}

impl Policy {
    /// Claims are kept.
    pub(crate) const RETAIN: Self = Self { when_deleted: false, when_scaled: false };
}

impl Set {
    /// Prepares a StatefulSet.
    ///
    /// # Errors
    /// Terminal, if its selector or a claim template is invalid.
    pub(crate) fn new(object: StatefulSet) -> Result<Self, Error> {
        let selector = Selector::from_label_selector(object.spec.selector.as_ref())?;
        let templates: Option<Vec<Raw>> = object.spec.volume_claim_templates.parse()?;
        let mut claims: Vec<ClaimTemplate> = Vec::new();
        for template in templates.unwrap_or_default() {
            let document = Document::parse(template.text())?;
            let name: String = document.get(&["metadata", "name"]).unwrap_or_default();
            // Of two with the same name the last counts.
            claims.retain(|earlier| earlier.name != name);
            claims.push(ClaimTemplate { name, document });
        }
        let policy = object.spec.persistent_volume_claim_retention_policy.as_ref();
        let deletes = |when: &str| when == "Delete";
        let policy = policy.map_or(Policy::RETAIN, |policy| Policy {
            when_deleted: deletes(&policy.when_deleted),
            when_scaled: deletes(&policy.when_scaled),
        });
        let start = object.spec.ordinals.as_ref().map_or(0, |ordinals| i64::from(ordinals.start));
        let replicas = i64::from(object.spec.replicas.unwrap_or(1).max(0));
        Ok(Self { selector, claims, start, replicas, policy, object })
    }

    pub(crate) fn name(&self) -> &str {
        &self.object.metadata.name
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.object.metadata.namespace
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.object.metadata.is_deleting()
    }

    pub(crate) fn min_ready_seconds(&self) -> i32 {
        self.object.spec.min_ready_seconds
    }

    /// Whether an ordinal is in the desired range.
    pub(crate) fn wants(&self, ordinal: i64) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }

    /// Whether all Pods of other revisions are deleted before a new one is created.
    pub(crate) fn recreates(&self) -> bool {
        self.object.spec.update_strategy.type_ == "Recreate"
    }

    /// Whether replicas are created and deleted one after the other.
    pub(crate) fn is_ordered(&self) -> bool {
        self.object.spec.pod_management_policy != "Parallel"
    }

    pub(crate) fn history_limit(&self) -> i32 {
        self.object.spec.revision_history_limit.unwrap_or(HISTORY_LIMIT)
    }

    /// Number of replicas, from the first one, that keep the current revision.
    pub(crate) fn partition(&self) -> i64 {
        let rolling = self.object.spec.update_strategy.rolling_update.as_ref();
        rolling.and_then(|rolling| rolling.partition).map_or(0, i64::from)
    }

    /// Whether a new replica uses the current revision, not the update revision.
    pub(crate) fn keeps_revision(&self, ordinal: i64) -> bool {
        let strategy = &self.object.spec.update_strategy;
        match &strategy.rolling_update {
            Some(_) => ordinal < self.start + self.partition(),
            None => {
                strategy.type_ == "RollingUpdate"
                    && ordinal < self.start + i64::from(self.object.status.current_replicas)
            }
        }
    }

    pub(crate) fn match_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.object.spec.selector.as_ref().map(|selector| &selector.match_labels)
    }
}
