"""The value of a checked condition over all candidates, and its explanation for one."""

from __future__ import annotations

import ast
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.catalogue.dimension import Kind, format_quantity, unit_text
from shardplan.catalogue.predicate.check import Checker
from shardplan.catalogue.predicate.syntax import ARITHMETIC, CALLS, COMPARE, words
from shardplan.errors import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping


def value_of(node: ast.expr, facts: Mapping[str, Any]) -> Any:  # noqa: PLR0911 - one return a kind of node
    """The value of a checked sub-expression: a numpy scalar or a column."""
    match node:
        case ast.Name():
            value = facts[node.id]
            return value if isinstance(value, (np.ndarray, str)) else np.asarray(value)[()]
        case ast.Constant():
            return np.asarray(node.value)[()]
        case ast.BoolOp():
            return _all_of(node, facts) if isinstance(node.op, ast.And) else _any_of(node, facts)
        case ast.UnaryOp():
            value = value_of(node.operand, facts)
            return np.logical_not(value) if isinstance(node.op, ast.Not) else -value
        case ast.Compare():
            sides = [node.left, *node.comparators]
            pairs = zip(sides, node.ops, sides[1:], strict=False)
            return reduce(np.logical_and, [_compared(left, op, right, facts) for left, op, right in pairs])
        case ast.BinOp():
            return ARITHMETIC[type(node.op)][1](value_of(node.left, facts), value_of(node.right, facts))
        case _:
            assert isinstance(node, ast.Call)
            assert isinstance(node.func, ast.Name)
            return reduce(CALLS[node.func.id], [value_of(arg, facts) for arg in node.args])


def _all_of(node: ast.BoolOp, facts: Mapping[str, Any]) -> Any:
    """Conjunction, left to right; what cannot change the answer any more is not evaluated."""
    value: Any = np.True_
    for part in node.values:
        value = np.logical_and(value, value_of(part, facts))
        if not value.any():
            break
    return value


def _any_of(node: ast.BoolOp, facts: Mapping[str, Any]) -> Any:
    """Disjunction, left to right; what cannot change the answer any more is not evaluated."""
    value: Any = np.False_
    for part in node.values:
        value = np.logical_or(value, value_of(part, facts))
        if value.all():
            break
    return value


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr, facts: Mapping[str, Any]) -> Any:
    listed = words(right)
    if listed is None:
        return COMPARE[type(op)][1](value_of(left, facts), value_of(right, facts))
    found = np.isin(value_of(left, facts), listed)
    return np.logical_not(found) if isinstance(op, (ast.NotEq, ast.NotIn)) else found


def explanation(node: ast.expr, facts: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    """A condition with its numbers; of `and` and `or` only the parts that decided."""
    match node:
        case ast.BoolOp():
            outcome = bool(value_of(node, facts))
            conjunction = isinstance(node.op, ast.And)
            parts = [part for part in node.values if conjunction == outcome or bool(value_of(part, facts)) == outcome]
            if len(parts) == 1:
                return explanation(parts[0], facts, kinds)
            word = " and " if conjunction else " or "
            return word.join(_bracketed(part, facts, kinds) for part in parts)
        case ast.UnaryOp(op=ast.Not()):
            inner = explanation(node.operand, facts, kinds)
            return f"not {inner}" if isinstance(node.operand, ast.Name) else f"not ({inner})"
        case ast.Compare():
            sides = [_side(node.left, facts, kinds)]
            for op, right in zip(node.ops, node.comparators, strict=True):
                if words(right) is None:
                    sides.append(f"{COMPARE[type(op)][0]} {_side(right, facts, kinds)}")
            return " ".join(sides)
        case _:
            assert isinstance(node, ast.Name), "a condition is a truth, a comparison or made of them"
            return node.id


def _bracketed(node: ast.expr, facts: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    """A part of `and` or `or`, in parentheses where two of its own parts decided."""
    text = explanation(node, facts, kinds)
    return f"({text})" if isinstance(node, ast.BoolOp) and (" and " in text or " or " in text) else text


def _side(node: ast.expr, facts: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    """One side of a comparison: its names with their values, and the result if something was computed."""
    text = _letters(node, facts, kinds)
    if isinstance(node, (ast.Name, ast.Constant)):
        return text
    found = Checker("", kinds, Mark("")).kind(node)
    unit = unit_text(found) if isinstance(found, tuple) and found else ""
    return f"{text} = {format_quantity(value_of(node, facts), unit)}"


def _letters(node: ast.expr, facts: Mapping[str, Any], kinds: Mapping[str, Kind]) -> str:
    match node:
        case ast.Name():
            return f"{node.id} {format_quantity(facts[node.id], kinds[node.id].unit)}"
        case ast.Constant():
            return str(node.value)
        case ast.UnaryOp():
            return f"-{_letters(node.operand, facts, kinds)}"
        case ast.BinOp():
            left, right = _letters(node.left, facts, kinds), _letters(node.right, facts, kinds)
            if isinstance(node.left, ast.BinOp) and _binds(node.left) < _binds(node):
                left = f"({left})"
            if isinstance(node.right, ast.BinOp) and _binds(node.right) <= _binds(node):
                right = f"({right})"
            return f"{left} {ARITHMETIC[type(node.op)][0]} {right}"
        case _:
            assert isinstance(node, ast.Call)
            inner = ", ".join(_letters(arg, facts, kinds) for arg in node.args)
            return f"{ast.unparse(node.func)}({inner})"


def _binds(node: ast.BinOp) -> int:
    """How tightly an operator binds: 0 for sums, 1 for products."""
    return 0 if isinstance(node.op, (ast.Add, ast.Sub)) else 1
