"""What a page of output says, apart from how it looks: a title and blocks of text, fields and grids.

Pages (`recommend`, `check`, ...) build a `Page` once; `table`, `plain` and `markdown` lay it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]
"""What a piece of text means to the reader; formats without colour ignore it, so the words must say it too."""


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of text with its tone."""

    text: str
    tone: Tone = ""
    share: float | None = None
    """Share of a whole, for a bar on a terminal."""
    short: str | None = None
    """What a terminal shows in its place, where the whole can be had otherwise."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid. On a terminal, a column `under` another shares its place, one line below."""

    name: str
    right: bool = False
    under: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of equal meaning; every row has one `Text` a column."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Text, ...], ...]

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        assert all(len(row) == len(names) for row in self.rows), f"ragged grid {self.title!r}"
        assert all(column.under in (None, *names) for column in self.columns), f"no such column in {self.title!r}"


@dataclass(frozen=True, slots=True)
class Fields:
    """Named values, each of one or more lines."""

    title: str
    items: tuple[tuple[str, tuple[Text, ...]], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Sentences, one a line; `verbatim` ones are to be copied as they stand (commands, flags)."""

    title: str
    items: tuple[Text, ...]
    verbatim: bool = False


Block = Grid | Fields | Lines


@dataclass(frozen=True, slots=True)
class Page:
    """A page: a headline and its blocks; blocks without content are left out."""

    title: str
    blocks: tuple[Block, ...]

    @property
    def filled(self) -> tuple[Block, ...]:
        """The blocks that have something to say."""
        return tuple(block for block in self.blocks if (block.rows if isinstance(block, Grid) else block.items))


def texts(*parts: str | Text) -> tuple[Text, ...]:
    """Pieces of text, plain strings without tone."""
    return tuple(part if isinstance(part, Text) else Text(part) for part in parts)
