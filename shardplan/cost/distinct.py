"""Candidates that differ only in what a formula does not read share one evaluation.

A search lays every remat policy and vocabulary tiling over every mesh; most costs read a few columns. `Distinct` finds
the rows with different values in those columns, so that formulas run on hundreds of rows instead of a hundred thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.units import Bools, Floats, Ints

_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The rows that differ, and where each candidate finds its own."""

    first: Ints
    """Row of one candidate for each distinct combination, `(d,)`."""
    inverse: Ints
    """For each candidate, its combination, `(n,)`."""

    def spread(self, values: Floats) -> Floats:
        """Values per combination `(d,)`, or one for all, as values per candidate `(n,)`."""
        spread: Floats = np.broadcast_to(values, self.first.shape)[self.inverse]
        return spread


def distinct(columns: Sequence[Floats | Ints | Bools]) -> Distinct:
    """The distinct combinations of the columns.

    Rows are compared by a 64-bit mix of their values; two of a million rows collide with a chance below 1e-7.
    """
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        bits = np.ascontiguousarray(column, dtype=np.float64).view(np.uint64)
        key = (key ^ bits) * _MIX
        key ^= key >> _SHIFT
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    return Distinct(first, inverse)
