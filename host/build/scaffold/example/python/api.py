"""The types of the kind {{Kind}}. `pintle crds` makes crds/ of them."""

from typing import Annotated, Literal, NotRequired

from pintle.schema import Conditions, Schema, TypedDict

Name = Annotated[str, Schema(maxLength=63, pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")]


class {{Kind}}Spec(TypedDict):
    """The desired state."""

    members: Annotated[list[Name], Schema({"x-kubernetes-list-type": "set"}, minItems=1)]
    """Names of the members."""

    lead: NotRequired[str]
    """Member that leads, if any."""

    format: NotRequired[Annotated[Literal["Lines", "Commas"], Schema(default="Lines")]]
    """How the ConfigMap lists the members."""


class {{Kind}}Status(TypedDict, total=False):
    """What the controller has found."""

    members: Annotated[int, Schema(format="int32")]
    """Number of members."""

    observedGeneration: Annotated[int, Schema(format="int64")]
    """Generation of the spec that the status is about."""

    conditions: Conditions
    """Ready is the only condition."""
