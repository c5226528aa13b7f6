"""Definitions from types."""

import unittest
from typing import Annotated, Any, Literal, NotRequired

from pintle.crds import Column, definition
from pintle.schema import Conditions, Schema, TypedDict


class Part(TypedDict):
    size: Annotated[int, Schema(minimum=1)]
    """How large."""


class Spec(TypedDict):
    """What is wanted."""

    names: Annotated[list[str], Schema({"x-kubernetes-list-type": "set"}, minItems=1)]
    """All of them."""

    mode: NotRequired[Annotated[Literal["A", "B"], Schema(default="A")]]
    parts: NotRequired[list[Part]]


class Status(TypedDict, total=False):
    conditions: Conditions


class Definitions(unittest.TestCase):
    def test_a_definition_has_what_types_marks_and_texts_say(self) -> None:
        columns = [Column("Size", "integer", ".status.size", priority=1)]
        made = definition("example.org/v1/Person", plural="people", short_names=["p"], columns=columns, spec=Spec, status=Status)
        self.assertEqual(made["metadata"], {"name": "people.example.org"})
        names = {"kind": "Person", "listKind": "PersonList", "plural": "people", "singular": "person", "shortNames": ["p"]}
        self.assertEqual((made["spec"]["names"], made["spec"]["scope"]), (names, "Namespaced"))
        version = made["spec"]["versions"][0]
        self.assertEqual(version["subresources"], {"status": {}})
        expected = [{"name": "Size", "type": "integer", "jsonPath": ".status.size", "priority": 1}]
        self.assertEqual(version["additionalPrinterColumns"], expected)
        root = version["schema"]["openAPIV3Schema"]
        self.assertEqual(root["required"], ["spec"])
        spec: dict[str, Any] = root["properties"]["spec"]
        self.assertEqual((spec["description"], spec["required"]), ("What is wanted.", ["names"]))
        found = {name: value for name, value in spec["properties"]["names"].items() if name != "title"}
        wanted = {
            "description": "All of them.",
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "x-kubernetes-list-type": "set",
        }
        self.assertEqual(found, wanted)
        self.assertEqual(spec["properties"]["mode"]["default"], "A")
        # Types within types have their texts, too.
        self.assertEqual(spec["$defs"]["Part"]["properties"]["size"]["description"], "How large.")
        conditions = root["properties"]["status"]["properties"]["conditions"]
        self.assertEqual(conditions["x-kubernetes-list-map-keys"], ["type"])
        self.assertEqual(conditions["items"]["properties"]["status"]["enum"], ["True", "False", "Unknown"])

    def test_a_definition_without_a_status_has_no_subresource(self) -> None:
        class Optional(TypedDict, total=False):
            name: str

        made = definition("example.org/v1/Team", spec=Optional, scope="Cluster")
        version = made["spec"]["versions"][0]
        self.assertNotIn("subresources", version)
        self.assertNotIn("status", version["schema"]["openAPIV3Schema"]["properties"])
        self.assertEqual(version["schema"]["openAPIV3Schema"]["required"], [])
        self.assertEqual((made["metadata"]["name"], made["spec"]["scope"]), ("teams.example.org", "Cluster"))


if __name__ == "__main__":
    unittest.main()
