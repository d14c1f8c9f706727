"""A parsed document: its value, and where in the text each part of it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from shardplan.errors import Diagnostic, InputError, Mark

Key = str | int
Path = tuple[Key, ...]

MAX_DEPTH: Final = 64
"""Nesting beyond which an input is refused."""
MAX_NODES: Final = 100_000
"""Values a document may hold once its aliases are written out."""

_UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Node:
    """One value with its place, the places of its keys, and the nodes inside it."""

    value: Any
    line: int
    column: int
    children: dict[Key, Node] = field(default_factory=dict)
    keys: dict[Key, tuple[int, int]] = field(default_factory=dict)
    n_nodes: int = 1
    """Values in here once aliases are written out, this one included."""


@dataclass(frozen=True, slots=True)
class Document:
    """A value read from text called `name`; `marks` is the tree of places, None for a value made in memory."""

    value: Any
    name: str
    marks: Node | None = None

    def mark(self, path: Path = ()) -> Mark:
        """Where the value at a path stands; where its nearest existing ancestor does, if it is not there."""
        node = self._nearest(path)
        return Mark(self.name, node.line, node.column) if node else Mark(self.name)

    def key_mark(self, path: Path) -> Mark:
        """Where the last key of a path stands; as `mark` for an item of a list or a missing key."""
        parent = self._nearest(path[:-1])
        place = parent.keys.get(path[-1]) if parent and path else None
        return Mark(self.name, *place) if place else self.mark(path)

    def at(self, path: Path) -> Any:
        """The value at a path; raises InputError if a key of it is missing."""
        value = self.value
        for depth, key in enumerate(path):
            inside = isinstance(value, dict) and key in value
            if not inside and not (isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)):
                fail("SP011", f"missing key {dotted(path[: depth + 1])!r}", self.mark(path[:depth]))
            value = value[key]
        return value

    def _nearest(self, path: Path) -> Node | None:
        node = self.marks
        for key in path:
            if node is None or key not in node.children:
                break
            node = node.children[key]
        return node


def dotted(path: Path) -> str:
    """A path as people write it: `layer_groups[0].attention`."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def fail(code: str, message: str, mark: Mark, hint: str | None = None) -> NoReturn:
    """Raise an InputError of one diagnostic."""
    raise InputError([Diagnostic(code, message, mark, hint)])


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column, from 1, of a character of a text."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def clean(text: str, name: str) -> str:
    """The text without a byte-order mark; raises InputError if it holds what no text file should, or nothing."""
    text = text.removeprefix("\ufeff")
    if match := _UNREADABLE.search(text):
        place = Mark(name, *place_of(text, match.start()))
        fail("SP002", f"unreadable character U+{ord(match[0]):04X}", place, "is this a binary file?")
    if not text.strip():
        fail("SP006", "the input is empty", Mark(name))
    return text
