//! Runs web applications: a `WebApp` becomes a Deployment, a Service, a ConfigMap, and the optional objects in its
//! spec.
//!
//! `tests/webapp/README.md` in the repository specifies its behaviour, and the cases there show it.

mod children;
mod claim;
mod deletion;
mod status;
mod types;
mod validate;

use pintle_sdk::{
    Action, Error, Event, Key, Lister, Mutation, Outcome, Query, Resource, Step, add_finalizer, has_finalizer, log,
};

use types::{ExternalName, FINALIZER, Settings, WebApp};

/// Computes the changes for one WebApp.
///
/// # Errors
/// A retry while the cache is stale; terminal if an object does not fit its type.
pub fn reconcile(key: &Key, lister: &impl Lister) -> Result<Outcome, Error> {
    let Some(app) = lister.get::<WebApp>(&key.namespace, &key.name)? else {
        return Ok(Outcome::new());
    };
    let claims: Vec<ExternalName> = lister.list(&Query::all().index("claimant", &app.metadata.uid))?;
    if app.metadata.is_deleting() {
        return deletion::clean_up(&app, &claims, lister);
    }
    let problems = validate::problems(&app);
    if !problems.is_empty() {
        return status::invalid(&app, &problems, lister);
    }
    // Before creating anything that only this plugin removes.
    if !has_finalizer(&app.metadata, FINALIZER) {
        return Ok(Outcome::new().step(Step::sequential([add_finalizer(&WebApp::KIND, &app.metadata, FINALIZER)])));
    }
    let settings: Settings = lister.config()?;
    let claim = claim::plan(&app, &claims, lister)?;
    let children = children::wanted(&app, &settings, claim.is_held)?.plan(lister)?;

    let mut changes = claim.mutations;
    changes.extend(children.mutations);
    let changes: Vec<Mutation> = changes.into_iter().map(|change| with_event(&app, change)).collect();
    if !changes.is_empty() {
        log::info(&format!("changes: {}", changes.len()));
    }
    let mut conflicts: Vec<String> = children.conflicts.iter().map(ToString::to_string).collect();
    conflicts.extend(claim.conflict);
    let mut waiting: Vec<String> = children.waiting.iter().map(ToString::to_string).collect();
    waiting.extend(claim.waiting);

    let findings = status::Findings { n_changes: changes.len(), conflicts, waiting, is_held: claim.is_held };
    let report = status::report(&app, &findings, lister)?;
    let mut outcome = Outcome::new().step(Step::parallel(changes)).step(Step::sequential(report.mutations).always());
    if !report.is_ready {
        outcome = outcome.requeue_after(settings.retry());
    }
    Ok(outcome)
}

/// Adds events for creates and deletes. An apply of an object that is not in the cache has no precondition.
fn with_event(app: &WebApp, change: Mutation) -> Mutation {
    let (reason, verb, kind, name) = match &change.action {
        Action::Create { kind, object, .. } => {
            let object: serde_json::Value = serde_json::from_str(object).unwrap_or_default();
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            ("Created", "created", kind, name)
        }
        Action::Patch { kind, object, preconditions, .. } if preconditions.uid.is_none() => {
            ("Created", "created", kind, object.name.clone())
        }
        Action::Delete { kind, object, .. } => ("Deleted", "deleted", kind, object.name.clone()),
        _ => return change,
    };
    let event = Event::normal(&WebApp::KIND, &app.metadata, reason, format!("{verb} {kind} {name}"));
    change.on_success(event)
}

pintle_sdk::export!(reconcile);
