"""`shardplan rules`: the catalogue, or the page of one rule."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from shardplan.cli.options import OutputOption, WidthOption
from shardplan.render import Format

_CODE = re.compile(r"SP\d+", re.IGNORECASE)


def rules(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="A rule, such as SP201.")] = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""List the rules a plan is judged by, or print one rule's page: when, why, sources, examples.

    \b
    Examples:
      shardplan rules
      shardplan rules SP201
      shardplan rules -o markdown
    """
    show_rules(code, output, width)


def is_code(word: str) -> bool:
    """Whether a word is written like a rule's code."""
    return _CODE.fullmatch(word) is not None


def show_rules(code: str | None, output: Format | None, width: int | None) -> None:
    """Print the catalogue, or one rule."""
    from shardplan.cli.output import show
    from shardplan.engine.decide import catalogue
    from shardplan.render.describe import describe_rule
    from shardplan.render.lists import rule_page, rules_page

    if code is None:
        found = [describe_rule(rule) for rule in catalogue()]
        show(found, lambda: rules_page(found), output, width)
    else:
        rule = describe_rule(catalogue().rule(code.upper()))
        show(rule, lambda: rule_page(rule), output, width)
