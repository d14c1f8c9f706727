"""The order of plans: it fits; it is fast (or cheap, or small); among equals the simpler one; then more headroom.

The order is lexicographic and printed with every result. A mesh is ranked once, at its best remat policy, batch split and
tiling, so that the list shows different plans rather than variants of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from shardplan.spec import AXES
from shardplan.thresholds import threshold

if TYPE_CHECKING:
    from shardplan.candidates import Candidates
    from shardplan.spec import Case
    from shardplan.units import Bools, Floats, Ints

Objective = Literal["step-time", "cost", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("step-time", "cost", "memory")

PRINCIPLE = (
    "fits before at risk; then {objective}, where plans within {tolerance:.0%} count as equal; then the simpler plan "
    "(no demoting rule, fewer mesh axes, the table's own choice, lower degrees, plainer remat); then more headroom"
)


def score(objective: Objective, seconds_per_sequence: Floats, total_bytes: Floats) -> Floats:
    """What is minimised, `(n,)`. Chips are fixed, so the cheapest token is the fastest one: cost follows step time."""
    return total_bytes if objective == "memory" else seconds_per_sequence


def rank(
    scores: Floats, classes: Ints, simplicity: tuple[Floats, ...], headroom: Floats, meshes: Ints, top: int
) -> Ints:
    """Row indices of the best plans, best first, at most `top`, one a mesh.

    scores: what is minimised, `(n,)`. classes: 0 fits, 1 at risk, `(n,)`. simplicity: keys `(n,)`, smaller is simpler,
    the first decides first. meshes: an identity per mesh, `(n,)`.
    """
    tolerance = 1 + threshold("ranking_tolerance")
    order: list[int] = []
    remaining = np.lexsort((scores, classes))
    while len(remaining) and len(order) < top:
        first = remaining[0]
        tied = (classes[remaining] == classes[first]) & (scores[remaining] <= scores[first] * tolerance)
        group = remaining[tied]
        keys = (scores[group], -headroom[group], *(key[group] for key in reversed(simplicity)))
        best = int(group[np.lexsort(keys)[0]])
        order.append(best)
        remaining = remaining[meshes[remaining] != meshes[best]]
    return np.array(order, dtype=np.int64)


def mesh_identity(candidates: Candidates) -> Ints:
    """A number per distinct mesh, `(n,)`: equal for candidates that differ only in batch, remat or tiling."""
    identity = np.zeros(len(candidates), dtype=np.int64)
    for mesh in (candidates.ici, candidates.dcn):
        for axis in AXES:
            _, codes = np.unique(mesh.column(axis), return_inverse=True)
            identity = identity * (int(codes.max(initial=0)) + 1) + codes
    return identity


def simplicity_keys(candidates: Candidates, demoted: Bools, preferred: Bools) -> tuple[Floats, ...]:
    """Keys of what makes one plan simpler than another, most important first, each `(n,)`."""
    axes_in_use = np.zeros(len(candidates))
    degrees = np.zeros(len(candidates))
    for mesh in (candidates.ici, candidates.dcn):
        for axis in AXES:
            column = mesh.column(axis)
            axes_in_use += column > 1
            degrees += np.log2(column) * (axis not in ("fsdp", "data"))
    kept = np.array([len(p.device) + 2 * len(p.offload) for p in candidates.remat_policies], dtype=float)
    is_custom = np.array([p.name == "custom" for p in candidates.remat_policies], dtype=float)
    return (
        demoted.astype(float),
        axes_in_use,
        -preferred.astype(float),
        degrees,
        candidates.needs_split.astype(float),
        candidates.gradient_accumulation.astype(float),
        candidates.num_vocab_tiling.astype(float),
        is_custom[candidates.remat],
        kept[candidates.remat],
    )


def fit_classes(case: Case, total_bytes: Floats, error_band: Floats) -> Ints:
    """0 fits even at the upper end of the error band, 1 at risk, 2 does not fit even at the lower end, `(n,)`."""
    room = case.cluster.hbm_limit_bytes * (1 - case.constraints.hbm_headroom)
    return np.where(total_bytes * (1 + error_band) <= room, 0, np.where(total_bytes * (1 - error_band) <= room, 1, 2))
