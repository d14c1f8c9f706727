"""Documents as plain text for pipes: one record a line, aligned, no borders, no colour, never shortened."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from shardplan.render.page import Fields, Grid, Lines

if TYPE_CHECKING:
    from shardplan.render.page import Block, Page

EMPTY = "-"
"""What stands where a record has nothing to say, so that columns can be counted."""


def plain(document: Page) -> str:
    """The document as lines of any length, ending in a newline."""
    parts = [document.title] if document.title else []
    parts += [_block(block) for block in document.filled]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Fields):
        width = max(len(name) for name, _ in block.items)
        rows = [
            f"{name if i == 0 else '':<{width}}  {_line(value.text)}"
            for name, values in block.items
            for i, value in enumerate(values)
        ]
    elif isinstance(block, Lines):
        rows = [item.text if block.verbatim else _line(item.text) for item in block.items]
    elif isinstance(block, Grid):
        rows = grid_lines(block, [0] * len(block.columns))
    else:
        assert_never(block)
    return "\n".join([*([block.title] if block.title else []), *rows])


def grid_lines(grid: Grid, widths: list[int]) -> list[str]:
    """The names of the columns and the rows, a line each, in columns at least as wide as `widths`, which grow to fit."""
    cells = [[column.name for column in grid.columns]]
    cells += [[_line(cell.text) or EMPTY for cell in row] for row in grid.rows]
    widths[:] = [max(width, *(len(row[i]) for row in cells)) for i, width in enumerate(widths)]
    return [
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(row, widths, grid.columns, strict=True)
        ).rstrip()
        for row in cells
    ]


def _line(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())
