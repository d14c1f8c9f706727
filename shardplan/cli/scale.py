"""`shardplan scale`: the best plan on more and more chips."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from shardplan.cli.options import CaseArgument, OutputOption, WidthOption

ChipsOption = Annotated[
    str, typer.Option("--chips", metavar="FROM..TO", help="Chips from the fewest to the most, doubling each time.")
]


def scale(
    case: CaseArgument, chips: ChipsOption = "16..4096", output: OutputOption = None, width: WidthOption = None
) -> None:
    r"""Show strong scaling: the best plan and step time per slice size, and where communication takes over.

    The global batch stays as the case says it. With training tokens, days; with a price, cost.

    \b
    Examples:
      shardplan scale case.yaml --chips 64..1024
      shardplan scale case.yaml -o json
    """
    from shardplan.cli.output import finish, show
    from shardplan.engine.scaling import scale as scale_case
    from shardplan.errors import Diagnostic, ExitCode, InputError
    from shardplan.loaders.load import load_case
    from shardplan.render.scale import scale_page

    found = re.fullmatch(r"(\d{1,6})\.\.(\d{1,6})", chips)
    if not found or not 0 < int(found[1]) <= int(found[2]):
        message = f"--chips is {chips[:40]!r}; expected FROM..TO, such as 16..4096, with 1 <= FROM <= TO"
        raise InputError([Diagnostic("SP013", message)])
    result = scale_case(load_case(case), int(found[1]), int(found[2]))
    show(result, lambda: scale_page(result), output, width)
    finish(ExitCode.YES if any(row.fits for row in result.rows) else ExitCode.NO)
