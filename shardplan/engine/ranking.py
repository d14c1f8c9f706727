"""The order of plans: it fits; it is fast (or cheap, or small); among equals the simpler one; then more headroom.

The order is lexicographic and printed with every result. A mesh is ranked once, at its best remat policy, batch split and
tiling, so that the list shows different plans rather than variants of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from shardplan.catalogue.thresholds import threshold
from shardplan.spec import AXES
from shardplan.splits.candidates import concatenated

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools, Floats, Ints

Objective = Literal["step-time", "cost", "memory"]
OBJECTIVES: tuple[Objective, ...] = ("step-time", "cost", "memory")

FITS, AT_RISK, DOES_NOT_FIT = 0, 1, 2

PRINCIPLE = (
    "fits before at risk; then {objective}, where plans within {tolerance:.0%} count as equal; then the simpler mesh "
    "(fewer demoting rules, fewer axes and mechanisms, the table's own choice, lower degrees); then more headroom. "
    "Each mesh is listed once, at its best remat policy, batch split and tiling; each of gradient accumulation, tiling, "
    "host offload and split axes must gain {tolerance:.0%}, tensor, expert or pipeline parallelism {margin:.0%}"
)


MODEL_PARALLEL = ("tensor", "expert", "pipeline")
"""Axes whose cost the published runs do not pin down: no Ironwood recipe uses them."""


def score(objective: Objective, candidates: Candidates, step_s: Floats, total_bytes: Floats) -> Floats:
    """What is minimised, `(n,)`: bytes, or seconds a sequence with a margin on axes that no published run vouches for.

    Chips are fixed, so the cheapest token is the fastest one: cost follows step time.
    """
    if objective == "memory":
        return total_bytes
    margin = threshold("model_parallel_margin") * (candidates.degree(*MODEL_PARALLEL) > 1)
    return step_s / candidates.global_batch * (1 + margin)


@dataclass(frozen=True, slots=True)
class Standing:
    """Candidates with what the order needs of them, as columns `(n,)`."""

    candidates: Candidates
    scores: Floats
    """What is minimised."""
    classes: Ints
    """FITS or AT_RISK."""
    headroom: Floats
    simplicity: tuple[Floats, ...]
    """Keys, smaller is simpler; the first decides first."""

    def best(self, top: int) -> Ints:
        """Rows of the best candidates, best first, at most `top`, one a mesh."""
        remaining = self._representatives()
        remaining = remaining[np.lexsort((self.scores[remaining], self.classes[remaining]))]
        order: list[int] = []
        while len(remaining) and len(order) < top:
            first = remaining[0]
            equal = self.scores[remaining] <= self.scores[first] * (1 + threshold("ranking_tolerance"))
            group = remaining[equal & (self.classes[remaining] == self.classes[first])]
            keys = (self.scores[group], -self.headroom[group], *(key[group] for key in reversed(self.simplicity)))
            chosen = group[np.lexsort(keys)[0]]
            order.append(int(chosen))
            remaining = remaining[remaining != chosen]
        return np.array(order, dtype=np.int64)

    def _representatives(self) -> Ints:
        """The best variant of each mesh: of those that fit best, the fastest whose every mechanism pays."""
        meshes = mesh_identity(self.candidates)
        handicapped = self.scores * (1 + threshold("ranking_tolerance") * mechanisms(self.candidates))
        order = np.lexsort((handicapped, self.classes, meshes))
        _, firsts = np.unique(meshes[order], return_index=True)
        representatives: Ints = order[firsts]
        return representatives

    def reach(self, best: Ints) -> float:
        """The score above which no other candidate could enter the list: infinite while one at risk is in it."""
        if (self.classes[best] == AT_RISK).any():
            return float("inf")
        return float(self.scores[best].max() * (1 + threshold("ranking_tolerance")))

    def joined(self, other: Standing) -> Standing:
        """Both, one after the other."""
        return Standing(
            concatenated([self.candidates, other.candidates]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.classes, other.classes]),
            np.concatenate([self.headroom, other.headroom]),
            tuple(np.concatenate(pair) for pair in zip(self.simplicity, other.simplicity, strict=True)),
        )


def mesh_identity(candidates: Candidates) -> Ints:
    """A number per distinct mesh, `(n,)`: equal for candidates that differ only in batch, remat or tiling.

    The two FSDP axes count as one: how a degree is shared between them is a variant of the mesh, listed at its best.
    """
    identity = np.zeros(len(candidates), dtype=np.int64)
    for mesh in (candidates.ici, candidates.dcn):
        others = (mesh.column(axis) for axis in AXES if not axis.startswith("fsdp"))
        for column in (mesh.fsdp * mesh.fsdp_transpose, *others):
            _, codes = np.unique(column, return_inverse=True)
            identity = identity * (int(codes.max(initial=0)) + 1) + codes
    return identity


def simplicity_keys(candidates: Candidates, demotions: Ints, preferred: Bools) -> tuple[Floats, ...]:
    """Keys of what makes one mesh simpler than another, most important first, each `(n,)`."""
    axes_in_use = np.zeros(len(candidates))
    degrees = np.zeros(len(candidates))
    for mesh in (candidates.ici, candidates.dcn):
        for axis in AXES:
            column = mesh.column(axis)
            axes_in_use += column > 1
            degrees += np.log2(column) * (axis not in ("fsdp", "data"))
    return (
        demotions.astype(float),
        axes_in_use + mechanisms(candidates),
        -preferred.astype(float),
        degrees,
        candidates.needs_split.astype(float),
    )


A_TENSOR_MORE = 0.05
"""What each offloaded tensor counts for beside the mechanism of offloading: among equals, the host carries less."""


def mechanisms(candidates: Candidates) -> Floats:
    """Mechanisms a variant adds to its mesh, `(n,)`: accumulation, vocabulary tiling, host offload, split torus axes.

    Which activations are kept on the device is not one: it costs the user nothing.
    """
    offloads = np.array([bool(p.offload) + A_TENSOR_MORE * len(p.offload) for p in candidates.remat_policies])
    found: Floats = np.sum(
        [
            candidates.gradient_accumulation > 1,
            candidates.num_vocab_tiling > 1,
            offloads[candidates.remat],
            candidates.needs_split,
        ],
        axis=0,
    )
    return found


def fit_classes(case: Case, total_bytes: Floats, error_band: Floats) -> Ints:
    """FITS even at the upper end of the error band, DOES_NOT_FIT even at the lower end, else AT_RISK, `(n,)`."""
    room = case.cluster.hbm_limit_bytes * (1 - case.constraints.hbm_headroom)
    low, high = total_bytes * (1 - error_band), total_bytes * (1 + error_band)
    return np.where(high <= room, FITS, np.where(low <= room, AT_RISK, DOES_NOT_FIT))
