"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shardplan.render import Format


class Objective(StrEnum):
    """What a plan is ranked by."""

    STEP_TIME = "step-time"
    COST = "cost"
    MEMORY = "memory"


CaseArgument = Annotated[str, typer.Argument(metavar="CASE", help="YAML file with model, workload and cluster.")]
OutputOption = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="How to print; by default table on a terminal, plain in a pipe."),
]
WidthOption = Annotated[
    int | None,
    typer.Option("--width", metavar="N", min=20, max=1000, help="Columns of a table; by default the terminal's."),
]
MaxTextOption = Annotated[
    str | None,
    typer.Option(
        "--maxtext",
        metavar="RELEASE",
        help="MaxText to plan for: a version, tag, commit or date; by default the case's, then the newest known.",
    ),
]
LaunchMaxTextOption = Annotated[
    str | None,
    typer.Option(
        "--maxtext",
        metavar="RELEASE|auto",
        help="MaxText to judge under: a version, tag, commit or date; auto finds those that take it. By default the newest.",
    ),
]
ObjectiveOption = Annotated[Objective, typer.Option("--objective", help="What plans are ranked by.")]
RankOption = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="N",
        min=1,
        max=1000,
        help="Which plan, by its rank in recommend; by default the case's own, else the first.",
    ),
]
