"""Verdicts on many configurations as text, piece by piece: a run that is stopped has printed what was done."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from typing import TYPE_CHECKING

from shardplan.render import Format, Style, render
from shardplan.render.check import COLUMNS, changes, check_page, counted, row
from shardplan.render.page import Grid, Page
from shardplan.render.plain import grid_lines, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardplan.plan import CheckOut
    from shardplan.render.page import Lines

STREAMED = frozenset({Format.JSON, Format.YAML, Format.PLAIN})
"""Formats that can be written as results come; the others are laid out when all of them are known."""


def streamed(results: Iterable[CheckOut], style: Style) -> Iterator[str]:
    """The pieces of a text, each as soon as it can be written; none if there is no result."""
    match style.format:
        case Format.JSON:
            return _json(results)
        case Format.YAML:
            return (render([result], lambda: Page("", ()), style) for result in results)
        case Format.PLAIN:
            return _plain(results)
        case _:
            found = tuple(results)
            return iter([render(found, lambda: check_page(found), style)] if found else [])


def _json(results: Iterable[CheckOut]) -> Iterator[str]:
    """A list with one result a line."""
    from shardplan.render.machine import to_line

    before = "["
    for result in results:
        yield before + to_line(result)
        before = ",\n "
    if before != "[":
        yield "]\n"


def _plain(results: Iterable[CheckOut]) -> Iterator[str]:
    """One result in full; several one a row, in columns as wide as the widest cell so far, and at the end their count."""
    left = iter(results)
    first = tuple(islice(left, 2))
    if len(first) == 1:
        yield plain(check_page(first))
    if len(first) <= 1:
        return
    verdicts: Counter[str] = Counter()
    patches: list[Lines] = []
    widths = [0] * len(COLUMNS)
    for number, result in enumerate(chain(first, left)):
        verdicts[result.verdict] += 1
        patches += changes([result])
        names, cells = grid_lines(Grid("", COLUMNS, (row(result),)), widths)
        yield f"{cells}\n" if number else f"{names}\n{cells}\n"
    yield "\n" + plain(Page(counted(verdicts), tuple(patches)))
