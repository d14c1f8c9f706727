"""`shardplan schema`: the JSON Schema of what `-o json` prints."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Schema(StrEnum):
    """Results with a published schema."""

    PLAN = "plan"
    CHECK = "check"
    EXPLAIN = "explain"
    VERIFY = "verify"
    DIFF = "diff"
    SCALE = "scale"


def schema(
    name: Annotated[
        Schema, typer.Argument(help="Whose output: recommend (plan), check, explain, verify, scale or diff.")
    ],
) -> None:
    r"""Print the JSON Schema of a command's `-o json`, generated from the output types.

    \b
    Examples:
      shardplan schema plan
      shardplan schema check > check.schema.json
    """
    from shardplan.cli.output import emit
    from shardplan.render.schema import schema_text

    emit(schema_text(name.value))
