"""The types of the kind {{Kind}}. `pintle crds` makes crds/ of them."""

from typing import Annotated

from pintle.schema import Conditions, Schema, TypedDict


class {{Kind}}Spec(TypedDict):
    """The desired state."""

    text: str
    """Text of the ConfigMap."""


class {{Kind}}Status(TypedDict, total=False):
    """What the controller has found."""

    observedGeneration: Annotated[int, Schema(format="int64")]
    """Generation of the spec that the status is about."""

    conditions: Conditions
    """Ready is the only condition."""
