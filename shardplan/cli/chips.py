"""`shardplan chips`: the accelerators, or one with every number and its source."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan.cli.completion import chip_names
from shardplan.cli.options import OutputOption, WidthOption


def chips(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A chip, such as tpu7x.", autocompletion=chip_names)
    ] = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""List the chips, or describe one: every figure with its source, slices and accelerator names.

    \b
    Examples:
      shardplan chips
      shardplan chips tpu7x
      shardplan chips v6e -o yaml
    """
    from shardplan.cli.output import show
    from shardplan.machine import chips as known
    from shardplan.render.describe import describe_chip
    from shardplan.render.lists import chip_page, chips_page

    if name is None:
        found = [describe_chip(known.load_chip(each)) for each in known.chip_names()]
        show(found, lambda: chips_page(found), output, width)
    else:
        chip = describe_chip(known.load_chip(name))
        show(chip, lambda: chip_page(chip), output, width)
