"""The arithmetic of a plan as lines: formula, letters filled in, result. For `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from shardplan.cost.term import source_of
from shardplan.plan import LineOut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.cost.term import Term
    from shardplan.engine.priced import Priced

Unit = Literal["bytes", "s", "flops", "tokens", ""]
_UNITS: tuple[tuple[str, Unit], ...] = (
    ("_bytes", "bytes"),
    ("_s", "s"),
    ("_flops", "flops"),
    ("_tokens", "tokens"),
)


def memory_lines(priced: Priced, row: int) -> tuple[LineOut, ...]:
    """Every memory line of one candidate."""
    return _lines(priced.estimates.memory.terms_at(row), row)


def communication_lines(priced: Priced, row: int) -> tuple[LineOut, ...]:
    """Every communication line of one candidate that moves anything."""
    moving = (c for c in priced.estimates.collectives if c.bytes[row] > 0)
    return _lines((term for collective in moving for term in collective.terms), row)


def time_lines(priced: Priced, row: int) -> tuple[LineOut, ...]:
    """Every line of one candidate's step time."""
    return _lines(priced.estimates.time.terms, row)


def _lines(terms: Iterable[Term], row: int) -> tuple[LineOut, ...]:
    """Terms as lines; those that are zero say nothing."""
    return tuple(
        LineOut(
            name=term.name,
            formula=term.formula,
            letters=term.at(row),
            value=term.value_at(row),
            unit=next((unit for suffix, unit in _UNITS if term.name.endswith(suffix)), ""),
            source=source_of(term.function),
        )
        for term in terms
        if term.value_at(row)
    )
