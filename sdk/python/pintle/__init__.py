"""Write Kubernetes controllers in Python. See README.md.

A controller is a module with a function `reconcile(key: Key, lister: Lister) -> Outcome | None`: it says what should change for one key.
It is never called twice at once for the same key, and without the reason for the run. It is pure: the same view gives the same outcome.
It raises `Retry` for what may pass and `Terminal` for what only a change of the world can cure; any other exception is a fault of the
controller, which the host logs with its place.
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
from .need import (
    Call,
    Detail,
    Discovery,
    LiveList,
    LiveObject,
    Need,
    RawPath,
    Review,
    SignCertificate,
    SignJwt,
    call,
    live_list,
    live_object,
    review,
    sign_certificate,
    sign_jwt,
)
from .outcome import LONGEST_REQUEUE, Done, Failed, Moment, Observation, Order, Outcome, Place, Step, Wake
from .owners import controller_of, controller_ref, is_controlled_by
from .status import patch_status
from .timestamps import parse_time

__all__ = [
    "APPLIED",
    "Action",
    "ApiError",
    "ApiResource",
    "Apply",
    "Body",
    "Call",
    "Child",
    "Children",
    "Condition",
    "Conflict",
    "Detail",
    "Discovery",
    "Done",
    "Duration",
    "Event",
    "Failed",
    "Key",
    "Kind",
    "KindLike",
    "LONGEST_REQUEUE",
    "Lister",
    "LiveList",
    "LiveObject",
    "Moment",
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
    "Place",
    "Plan",
    "Propagation",
    "Query",
    "RawPath",
    "Refusal",
    "Retry",
    "Review",
    "SignCertificate",
    "SignJwt",
    "Step",
    "Terminal",
    "Wake",
    "add_finalizer",
    "any_owner",
    "call",
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
    "parse_time",
    "patch_status",
    "remove_finalizer",
    "review",
    "set_condition",
    "sign_certificate",
    "sign_jwt",
]
