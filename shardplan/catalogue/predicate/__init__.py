"""The grammar of a rule's `when`: conditions over named facts, checked before they are ever evaluated.

Python's own parser, and a whitelist: `and or not`, comparisons (also chained), `+ - * / // %`, `min max`, names, numbers,
and words compared with `==`, `!=` or `in`. Every name must be known; both sides of `+`, `-` and of a comparison must have
the same unit (0 has every unit); `*` and `/` combine units; `//` and `%` also take a pure number on the right.
One tree gives the mask over all candidates and the explanation of one.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.catalogue.dimension import TRUTH, Kind
from shardplan.catalogue.predicate.check import Checker, said, tree_of
from shardplan.catalogue.predicate.evaluate import explanation, value_of
from shardplan.errors import InputError, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

    from shardplan.units import Bools

__all__ = ["Predicate", "parse"]


@dataclass(frozen=True, eq=False)
class Predicate:
    """A checked condition. Equal if written the same up to spaces and needless parentheses."""

    tree: ast.expr
    kinds: Mapping[str, Kind]
    """Kind of each name it uses."""

    @cached_property
    def text(self) -> str:
        """The condition in canonical spelling."""
        return ast.unparse(self.tree)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Predicate) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def names(self) -> frozenset[str]:
        """Facts and constants it uses."""
        return frozenset(self.kinds)

    def mask(self, facts: Mapping[str, Any], n: int) -> Bools:
        """Where the condition holds, `(n,)`. Facts are scalars or columns `(n,)`, asked for only when they matter."""
        with np.errstate(all="ignore"):  # Guard: x / 0 is inf and 0 / 0 nan, which no comparison but != accepts.
            value = value_of(self.tree, facts)
        return np.array(np.broadcast_to(value, (n,)), dtype=np.bool_)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether the condition holds for one candidate; all facts are scalars. Python itself evaluates the checked tree."""
        try:
            with np.errstate(all="ignore"):
                return bool(eval(self._code, {"__builtins__": {}, "min": min, "max": max}, facts))  # noqa: S307 - whitelisted
        except ZeroDivisionError:  # numpy's division knows infinity
            return bool(self.mask(facts, 1)[0])

    @cached_property
    def _code(self) -> CodeType:
        """The tree as Python code."""
        return compile(ast.fix_missing_locations(ast.Expression(self.tree)), "when", "eval")

    def explain(self, facts: Mapping[str, Any]) -> str:
        """Why it holds (or does not) for one candidate, with the numbers: `tp 8 > 1 and tp_comm_s 400 ms > ...`."""
        with np.errstate(all="ignore"):
            return explanation(self.tree, facts, self.kinds)


def parse(text: str, known: Mapping[str, Kind], mark: Mark | None = None) -> Predicate:
    """The condition that a text says about known names.

    `mark` is where the text begins; errors are placed inside it, exactly if the text stands on one line unquoted.
    Raises InputError with everything wrong.
    """
    checker = Checker(text, known, mark or Mark("expression", 1, 1))
    tree = tree_of(text, checker)
    if tree is not None and (found := checker.kind(tree)) not in (TRUTH, None):
        checker.fault("SP012", tree, f"expected a condition (true or false), found {said(found)}")
    if checker.faults:
        raise InputError(checker.faults)
    assert tree is not None
    return Predicate(tree, checker.used)
