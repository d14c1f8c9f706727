"""`shardplan export`: a plan in the words of the program that launches it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from shardplan.cli.options import CaseArgument, Objective, ObjectiveOption, RankOption


class MaxTextFormat(StrEnum):
    """What a MaxText launch can take."""

    FLAGS = "flags"
    YML = "yml"
    COMMAND = "command"


def export() -> None:
    """Print a plan as configuration for the program that launches it."""


def maxtext(
    case: CaseArgument,
    rank: RankOption = 1,
    objective: ObjectiveOption = Objective.STEP_TIME,
    format_: Annotated[
        MaxTextFormat,
        typer.Option("--format", help="key=value flags, a .yml for base_config, or the whole command."),
    ] = MaxTextFormat.FLAGS,
) -> None:
    r"""Print the mesh, batch, remat, precision and kernel flags of a plan, as MaxText takes them.

    \b
    Examples:
      shardplan export maxtext case.yaml
      shardplan export maxtext case.yaml --rank 2 --format yml > plan.yml
      python3 -m maxtext.trainers.pre_train.train base.yml $(shardplan export maxtext case.yaml)
    """
    from shardplan.cli.output import emit

    raise NotImplementedError(case, rank, objective, format_, emit)
