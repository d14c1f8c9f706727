"""The checks of a condition before it is used: what is allowed, which names are known, whether units agree."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from shardplan.catalogue.dimension import CHOICE, TRUTH, Dimension, Kind, combine, dimension, unit_text
from shardplan.catalogue.predicate.syntax import ARITHMETIC, COMPARE, words
from shardplan.errors import Diagnostic, Mark, suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LENGTH: Final = 1000
MAX_DEPTH: Final = 40
MAX_NUMBER: Final = 2.0**53
SHOWN_LENGTH: Final = 80
"""Characters of a condition that an error repeats."""


def tree_of(text: str, checker: Checker) -> ast.expr | None:
    """The syntax tree, or None with a fault noted: not an expression, too long or too deep."""
    if len(text) > MAX_LENGTH:
        checker.fault("SP003", None, f"expected at most {MAX_LENGTH} characters, found {len(text)}")
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = (getattr(error, "offset", None) or 1) - 1
        reason = getattr(error, "msg", None) or "cannot be read"
        checker.fault("SP004", offset, f"expected a condition such as `tp > 1`: {reason}")
        return None
    level, depth = [tree], 0
    while level and depth <= MAX_DEPTH:
        level = [child for node in level for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        depth += 1
    if level:
        checker.fault("SP003", None, f"nested deeper than {MAX_DEPTH} levels")
        return None
    return tree


ANY_UNIT: Final = "any unit"
Found = Dimension | str | Kind | None
"""Kind of a sub-expression: a dimension, `truth`, `any unit` (the literal 0), a choice, or None after a fault."""


@dataclass(slots=True)
class Checker:
    """Finds the kind of every sub-expression and notes all faults."""

    text: str
    known: Mapping[str, Kind]
    mark: Mark
    faults: list[Diagnostic] = field(default_factory=list)
    used: dict[str, Kind] = field(default_factory=dict)

    def fault(self, code: str, at: ast.expr | int | None, message: str, hint: str | None = None) -> None:
        """Note a fault at a node, at a character offset, or at the start."""
        place = self.mark
        offset = at if isinstance(at, int) else 0 if at is None else self._offset(at)
        if place.column is not None and "\n" not in self.text:
            place = Mark(place.source, place.line, place.column + offset)
        inside = ast.get_source_segment(self.text, at) if isinstance(at, ast.expr) else None
        shown = inside or self.text
        shown = shown if len(shown) <= SHOWN_LENGTH else shown[: SHOWN_LENGTH - 3] + "..."
        self.faults.append(Diagnostic(code, f"{message} in `{shown}`", place, hint))

    def _offset(self, node: ast.expr) -> int:
        """Characters before a node; ast counts bytes."""
        lines = self.text.encode().splitlines(keepends=True)
        before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
        return len(before.decode(errors="replace"))

    def kind(self, node: ast.expr) -> Found:  # noqa: PLR0911 - one return a kind of node
        """The kind of one sub-expression."""
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Constant():
                return self._constant(node)
            case ast.BoolOp():
                for part in node.values:
                    self._expect_truth(part)
                return TRUTH
            case ast.UnaryOp(op=ast.Not()):
                self._expect_truth(node.operand)
                return TRUTH
            case ast.UnaryOp(op=ast.USub()):
                return self._quantity(node.operand)
            case ast.Compare():
                self._compare(node)
                return TRUTH
            case ast.BinOp() if type(node.op) in ARITHMETIC:
                return self._arithmetic(node)
            case ast.Call(func=ast.Name(id=("min" | "max")), keywords=[]) if len(node.args) > 1:
                return reduce(lambda a, b: self._same(a, b, node), [self._quantity(arg) for arg in node.args])
        allowed = "and, or, not, comparisons, + - * / // %, min(), max(), names and numbers"
        self.fault("SP012", node, f"expected only {allowed}, found something else")
        return None

    def _name(self, node: ast.Name) -> Found:
        kind = self.known.get(node.id)
        if kind is None:
            self.fault("SP010", node, f"unknown fact {node.id!r}", suggest(node.id, self.known))
            return None
        self.used[node.id] = kind
        if kind.unit == TRUTH:
            return TRUTH
        return kind if kind.unit == CHOICE else dimension(kind.unit)

    def _constant(self, node: ast.Constant) -> Found:
        if type(node.value) not in (int, float):
            hint = "compare it with a fact of that kind: precision == 'fp8'" if isinstance(node.value, str) else None
            self.fault("SP012", node, "expected a number", hint)
            return None
        assert isinstance(node.value, (int, float))
        if not abs(node.value) <= MAX_NUMBER:
            self.fault("SP013", node, "expected a number up to 2**53")
            return None
        return () if node.value else ANY_UNIT

    def _expect_truth(self, node: ast.expr) -> None:
        found = self.kind(node)
        if found not in (TRUTH, None):
            self.fault("SP012", node, f"expected a condition, found {said(found)}")

    def _quantity(self, node: ast.expr) -> Found:
        found = self.kind(node)
        if found == TRUTH or isinstance(found, Kind):
            hint = "words are compared in quotes, with == != or in" if isinstance(found, Kind) else None
            self.fault("SP012", node, f"expected a number, found {said(found)}", hint)
            return None
        return found

    def _same(self, left: Found, right: Found, node: ast.expr) -> Found:
        """The common unit of two quantities, noting a fault if there is none."""
        if left is None or right is None:
            return None
        if ANY_UNIT in (left, right):
            return right if left == ANY_UNIT else left
        if left != right:
            self.fault("SP015", node, f"units differ: {said(left)} and {said(right)}")
            return None
        return left

    def _arithmetic(self, node: ast.BinOp) -> Found:
        left, right = self._quantity(node.left), self._quantity(node.right)
        if left is None or right is None:
            return None
        pure_divisor = isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right in ((), ANY_UNIT)
        if pure_divisor or (left == ANY_UNIT and isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv))):
            return left
        if isinstance(node.op, (ast.Add, ast.Sub, ast.Mod)):
            return self._same(left, right, node)
        left, right = (() if side == ANY_UNIT else side for side in (left, right))
        assert isinstance(left, tuple)
        assert isinstance(right, tuple)
        return combine(left, right, 1 if isinstance(node.op, ast.Mult) else -1)

    def _compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            listed = words(right)
            if listed is not None:
                self._compare_words(left, op, listed, right)
            elif type(op) not in COMPARE:
                self.fault("SP012", node, "expected < <= > >= == or != (and `in` only with words in parentheses)")
            else:
                self._same(self._quantity(left), self._quantity(right), node)

    def _compare_words(self, left: ast.expr, op: ast.cmpop, listed: tuple[str, ...], right: ast.expr) -> None:
        """A comparison with one word (`==`, `!=`) or with several in parentheses (`in`, `not in`)."""
        found = self.kind(left)
        if isinstance(right, ast.Constant) != isinstance(op, (ast.Eq, ast.NotEq)) or not isinstance(
            op, (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
        ):
            self.fault("SP012", right, "expected fact == 'word', fact != 'word' or fact in ('word', 'word')")
        elif not isinstance(found, Kind):
            if found is not None:
                self.fault("SP012", left, f"expected a fact with words as values, found {said(found)}")
        else:
            for word in listed:
                if word not in found.choices:
                    message = f"expected one of {', '.join(found.choices)}, found {word!r}"
                    self.fault("SP014", right, message, suggest(word, found.choices))


def said(found: Found) -> str:
    """A kind in words."""
    if isinstance(found, Kind):
        return f"one of {', '.join(found.choices)}"
    if isinstance(found, str):
        return {TRUTH: "a condition", ANY_UNIT: "0"}[found]
    return unit_text(found or ())
