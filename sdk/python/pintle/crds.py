"""CustomResourceDefinitions from types. Only `pintle crds` needs this module, and pydantic: not for components."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args, get_type_hints, is_typeddict

from .kinds import Kind, KindLike


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    type: Literal["boolean", "date", "integer", "number", "string"]
    #: Where the value is, for example `.status.members`.
    jsonPath: str
    description: str | None = None
    format: str | None = None
    #: More than 0: only with `-o wide`.
    priority: int | None = None


def definition(
    kind: KindLike,
    *,
    spec: type,
    status: type | None = None,
    plural: str | None = None,
    singular: str | None = None,
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    scope: Literal["Namespaced", "Cluster"] = "Namespaced",
    description: str | None = None,
    columns: Sequence[Column] = (),
) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind, with one version. With `status`, the status is a subresource.

    `spec` and `status` are TypedDicts, dataclasses or whatever pydantic describes. `pintle crds` makes structural schemas of theirs.
    """
    of = Kind.of(kind)
    lower = of.name.lower()
    names: dict[str, Any] = {
        "kind": of.name,
        "listKind": f"{of.name}List",
        "plural": plural or f"{lower}s",
        "singular": singular or lower,
    }
    if short_names:
        names["shortNames"] = list(short_names)
    if categories:
        names["categories"] = list(categories)
    of_spec = _schema(spec)
    root: dict[str, Any] = {
        "type": "object",
        "required": ["spec"] if of_spec.get("required") else [],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": of_spec,
        },
    }
    if description:
        root["description"] = description
    version: dict[str, Any] = {"name": of.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    if status is not None:
        root["properties"]["status"] = _schema(status)
        version["subresources"] = {"status": {}}
    if columns:
        version["additionalPrinterColumns"] = [
            {name: value for name, value in asdict(column).items() if value is not None} for column in columns
        ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{of.group}"},
        "spec": {"group": of.group, "scope": scope, "names": names, "versions": [version]},
    }


def show(*definitions: dict[str, Any]) -> None:
    """Prints definitions for `pintle crds`."""
    for one in definitions:
        sys.stdout.write(f"---\n{json.dumps(one, indent=2)}\n")


def _schema(of: type) -> dict[str, Any]:
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise SystemExit("there is no pydantic, which describes types: pip install 'pintle[crds]', or pydantic==2.14.3") from None
    for one in _typed_dicts(of, set()):
        # The text below a field is its description.
        if not hasattr(one, "__pydantic_config__"):
            setattr(one, "__pydantic_config__", {"use_attribute_docstrings": True})
    schema: dict[str, Any] = TypeAdapter(of).json_schema()
    return schema


def _typed_dicts(of: Any, seen: set[int]) -> Iterator[Any]:
    """The TypedDicts that a type consists of."""
    if id(of) in seen:
        return
    seen.add(id(of))
    if is_typeddict(of) or type(of).__name__ == "_TypedDictMeta":
        yield of
        for hint in get_type_hints(of, include_extras=True).values():
            yield from _typed_dicts(hint, seen)
    for argument in get_args(of):
        yield from _typed_dicts(argument, seen)
