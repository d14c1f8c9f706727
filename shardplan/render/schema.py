"""JSON Schemas of the output types, as published under `docs/schema/`."""

from __future__ import annotations

import json
from typing import Any

from shardplan.plan import CheckOut, DiffOut, ExplanationOut, PlanOut, ScaleOut, VerifyOut
from shardplan.source.schema import json_schema

SCHEMAS: dict[str, Any] = {
    "plan": PlanOut,
    "check": list[CheckOut],
    "explain": ExplanationOut,
    "verify": VerifyOut | list[VerifyOut],
    "diff": DiffOut,
    "scale": ScaleOut,
}
"""What each command prints with `-o json`; `check`, and `verify --top`, print a list."""


def schema_text(name: str) -> str:
    """The schema of a command's output, indented."""
    schema = json_schema(SCHEMAS[name], "serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"shardplan {name}"}
    return json.dumps({**schema, **head, **{k: v for k, v in schema.items() if k == "description"}}, indent=2) + "\n"
