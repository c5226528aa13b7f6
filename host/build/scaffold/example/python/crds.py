"""Prints the definitions of the kinds in api.py. `pintle crds` runs it, and writes what it prints to crds/."""

from api import {{Kind}}Spec, {{Kind}}Status
from pintle.crds import Column, definition, show

if __name__ == "__main__":
    show(
        definition(
            "{{apiKind}}",
            plural="{{plural}}",
            scope="{{scope}}",
            categories=["all"],
            description="{{Kind}} has members, which a ConfigMap lists.",
            columns=[
                Column("Members", "integer", ".status.members"),
                Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
                Column("Age", "date", ".metadata.creationTimestamp"),
            ],
            spec={{Kind}}Spec,
            status={{Kind}}Status,
        )
    )
