"""The desired set of children of an owner: what is missing is created, what differs updated, what fits adopted, and what is no longer
wanted deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import Terminal
from .hashing import hash_json
from .kinds import Kind, KindLike, Object, ObjectKey, key_of, metadata
from .lister import Lister, Query, controller
from .mutation import Mutation
from .owners import controller_of, controller_ref

#: Annotation of a child: hash of what was wanted when it was last applied.
APPLIED = "pintle.dev/applied"


@dataclass(frozen=True)
class Child:
    """A child by its name."""

    kind: Kind
    object: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.object}"


@dataclass(frozen=True)
class Conflict:
    """A wanted object that another object controls."""

    child: Child
    controller_kind: Kind
    controller_name: str

    def __str__(self) -> str:
        return f"{self.child} is controlled by {self.controller_kind} {self.controller_name}"


@dataclass
class Plan:
    """What `Children.plan` found."""

    #: Applies and adoptions in the order of the wanted objects, then deletes in the order of the owned kinds, by name.
    #: An apply without a precondition creates.
    mutations: list[Mutation] = field(default_factory=list)
    #: Wanted objects that are there under another controller, in the order in which they are wanted.
    conflicts: list[Conflict] = field(default_factory=list)
    #: Wanted objects that are being deleted, and are created again afterwards.
    waiting: list[Child] = field(default_factory=list)


class Children:
    """The desired set of children of an owner.

    Children are written by server-side apply, so fields that others set (defaults, an autoscaler's replicas) stay as they are, and a
    field that is no longer wanted goes. What is applied carries a controller reference to the owner and the annotation `APPLIED` with
    the `hash_json` of what was wanted, by which the next run sees that nothing has changed. Later changes by others are found by
    `covers`. An object that another controller has is not touched.

    A wanted object without a controller is adopted first: a merge patch adds the controller reference to `metadata.ownerReferences`
    and changes nothing else. Its change causes another run, which applies the rest.

    The manifest watches every owned kind, `whole` or with these `fields`: `metadata.annotations`, `metadata.labels`,
    `metadata.ownerReferences`, `metadata.deletionTimestamp`, and all that is set in children. It asks for
    `{verbs: [create, patch, delete], kinds: [...], of: controlled}`, with `adopt: true` in it if children are to be adopted. Without
    `adopt: true` an adoption fails with the reason `NotGranted`, and the other mutations are sent all the same. If the owner is
    cluster-scoped, the grant lists the children's namespaces, or all with `namespaces: ["*"]`.
    """

    def __init__(self, owner: Mapping[str, Any], manager: str) -> None:
        """No children yet. `owner` as it was read: with apiVersion, kind, name, namespace and uid.

        `manager` is the field manager of the applies, 1 to 128 bytes: usually the name of the controller, and the same for ever,
        because it is by this name that fields which are no longer wanted are found.
        """
        self._owner = controller_ref(owner)
        self._namespace: str = metadata(owner).get("namespace") or ""
        self._manager = manager
        self._kinds: list[Kind] = []
        self._wanted: list[Mapping[str, Any]] = []

    def own(self, *kinds: KindLike) -> Children:
        """The owner has children of these kinds: those that are not wanted are deleted, also when none is."""
        self._kinds.extend(map(Kind.of, kinds))
        return self

    def want(self, *objects: Mapping[str, Any]) -> Children:
        """Wanted objects, with `apiVersion`, `kind`, `metadata.name`, and all that shall be applied.

        The namespace is the owner's if they name none.
        """
        self._wanted.extend(objects)
        return self

    def plan(self, lister: Lister) -> Plan:
        """Compares the desired objects with the cached ones.

        Raises Terminal, as only other code helps, if a wanted object has no name, is wanted twice, is of a kind that is not owned, lives
        in another namespace than its owner, or cannot be hashed.
        """
        plan = Plan()
        wanted: set[Child] = set()
        for obj in self._wanted:
            child, complete = self._complete(obj)
            if child in wanted:
                raise Terminal(f"children: {child} is wanted twice")
            wanted.add(child)
            self._plan_wanted(lister, child, complete, plan)
        query = Query(namespace=self._namespace or None, owner=controller(self._owner["uid"]))
        for kind in self._kinds:
            for existing in lister.list(kind, query):
                child = Child(kind, key_of(existing))
                if child not in wanted:
                    plan.mutations.extend(_prune(lister, child))
        return plan

    def _complete(self, wanted: Mapping[str, Any]) -> tuple[Child, Object]:
        """The name of a wanted object, and the object with its namespace filled in."""
        kind, key = Kind.of_object(wanted), key_of(wanted)
        key = ObjectKey(key.namespace or self._namespace, key.name)
        child = Child(kind, key)
        if not key.name:
            raise Terminal(f"children: a {kind} has no metadata.name")
        if kind not in self._kinds:
            raise Terminal(f"children: {child} is of a kind that is not owned: call own")
        if self._namespace and key.namespace != self._namespace:
            raise Terminal(f"children: {child} is in another namespace than its owner")
        namespace = {"namespace": key.namespace} if key.namespace else {}
        return child, {**wanted, "metadata": {**metadata(wanted), **namespace}}

    def _plan_wanted(self, lister: Lister, child: Child, wanted: Object, plan: Plan) -> None:
        applied = hash_json(wanted)
        meta = metadata(wanted)
        annotations = {**(meta.get("annotations") or {}), APPLIED: applied}
        body = {**wanted, "metadata": {**meta, "ownerReferences": [self._owner], "annotations": annotations}}
        existing = lister.get(child.kind, child.object.namespace, child.object.name)
        if existing is None:
            plan.mutations.append(Mutation.apply(self._manager, body))
            return
        if metadata(existing).get("deletionTimestamp"):
            plan.waiting.append(child)
            return
        reference = controller_of(existing)
        if reference is None:
            plan.mutations.append(self._adopt(child, existing))
            return
        if reference.get("uid") != self._owner["uid"]:
            plan.conflicts.append(Conflict(child, Kind.of_object(reference), reference.get("name") or ""))
            return
        is_applied = (metadata(existing).get("annotations") or {}).get(APPLIED) == applied
        if not is_applied or not covers(existing, wanted):
            plan.mutations.append(Mutation.apply(self._manager, body, uid=metadata(existing).get("uid")))

    def _adopt(self, child: Child, existing: Object) -> Mutation:
        """Adds the owner to the owner references of an object without a controller, as its controller.

        The resourceVersion is a precondition, so that all other owner references are kept.
        """
        meta = metadata(existing)
        others = [owner for owner in meta.get("ownerReferences") or [] if owner.get("uid") != self._owner["uid"]]
        body = {"metadata": {"ownerReferences": [*others, self._owner]}}
        uid, version = meta.get("uid"), meta.get("resourceVersion")
        return Mutation.patch(child.kind, child.object.namespace, child.object.name, "merge", body, uid=uid, resource_version=version)


def _prune(lister: Lister, child: Child) -> list[Mutation]:
    """Deletes a child, unless that has been done. Read by name, because a list gives less than what a `whole` watch has."""
    key = child.object
    existing = lister.get(child.kind, key.namespace, key.name)
    if existing is None or metadata(existing).get("deletionTimestamp"):
        return []
    uid = metadata(existing).get("uid")
    return [Mutation.delete(child.kind, key.namespace, key.name, uid=uid, propagation="background")]


_MERGED_LISTS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "targetPort"),
}
"""Lists of Pods and Services, with members of which their items have one. Server-side apply keeps the items that others add to them."""


def covers(existing: Any, wanted: Any) -> bool:
    """Whether an object has all that is wanted of it: every member of a wanted object is there and covered, lists have the same length
    and cover item by item, scalars are equal. What is wanted to be None, `""`, 0, False, `[]` or `{}` may be missing.

    In objects of `v1`, `apps/v1` and `batch/v1`, items that others add to `containers`, `initContainers`, `volumes`, `env`,
    `volumeMounts`, `volumeDevices` and `ports` count as covered: server-side apply leaves them there.

    Write values as the API server does: it turns `cpu: 1000m` into `cpu: 1`, which would look like a change in every run.
    """
    merges = isinstance(wanted, Mapping) and wanted.get("apiVersion") in ("v1", "apps/v1", "batch/v1")
    return _covers("", existing, wanted, merges)


def _covers(name: str, existing: Any, wanted: Any, merges: bool) -> bool:
    if isinstance(wanted, Mapping):
        if not isinstance(existing, Mapping):
            return False
        members = ((name, existing.get(name), value) for name, value in wanted.items())
        return all(not value if found is None else _covers(name, found, value, merges) for name, found, value in members)
    if isinstance(wanted, list | tuple):
        if not isinstance(existing, list | tuple):
            return False
        keys = _MERGED_LISTS.get(name, ()) if merges else ()
        if any(all(isinstance(item, Mapping) and key in item for item in existing) for key in keys):
            rest = iter(existing)
            return all(any(_covers("", found, item, merges) for found in rest) for item in wanted)
        return len(existing) == len(wanted) and all(
            _covers("", found, item, merges) for found, item in zip(existing, wanted, strict=True)
        )
    return isinstance(existing, bool) == isinstance(wanted, bool) and bool(existing == wanted)
