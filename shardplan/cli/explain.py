"""`shardplan explain`: the arithmetic behind a plan, or the page of a rule."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan.cli.options import MaxTextOption, OutputOption, RankOption, WidthOption


def explain(
    what: Annotated[str, typer.Argument(metavar="CASE|CODE", help="YAML file of a case, or the code of a rule.")],
    rank: RankOption = None,
    maxtext: MaxTextOption = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""Show every number of a plan as formula, letters filled in and result; or what a rule code means.

    \b
    Examples:
      shardplan explain case.yaml
      shardplan explain case.yaml --rank 2 -o markdown
      shardplan explain SP311
    """
    from shardplan.cli.rules import is_code, show_rules

    if is_code(what):
        show_rules(what, output, width)
        return
    from shardplan.cli.output import show
    from shardplan.engine.explain import explain as explain_plan
    from shardplan.loaders.load import load_case
    from shardplan.render.explain import explain_page

    explanation = explain_plan(load_case(what, maxtext), rank)
    show(explanation, lambda: explain_page(explanation), output, width)
