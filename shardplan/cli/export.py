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
    from shardplan.cli.diagnostics import print_problems
    from shardplan.cli.output import emit, finish
    from shardplan.engine import decide
    from shardplan.errors import ExitCode
    from shardplan.exporters.maxtext import as_command, as_flags, as_yml, model_flags
    from shardplan.gate import plan_of_rank
    from shardplan.load import load_case

    loaded = load_case(case)
    model_flags(loaded.architecture)  # says at once what MaxText cannot express
    plan = decide(loaded, top=rank, objective=objective.value)
    if not plan.plans:
        print_problems(plan.problems)
        finish(ExitCode.NO)
    choice = plan_of_rank(plan, rank)
    if format_ is MaxTextFormat.FLAGS:
        emit(as_flags(choice.maxtext_flags))
    elif format_ is MaxTextFormat.YML:
        emit(as_yml(choice.maxtext_flags))
    else:
        emit(as_command(choice.maxtext_flags, run_name=plan.case, libtpu_init_args=choice.libtpu_init_args))
