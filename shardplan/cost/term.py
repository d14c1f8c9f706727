"""A number that remembers its formula.

Every priced line is a `Term`: a pure function of letters and the letters' values. The value is computed by calling the
function; the text `explain` prints is that function's own return expression. They cannot drift apart.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardplan.units import Floats


@dataclass(frozen=True, slots=True)
class Term:
    """One line of a plan's arithmetic, for all candidates at once."""

    name: str
    """What is computed, with its unit as suffix: `logits_bytes`, `fsdp_gather_s`."""
    function: Callable[..., Any]
    """Pure function with one return statement, of single letters; its docstring says units and source."""
    letters: Mapping[str, Any]
    """Arguments by letter: scalars, or columns `(n,)`."""
    value: Floats = field(init=False)
    """The function's result, `(n,)` or a scalar."""

    def __post_init__(self) -> None:
        """Compute the value once."""
        object.__setattr__(self, "value", self.function(**self.letters))

    @property
    def formula(self) -> str:
        """The function's return expression, as text."""
        return formula_text(self.function)

    def at(self, row: int) -> dict[str, float]:
        """Letters of one candidate."""
        return {k: float(v if getattr(v, "ndim", 0) == 0 else v[row]) for k, v in self.letters.items()}

    def value_at(self, row: int) -> float:
        """Result for one candidate."""
        return float(self.value if getattr(self.value, "ndim", 0) == 0 else self.value[row])


@cache
def formula_text(function: Callable[..., Any]) -> str:
    """The return expression of a one-return function, e.g. `2 * n * D * L`.

    Raises AssertionError if the function has not exactly one return statement: such a function is not a formula.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    assert len(returns) == 1, f"{function.__name__} is not a formula: {len(returns)} returns"
    value = returns[0].value
    assert value is not None
    return ast.unparse(value).replace("np.", "")


@cache
def source_of(function: Callable[..., Any]) -> str | None:
    """What the function's docstring names after `Source:`, or None."""
    doc = inspect.getdoc(function) or ""
    _, found, source = doc.partition("Source:")
    return " ".join(source.split()) if found else None
