"""YAML as the host reads it: the scalars of YAML 1.2, so that `on` is a word and a time a text; with merge keys (`<<`)."""

from __future__ import annotations

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """PyYAML knows YAML 1.1 only."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _form, _first in (
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_form})$"), _first)


def _int(_loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    # In 1.1 a leading zero means octal.
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _map(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    pairs = loader.construct_pairs(node, deep=True)
    return {str(name).lower() if isinstance(name, bool) else str(name): value for name, value in pairs}


_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:map", _map)


def read_yaml(text: str) -> Any:
    """The value of a document; names of members are texts. Raises yaml.YAMLError if it does not parse."""
    return yaml.load(text, Loader=_Loader)
