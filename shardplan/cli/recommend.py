"""`shardplan recommend`: the ranked plans of a case."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan.cli.options import CaseArgument, MaxTextOption, Objective, ObjectiveOption, OutputOption, WidthOption


def recommend(  # noqa: PLR0917 - one argument an option
    case: CaseArgument,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, max=1000, help="How many plans to show.")] = 5,
    objective: ObjectiveOption = Objective.STEP_TIME,
    maxtext: MaxTextOption = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""Rank the ways to shard a case, each with memory, communication, step time and reasons.

    \b
    Examples:
      shardplan recommend case.yaml
      shardplan recommend case.yaml --top 10 --objective memory
      shardplan recommend case.yaml --maxtext 0.2.1
      shardplan recommend case.yaml -o json | jq '.plans[0].maxtext_flags'
    """
    from shardplan.cli.output import finish, show
    from shardplan.engine.decide import decide
    from shardplan.errors import ExitCode
    from shardplan.loaders.load import load_case
    from shardplan.render.recommend import recommend_page

    asked = load_case(case, maxtext)
    plan = decide(asked, top=top, objective=objective.value)
    show(plan, lambda: recommend_page(plan, asked.workload, case), output, width)
    finish(ExitCode.YES if plan.plans else ExitCode.NO)
