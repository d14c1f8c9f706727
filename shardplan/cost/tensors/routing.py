"""Rows of the experts' buffers: how many a device makes room for, moves and computes for the tokens it has.

Source: MaxText 0.2.5 layers/moe.py (ragged_buffer_factor, capacity); maxtext reference 2.5, 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shardplan.spec import Case, FeedForward
    from shardplan.units import Floats, Ints


def worst_share(sparsity: float, expert: Floats | Ints) -> Floats:
    """Rows of a buffer that nothing bounds over those of balanced routing: all tokens of a group may want one device.

    `sparsity` is E / k.
    """
    worst: Floats = np.minimum(expert, sparsity)
    return worst


def buffer_share(case: Case, ff: FeedForward, expert: Floats | Ints) -> Floats:
    """Rows of the dropless buffer over those of balanced routing; 1 without expert parallelism."""
    chosen = case.runtime.ragged_buffer_factor
    worst = worst_share(ff.n_experts / ff.n_active_experts, expert)
    share: Floats = np.where(expert > 1, chosen if chosen > 0 else worst, 1.0)
    return share


def capacity(case: Case, ff: FeedForward, context: Floats | float) -> Floats | None:
    """Slots of an expert for the tokens of one sequence on a device; None if it takes all."""
    factor = case.runtime.capacity_factor
    if factor <= 0:
        return None
    length = case.workload.sequence_length / context
    slots: Floats = np.floor(np.maximum(np.ceil(length * ff.n_active_experts / ff.n_experts) * factor, factor))
    return slots


def rows_per_token(case: Case, ff: FeedForward, expert: Floats | Ints, context: Floats | float = 1.0) -> Floats:
    """Routed rows a token, `(n,)`: k, more if the dropless buffer is sized for the worst case.

    The dense path has a row for every slot of every expert, or without a capacity for every token at every expert.
    """
    if case.runtime.sparse_matmul:
        return ff.n_active_experts * buffer_share(case, ff, expert)
    slots = capacity(case, ff, context)
    length = case.workload.sequence_length / context
    dense: Floats = ff.n_experts * (np.ones(np.shape(expert)) if slots is None else slots / length)
    return dense
