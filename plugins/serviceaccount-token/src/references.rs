//! The owner of a deleted Secret, and its reference to the Secret.

use pintle_sdk::document::Document;
use pintle_sdk::{Error, Key, Lister, Mutation, Need, Refusal, Resource};
use serde::{Deserialize, Serialize};

use crate::types::{Secret, ServiceAccount};

/// The ServiceAccount of a Secret.
#[doc(alias = "secretQueueKey")]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) secret_uid: String,
    name: String,
    /// Empty if the Secret names none.
    uid: String,
}

impl Owner {
    /// The owner of a Secret; `None` if the Secret names none.
    #[doc(alias = "makeSecretQueueKey")]
    pub(crate) fn of(secret: &Secret) -> Option<Self> {
        let annotations = &secret.metadata.annotations;
        let name = annotations.service_account_name.clone().filter(|name| !name.is_empty())?;
        let uid = annotations.service_account_uid.clone().unwrap_or_default();
        Some(Self { secret_uid: secret.metadata.uid.clone(), name, uid })
    }

    fn is(&self, uid: &str) -> bool {
        self.uid.is_empty() || self.uid == uid
    }
}

/// The update that removes the reference to a deleted Secret; `None` if there is no reference.
#[doc(alias = "removeSecretReference")]
#[doc(alias = "getSecretReferences")]
pub(crate) fn remove_reference(owner: &Owner, key: &Key, lister: &impl Lister) -> Result<Option<Mutation>, Error> {
    let cached = lister.get::<ServiceAccount>(&key.namespace, &owner.name)?;
    if !cached.is_some_and(|account| owner.is(&account.metadata.uid)) {
        return Ok(None);
    }
    let text = match lister.ask(Need::live_object(&ServiceAccount::KIND, &key.namespace, &owner.name))? {
        Ok(text) => text,
        Err(error) if error.code == 404 => return Ok(None),
        Err(error) => {
            return Err(Error::retry(format!(
                "read ServiceAccount {}/{}: {}",
                key.namespace, owner.name, error.message
            )));
        }
    };
    let mut account = Document::parse(&text)?;
    let uid: String = account.get(&["metadata", "uid"]).unwrap_or_default();
    let mut secrets: Vec<Document> = account.get(&["secrets"]).unwrap_or_default();
    let n_before = secrets.len();
    secrets.retain(|secret| secret.get::<String>(&["name"]).as_deref() != Some(key.name.as_str()));
    if !owner.is(&uid) || secrets.len() == n_before {
        return Ok(None);
    }
    account.set(&["secrets"], &secrets);
    Ok(Some(Mutation::update(&ServiceAccount::KIND, account).tolerate([Refusal::NotFound])))
}
