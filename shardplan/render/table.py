"""Documents for a terminal: rich tables that fold instead of cropping, at any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, assert_never

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text as Rich

from shardplan.render.page import Fields, Grid, Lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from shardplan.render.page import Block, Column, Page, Text, Tone

STYLES: dict[Tone, str] = {
    "": "",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "dim": "dim",
    "strong": "bold",
}
NARROWEST = 40
BAR_FROM = 96
"""Terminals at least this wide get bars beside shares."""
BAR_WIDTH = 8
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table(document: Page, width: int | None = None, *, color: bool | None = None) -> str:
    """The document laid out for `width` columns (None: the terminal's), with colour if asked for or possible."""
    console = Console(
        width=None if width is None else max(width, NARROWEST),
        no_color=None if color is None else not color,
        force_terminal=True if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if width is None and console.width < NARROWEST:
        console.width = NARROWEST
    with console.capture() as capture:
        if document.title:
            console.print(Rich(document.title, style="bold", overflow="fold"))
        for block in document.filled:
            console.print()
            console.print(_block(block, console.width))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _block(block: Block, width: int) -> RenderableType:
    if isinstance(block, Fields):
        body: RenderableType = _fields(block)
    elif isinstance(block, Lines):
        body = Padding(Group(*(_rich(item) for item in block.items)), (0, 0, 0, 2))
    elif isinstance(block, Grid):
        body = _grid(block, width)
    else:
        assert_never(block)
    return Group(Rich(block.title, style="bold cyan", overflow="fold"), body) if block.title else body


def _fields(block: Fields) -> Table:
    fields = Table.grid(padding=(0, 2))
    fields.add_column(style="cyan", no_wrap=True)
    fields.add_column(overflow="fold")
    for name, values in block.items:
        fields.add_row(name, Rich("\n").join(_rich(value) for value in values))
    return fields


def _grid(grid: Grid, width: int) -> Table:
    shown = [i for i, column in enumerate(grid.columns) if column.under is None]
    below = {i: [j for j, c in enumerate(grid.columns) if c.under == grid.columns[i].name] for i in shown}
    lines = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for i in shown:
        column = grid.columns[i]
        lines.add_column(_heading(column, [grid.columns[j] for j in below[i]]), overflow="fold", justify=_side(column))
    for row in grid.rows:
        lines.add_row(*(_stack(row[i], [row[j] for j in below[i]], width) for i in shown))
    return lines


def _side(column: Column) -> Literal["left", "right"]:
    return "right" if column.right else "left"


def _heading(column: Column, below: list[Column]) -> str:
    return "\n".join((column.name, *([" · ".join(c.name for c in below)] if below else [])))


def _stack(cell: Text, below: list[Text], width: int) -> Rich:
    stack = _rich(cell, bar=width >= BAR_FROM)
    for i, part in enumerate(part for part in below if _shown(part)):
        stack.append(" · " if i else "\n", style=STYLES["dim"])
        stack.append(_shown(part), style=STYLES[part.tone or "dim"])
    return stack


def _rich(text: Text, *, bar: bool = False) -> Rich:
    rich = Rich(overflow="fold")
    if bar and text.share is not None:
        rich.append(_bar(text.share) + " ", style=STYLES[text.tone])
    return rich.append(_shown(text), style=STYLES[text.tone])


def _shown(text: Text) -> str:
    return text.text if text.short is None else text.short


def _bar(share: float) -> str:
    """A bar of fixed width, full from a share of 1 on."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR_WIDTH * 8)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(BAR_WIDTH, "░")
