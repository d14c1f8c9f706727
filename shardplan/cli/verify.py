"""`shardplan verify`: compile plans with the real MaxText and compare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shardplan.cli.options import CaseArgument, MaxTextOption, OutputOption, RankOption, WidthOption

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.plan import VerifyOut

PythonOption = Annotated[
    Path | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Python that has MaxText and libtpu; by default $SHARDPLAN_MAXTEXT_PYTHON, then this one.",
    ),
]
TopOption = Annotated[
    int | None, typer.Option("--top", metavar="N", min=1, max=20, help="Verify the first N plans instead of one.")
]
LimitOption = Annotated[
    float, typer.Option("--time-limit", metavar="SECONDS", min=1, max=86400, help="Give up on one plan after this.")
]
CacheOption = Annotated[bool, typer.Option("--cache/--no-cache", help="Whether to use and keep compiled results.")]


def verify(  # noqa: PLR0917 - one argument an option
    case: CaseArgument,
    rank: RankOption = None,
    top: TopOption = None,
    python: PythonOption = None,
    maxtext: MaxTextOption = None,
    time_limit: LimitOption = 1800.0,
    cache: CacheOption = True,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""Compile plans with the real MaxText and XLA TPU compiler, without a TPU, and compare the memory.

    A compile takes minutes; results are kept and reused while flags, topology and versions stay the same.

    \b
    Examples:
      shardplan verify case.yaml
      shardplan verify case.yaml --top 3 --python .venv-maxtext/bin/python
    """
    from shardplan.cli.output import finish, show
    from shardplan.engine.chosen import chosen
    from shardplan.engine.decide import decide
    from shardplan.errors import ExitCode
    from shardplan.loaders.load import load_case
    from shardplan.plan.choice import plan_name
    from shardplan.render.verify import verify_page
    from shardplan.verify.compare import verify as verify_choice
    from shardplan.verify.environment import find_environment
    from shardplan.verify.runner import cache_folder

    environment = find_environment(str(python) if python else None)
    loaded = load_case(case, maxtext)
    one = None if top else chosen(loaded, rank)
    plans = list(decide(loaded, top).plans) if top else [one.choice] if one else []
    results: list[VerifyOut] = [
        verify_choice(
            loaded,
            plan,
            environment,
            time_limit_s=time_limit,
            progress=_progress(f"{plan_name(plan.rank)} ({plan.strategy})"),
            cache=cache_folder() if cache else None,
        )
        for plan in plans
    ]
    show(results[0] if len(results) == 1 and not top else results, lambda: verify_page(results), output, width)
    refused = not results or any(result.compiled.oom or result.compiled.error for result in results)
    finish(ExitCode.NO if refused else ExitCode.YES)


def _progress(name: str) -> Callable[[str, float], None]:
    """Tells stage and elapsed time on stderr: on one line of a terminal, else once a stage."""
    told: list[str] = []

    def tell(stage: str, elapsed_s: float) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{name}: {stage}, {elapsed_s:.0f} s")
            sys.stderr.flush()
        elif stage not in told:
            told.append(stage)
            sys.stderr.write(f"{name}: {stage}\n")

    return tell
