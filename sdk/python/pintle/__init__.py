"""Write Kubernetes controllers in Python. See README.md.

A controller is a module with a function `reconcile(key: Key, lister: Lister) -> Outcome | None`: it says what should change for one key.
It is never called twice at once for the same key, and never told why. It is pure: the same view gives the same outcome.
It raises `Retry` for what may pass and `Terminal` for what only a change of the world can cure; any other exception is a fault of the
controller, told with its place in the host's log.
"""

from . import log
from .children import APPLIED, Child, Children, Conflict, Plan, covers
from .conditions import Condition, find_condition, is_true, set_condition
from .errors import Duration, Needs, Retry, Terminal
from .finalizers import add_finalizer, has_finalizer, remove_finalizer
from .hashing import hash_json
from .kinds import Key, Kind, KindLike, Object, ObjectKey, ObjectMeta, OwnerReference, PartialObjectMeta
from .lister import (
    ApiError,
    ApiResource,
    Lister,
    MutationFailure,
    OwnedBy,
    Query,
    any_owner,
    controller,
    controller_or_orphan,
)
from .mutation import Action, Apply, Body, Event, Mutation, PatchType, Propagation, Refusal, event
from .need import Discovery, LiveList, LiveObject, Need, RawPath, live_list, live_object
from .outcome import Observation, Order, Outcome, Step
from .owners import controller_of, controller_ref, is_controlled_by
from .status import patch_status

__all__ = [
    "APPLIED",
    "Action",
    "ApiError",
    "ApiResource",
    "Apply",
    "Body",
    "Child",
    "Children",
    "Condition",
    "Conflict",
    "Discovery",
    "Duration",
    "Event",
    "Key",
    "Kind",
    "KindLike",
    "Lister",
    "LiveList",
    "LiveObject",
    "Mutation",
    "MutationFailure",
    "Need",
    "Needs",
    "Object",
    "ObjectKey",
    "ObjectMeta",
    "Observation",
    "Order",
    "Outcome",
    "OwnedBy",
    "OwnerReference",
    "PartialObjectMeta",
    "PatchType",
    "Plan",
    "Propagation",
    "Query",
    "RawPath",
    "Refusal",
    "Retry",
    "Step",
    "Terminal",
    "add_finalizer",
    "any_owner",
    "controller",
    "controller_of",
    "controller_or_orphan",
    "controller_ref",
    "covers",
    "event",
    "find_condition",
    "has_finalizer",
    "hash_json",
    "is_controlled_by",
    "is_true",
    "live_list",
    "live_object",
    "log",
    "patch_status",
    "remove_finalizer",
    "set_condition",
]
