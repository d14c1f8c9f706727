"""The operators of conditions, and the words they compare with."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

COMPARE: Final[dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
ARITHMETIC: Final[dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
}
CALLS: Final[dict[str, Callable[[Any, Any], Any]]] = {"min": np.minimum, "max": np.maximum}


def words(node: ast.expr) -> tuple[str, ...] | None:
    """The words of a word literal or a tuple of them, else None."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return tuple(values) if values and len(values) == len(parts) else None
