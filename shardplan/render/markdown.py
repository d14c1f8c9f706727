"""Documents as Markdown, for issues and design documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from shardplan.render.page import Fields, Grid, Lines

if TYPE_CHECKING:
    from shardplan.render.page import Block, Page


def markdown(document: Page) -> str:
    """The document with pipe tables and lists."""
    parts = [f"# {_escape(document.title)}"] if document.title else []
    parts += [_block(block) for block in document.filled]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Fields):
        body = [
            f"- **{_escape(name)}**: {'; '.join(_escape(value.text) for value in values)}"
            for name, values in block.items
        ]
    elif isinstance(block, Lines) and block.verbatim:
        body = ["```", *(item.text for item in block.items), "```"]
    elif isinstance(block, Lines):
        body = [f"- {_escape(item.text)}" for item in block.items]
    elif isinstance(block, Grid):
        body = _grid(block)
    else:
        assert_never(block)
    return "\n".join([*([f"## {_escape(block.title)}", ""] if block.title else []), *body])


def _grid(grid: Grid) -> list[str]:
    def row(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    return [
        row([_escape(column.name) for column in grid.columns]),
        row(["--:" if column.right else "---" for column in grid.columns]),
        *(row([_escape(cell.text) for cell in cells]) for cells in grid.rows),
    ]


def _escape(text: str) -> str:
    """The text on one line, with the marks of Markdown made harmless."""
    flat = " ".join(text.split())
    for mark in ("\\", "|", "*", "_", "`", "<", "["):
        flat = flat.replace(mark, "\\" + mark)
    return flat
