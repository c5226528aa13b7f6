//! Volumes, claims and classes.

use pintle_sdk::Kind;
use pintle_sdk::testing::{Cluster, Plugin};
use serde_json::{Value, json};

use super::*;
use crate::{
    ephemeral_volume, persistentvolume_protection, persistentvolumeclaim_protection, volumeattributesclass_protection,
};

/// A Pod with `n` volumes, and a claim whose name matches a Pod for each of its dashes.
pub(super) fn ephemeral(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut pod = object("v1", "Pod", "pod", 0, LONGEST - LABEL - 1);
    let template =
        json!({"metadata": {"labels": labels(), "annotations": labels()}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let volume = |i| json!({"name": name("volume", i, LABEL), "ephemeral": {"volumeClaimTemplate": template}});
    pod["spec"] = json!({"volumes": (0..n).map(volume).collect::<Vec<_>>()});
    cluster.insert(pod.clone());
    let plugin = size.limit(ephemeral_volume::plugin());
    settle(&mut cluster, &plugin, &[key(&plugin, "", &pod)], nobody);
    assert_eq!(n_owned(&cluster, &CLAIM), n);

    let claim = "a-".repeat(126) + "a";
    for dash in 1..=126 {
        let mut pod = object("v1", "Pod", "pod", 0, LONGEST);
        pod["metadata"]["name"] = json!(claim[..2 * dash - 1]);
        pod["metadata"]["uid"] = json!(uid("dashes", dash));
        pod["spec"] = json!({"volumes": [{"name": claim[2 * dash..], "ephemeral": {"volumeClaimTemplate": template}}]});
        cluster.insert(pod);
    }
    let text =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim, "namespace": home()}});
    let fixture = cluster.fixture(&plugin, &key(&plugin, "", &pod));
    let keys = plugin_ephemeral_volume::keys_of(&CLAIM, Some(&text.to_string()), None, &fixture.lister);
    assert_eq!(keys.len(), 126);
}

pub(super) fn volume(size: Size) {
    let n = size.n();
    let mut cluster = Cluster::new(1);
    let mut volume = global("v1", "PersistentVolume", "volume", 0, LONGEST);
    volume = protected(&cluster, volume, "kubernetes.io/pv-protection", n);
    volume["status"] = json!({"phase": "Released"});
    cluster.insert(volume.clone());
    let plugin = size.limit(persistentvolume_protection::plugin());
    settle(&mut cluster, &plugin, &[key(&plugin, "", &volume)], nobody);
    assert_eq!(n_finalizers(&cluster, &volume), Some(n));
}

/// Claims that are being deleted, half of them in use, and bound claims without a finalizer and a condition.
pub(super) fn claims(size: Size) {
    let n = size.beyond(600);
    let mut cluster = Cluster::new(1);
    let mut padding = vec![json!({"name": "v".repeat(LABEL), "emptyDir": {}}); 250];
    for i in 0..n {
        let mut claim = object("v1", "PersistentVolumeClaim", "claim", i, LONGEST);
        claim = protected(&cluster, claim, "kubernetes.io/pvc-protection", 0);
        cluster.insert(claim);
        let mut new = object("v1", "PersistentVolumeClaim", "new", i, LONGEST);
        new["status"] = json!({"phase": "Bound"});
        cluster.insert(new);
        let mut pod = pod(i);
        if i % 2 == 0 {
            padding[0] = json!({"name": "data", "persistentVolumeClaim": {"claimName": name("claim", i, LONGEST)}});
        } else {
            padding[0] = json!({"name": "data", "emptyDir": {}});
        }
        pod["spec"]["volumes"] = json!(padding);
        cluster.insert(pod);
    }
    let plugin = size.limit(persistentvolumeclaim_protection::plugin());
    let keys = [key(&plugin, "", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home()}}))];
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!((n_live(&cluster, &CLAIM), cluster.list(&CLAIM).count()), (n, n + n.div_ceil(2)));
    edit_all(&mut cluster, &POD, |_| true, |pod| pod["spec"]["volumes"] = json!([]));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!((n_live(&cluster, &CLAIM), cluster.list(&CLAIM).count()), (n, n));
    let is_protected = |claim: &&Value| claim["metadata"]["finalizers"] == json!(["kubernetes.io/pvc-protection"]);
    assert_eq!(cluster.list(&CLAIM).filter(is_protected).count(), n);
    let is_unused = |claim: &&Value| claim["status"]["conditions"][0]["status"] == "True";
    assert_eq!(cluster.list(&CLAIM).filter(is_unused).count(), n);
}

pub(super) fn class(size: Size) {
    let n = size.n();
    const VOLUME: Kind = Kind::new("", "v1", "PersistentVolume");
    let mut cluster = Cluster::new(1);
    let class = global("storage.k8s.io/v1", "VolumeAttributesClass", "class", 0, LONGEST);
    let class = protected(&cluster, class, "kubernetes.io/vac-protection", n);
    cluster.insert(class.clone());
    for i in 0..n {
        let mut volume = global("v1", "PersistentVolume", "volume", i, LONGEST);
        volume["spec"] = json!({"volumeAttributesClassName": class["metadata"]["name"]});
        cluster.insert(volume);
        let mut claim = object("v1", "PersistentVolumeClaim", "claim", i, LONGEST);
        claim["status"] = json!({"currentVolumeAttributesClassName": class["metadata"]["name"]});
        cluster.insert(claim);
    }
    let plugin: Plugin<'_> = size.limit(volumeattributesclass_protection::plugin());
    let keys = [key(&plugin, "", &class)];
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_finalizers(&cluster, &class), Some(n + 1));
    edit_all(&mut cluster, &VOLUME, |_| true, |volume| volume["spec"] = json!({}));
    edit_all(&mut cluster, &CLAIM, |_| true, |claim| claim["status"] = json!({}));
    settle(&mut cluster, &plugin, &keys, nobody);
    assert_eq!(n_finalizers(&cluster, &class), Some(n));
}
