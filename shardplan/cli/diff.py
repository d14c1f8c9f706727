"""`shardplan diff`: what changed between two plans, and what each change does."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan.cli.options import LaunchMaxTextOption, OutputOption, WidthOption

_REFERENCE = "a case with a plan section, FILE#RANK of a case or of recommend -o json, flags, or a launch command"
OldArgument = Annotated[str, typer.Argument(metavar="OLD", help=f"File: {_REFERENCE}.")]
NewArgument = Annotated[str, typer.Argument(metavar="NEW", help="The same, for the new plan.")]
RankOldOption = Annotated[
    int | None, typer.Option("--rank-old", metavar="N", min=1, max=1000, help="Rank in OLD; by default 1.")
]
RankNewOption = Annotated[
    int | None, typer.Option("--rank-new", metavar="N", min=1, max=1000, help="Rank in NEW; by default 1.")
]
AcceleratorOption = Annotated[
    str | None, typer.Option("--accelerator", metavar="NAME", help="Slice of launch commands, such as tpu7x-256.")
]
SlicesOption = Annotated[
    int | None,
    typer.Option("--slices", metavar="N", min=1, max=100_000, help="Slices of launch commands; by default 1."),
]


def diff(  # noqa: PLR0917 - one argument an option
    old: OldArgument,
    new: NewArgument,
    rank_old: RankOldOption = None,
    rank_new: RankNewOption = None,
    accelerator: AcceleratorOption = None,
    slices: SlicesOption = None,
    maxtext: LaunchMaxTextOption = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""Compare two plans: what changed, and what each change does on its own to memory, communication and time.

    Each change is applied to OLD alone; the last row is all of them together, which may be more or less than their sum.

    \b
    Examples:
      shardplan diff before.yaml after.yaml
      shardplan diff plan.json#1 plan.json#2
      shardplan diff old.sh new.sh --accelerator tpu7x-256
    """
    from shardplan.cli.output import finish, show
    from shardplan.errors import ExitCode
    from shardplan.launch.diff import diff as compare
    from shardplan.launch.planned import read_planned
    from shardplan.render.diff import diff_page

    sides = [
        read_planned(reference, rank=rank, accelerator=accelerator, slices=slices, maxtext=maxtext)
        for reference, rank in ((old, rank_old), (new, rank_new))
    ]
    result = compare(*sides)
    show(result, lambda: diff_page(result), output, width)
    finish(ExitCode.YES)
