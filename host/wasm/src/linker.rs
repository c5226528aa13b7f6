//! The imports that the host offers: the lister and the log.
//!
//! Handwritten rather than generated, so that texts cross without a clone (`Arc<str>` is lowered directly).

use pintle_core::contract::check::MAX_U32;
use pintle_core::contract::outcome::{MutationFailure, NeedError};
use pintle_core::ports::api::ApiResource;
use pintle_core::ports::view::{OwnedBy, Query};
use wasmtime::component::{Linker, LinkerInstance, Resource, ResourceType, WasmStr};
use wasmtime::{Engine, Result, StoreContextMut};

use crate::contract::log::Level;
use crate::contract::types::{Kind, ObjectKey};
use crate::contract::{LOG, VIEW, types, view};
use crate::lift;
use crate::size::Size;
use crate::store::{Lister, StoreState};

type Cx<'a> = StoreContextMut<'a, StoreState>;
type Handle = Resource<Lister>;

/// Creates a linker with all imports that a component may use.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<StoreState>> {
    let mut linker = Linker::new(engine);
    add_lister(&mut linker.instance(VIEW)?)?;
    add_log(&mut linker.instance(LOG)?)?;
    Ok(linker)
}

fn add_log(log: &mut LinkerInstance<'_, StoreState>) -> Result<()> {
    log.func_wrap("write", |mut cx: Cx<'_>, (level, message): (Level, WasmStr)| {
        // Outside a run (while an instance is created) there is no log.
        let Some(mut run) = cx.data_mut().run.take() else { return Ok(()) };
        // Messages over the limit are not read: otherwise a guest could make the host scan megabytes repeatedly.
        let written = match run.logs.has_room() {
            true => message.to_str(&cx).map(|text| run.logs.write(level, &text)),
            false => Ok(()),
        };
        cx.data_mut().run = Some(run);
        written
    })
}

fn add_lister(view: &mut LinkerInstance<'_, StoreState>) -> Result<()> {
    view.resource("lister", ResourceType::host::<Lister>(), |mut cx, _| {
        cx.data_mut().count_drop();
        Ok(())
    })?;
    view.func_wrap("[method]lister.now", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.now().to_owned()))
    })?;
    view.func_wrap("[method]lister.get", |mut cx: Cx<'_>, (lister, kind, object): (Handle, Kind, ObjectKey)| {
        cx.data_mut()
            .read(&lister, (&kind, &object).n_bytes(), |view| view.get(&lift::kind(&kind), &lift::object(&object)))
    })?;
    view.func_wrap("[method]lister.list", |mut cx: Cx<'_>, (lister, kind, query): (Handle, Kind, view::Query)| {
        cx.data_mut().read(&lister, (&kind, &query).n_bytes(), |view| view.list(&lift::kind(&kind), &lift_query(query)))
    })?;
    view.func_wrap("[method]lister.count", |mut cx: Cx<'_>, (lister, kind, query): (Handle, Kind, view::Query)| {
        cx.data_mut().read(&lister, (&kind, &query).n_bytes(), |view| {
            Ok(saturate(view.count(&lift::kind(&kind), &lift_query(query))?))
        })
    })?;
    view.func_wrap(
        "[method]lister.selecting",
        |mut cx: Cx<'_>, (lister, kind, namespace, labels): (Handle, Kind, String, Vec<(String, String)>)| {
            cx.data_mut().read(&lister, (&kind, (&namespace, &labels)).n_bytes(), |view| {
                view.selecting(&lift::kind(&kind), &namespace, &labels)
            })
        },
    )?;
    view.func_wrap("[method]lister.dependents", |mut cx: Cx<'_>, (lister, uid): (Handle, String)| {
        cx.data_mut().read(&lister, uid.n_bytes(), |view| view.dependents(&uid))
    })?;
    view.func_wrap("[method]lister.by-uid", |mut cx: Cx<'_>, (lister, uid): (Handle, String)| {
        cx.data_mut().read(&lister, uid.n_bytes(), |view| view.by_uid(&uid))
    })?;
    view.func_wrap("[method]lister.resources", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.resources()?.iter().map(lower_resource).collect::<Vec<_>>()))
    })?;
    view.func_wrap("[method]lister.config", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.config()))
    })?;
    view.func_wrap("[method]lister.state", |mut cx: Cx<'_>, (lister, name): (Handle, String)| {
        cx.data_mut().read(&lister, name.n_bytes(), |view| Ok(view.state(&name)))
    })?;
    view.func_wrap("[method]lister.attempt", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.attempt().min(MAX_U32)))
    })?;
    view.func_wrap("[method]lister.failures", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.failures().iter().map(lower_failure).collect::<Vec<_>>()))
    })?;
    view.func_wrap("[method]lister.uptime", |mut cx: Cx<'_>, (lister,): (Handle,)| {
        cx.data_mut().read(&lister, 0, |view| Ok(view.uptime().as_secs_f64()))
    })?;
    view.func_wrap(
        "[method]lister.resources-of",
        |mut cx: Cx<'_>, (lister, group, name): (Handle, String, String)| {
            cx.data_mut().read(&lister, (&group, &name).n_bytes(), |view| {
                let all = view.resources()?;
                let of_kind = |one: &&ApiResource| *one.kind.group == *group && *one.kind.name == *name;
                Ok(all.iter().filter(of_kind).map(lower_resource).collect::<Vec<_>>())
            })
        },
    )?;
    view.func_wrap("[method]lister.answer", |mut cx: Cx<'_>, (lister, need): (Handle, types::Need)| {
        let (n_bytes, need) = (need.n_bytes(), lift::need(need));
        cx.data_mut()
            .read(&lister, n_bytes, |view| Ok(view.answer(&need).map(|answer| answer.map_err(lower_need_error))))
    })
}

fn saturate(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(MAX_U32).min(MAX_U32)
}

fn lift_query(query: view::Query) -> Query {
    Query {
        namespace: query.namespace,
        label_selector: query.label_selector,
        owner: query.owner.map(|owner| match owner {
            view::OwnedBy::Controller(uid) => OwnedBy::Controller(uid),
            view::OwnedBy::ControllerOrOrphan(uid) => OwnedBy::ControllerOrOrphan(uid),
            view::OwnedBy::Any(uid) => OwnedBy::Any(uid),
        }),
        index: query.index.map(|index| (index.index, index.value)),
        whole: query.whole,
    }
}

fn lower_resource(resource: &ApiResource) -> view::ApiResource {
    view::ApiResource {
        kind: lift::lower_kind(&resource.kind),
        plural: resource.plural.clone(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.clone(),
        subresources: resource.subresources.clone(),
        preferred: resource.preferred,
    }
}

fn lower_failure(failure: &MutationFailure) -> view::MutationFailure {
    view::MutationFailure {
        step: failure.step.min(MAX_U32),
        position: failure.position.min(MAX_U32),
        verb: failure.verb.to_owned(),
        kind: lift::lower_kind(&failure.kind),
        object: lift::lower_object(&failure.object),
        subresource: failure.subresource.clone(),
        code: failure.code.into(),
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        causes: failure.causes.clone(),
    }
}

fn lower_need_error(error: NeedError) -> view::ApiError {
    view::ApiError { code: error.code.into(), reason: error.reason, message: error.message }
}
