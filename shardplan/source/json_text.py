"""JSON to values with places; duplicates are errors, as in YAML."""

from __future__ import annotations

import re
from bisect import bisect_right
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final, NoReturn

from shardplan.errors import Diagnostic, InputError, Mark
from shardplan.source.document import MAX_DEPTH, MAX_NODES, Document, Key, Node, clean, fail

_DECODER: Final = JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"-?[A-Za-z]+")
_WORDS: Final = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),  # what Python writes, though no JSON
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_MAX_DIGITS: Final = 400


def parse_json(text: str, name: str) -> Document:
    """The value of a JSON text; raises InputError, with places, for anything that is not JSON."""
    reader = _Reader(clean(text, name), name)
    root = reader.whole()
    if reader.diagnostics:
        raise InputError(reader.diagnostics)
    return Document(root.value, name, root)


class _Reader:
    """A recursive-descent reader; `pos` is the next character."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.pos = 0
        self.n_nodes = 0
        self.diagnostics: list[Diagnostic] = []
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def whole(self) -> Node:
        root = self.value(0)
        if self.peek():
            self.refuse("text after the end of the value")
        return root

    def place(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def mark(self, offset: int) -> Mark:
        return Mark(self.name, *self.place(offset))

    def refuse(self, problem: str, hint: str | None = None) -> NoReturn:
        fail("SP004", f"not well-formed JSON: {problem}", self.mark(self.pos), hint)

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        match = _SPACE.match(self.text, self.pos)
        assert match is not None, "zero spaces match anywhere"
        self.pos = match.end()
        return self.text[self.pos : self.pos + 1]

    def expect(self, character: str, hint: str | None = None) -> None:
        if self.peek() != character:
            self.refuse(f"expected {character!r}, found {self.text[self.pos : self.pos + 1] or 'the end'!r}", hint)
        self.pos += 1

    def value(self, depth: int) -> Node:
        head = self.peek()
        self.n_nodes += 1
        if depth > MAX_DEPTH:
            fail("SP003", f"nested more than {MAX_DEPTH} levels deep", self.mark(self.pos))
        if self.n_nodes > MAX_NODES:
            fail("SP003", f"holds more than {MAX_NODES:,} values", self.mark(self.pos))
        if head == "{":
            return self.mapping(depth)
        if head == "[":
            return self.sequence(depth)
        place = self.place(self.pos)
        if head == '"':
            return Node(self.string(), *place)
        if match := _NUMBER.match(self.text, self.pos):
            return Node(self.number(match), *place)
        match = _WORD.match(self.text, self.pos)
        if match is None or match[0] not in _WORDS:
            found = match[0][:40] if match else head or "the end"
            self.refuse(f"expected a value, found {found!r}")
        self.pos = match.end()
        return Node(_WORDS[match[0]], *place)

    def number(self, match: re.Match[str]) -> int | float:
        if match[2] or match[3]:
            self.pos = match.end()
            return float(match[0])
        if len(match[0]) > _MAX_DIGITS:
            fail("SP008", f"a whole number of {len(match[0])} digits", self.mark(self.pos))
        self.pos = match.end()
        return int(match[0])

    def string(self) -> str:
        text: str
        try:
            text, end = _DECODER.raw_decode(self.text, self.pos)
        except JSONDecodeError as error:
            self.pos = error.pos
            self.refuse(error.msg)
        if any("\ud800" <= character <= "\udfff" for character in text):
            fail("SP008", "text with half of a surrogate pair", self.mark(self.pos))
        self.pos = end
        return text

    def sequence(self, depth: int) -> Node:
        place = self.place(self.pos)
        self.pos += 1
        items: list[Node] = []
        while self.peek() != "]":
            if items:
                self.expect(",")
            items.append(self.value(depth + 1))
        self.pos += 1
        return Node([item.value for item in items], *place, dict(enumerate(items)))

    def mapping(self, depth: int) -> Node:
        place = self.place(self.pos)
        self.pos += 1
        children: dict[Key, Node] = {}
        keys: dict[Key, tuple[int, int]] = {}
        value: dict[str, Any] = {}
        while self.peek() != "}":
            if keys:
                self.expect(",")
            if self.peek() != '"':
                self.refuse("expected a key in double quotes")
            start = self.pos
            key = self.string()
            self.expect(":")
            child = self.value(depth + 1)
            if key in keys:
                first = Mark(self.name, *keys[key])
                problem = f"key {key[:60]!r} is given twice"
                self.diagnostics.append(Diagnostic("SP005", problem, self.mark(start), f"first given at {first}"))
                continue
            keys[key] = self.place(start)
            children[key] = child
            value[key] = child.value
        self.pos += 1
        return Node(value, *place, children, keys)
