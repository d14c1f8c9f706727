"""Every legal way to split a case, as `Candidates`; and how many ways were ruled out, by rule code.

What is legal is said in `laws`. Degrees are chosen axis by axis, and what a law refuses already then is cut before the other
axes are chosen, and counted with all the meshes it would have led to. Whole meshes are cut by every law, and so are the batch
splits laid over those that remain; `variants` lays remat policies and tilings over those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.machine import torus
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import AXES, default_microbatches
from shardplan.splits.candidates import Candidates, Mesh, concatenated
from shardplan.splits.laws import LAYOUT_LAW, MESH_LAWS, SPLIT_LAWS
from shardplan.splits.pipeline import pipeline_repeats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardplan.spec import Case, Split
    from shardplan.splits.laws import Law
    from shardplan.units import Bools, Floats, Ints

MIN_GRADIENT_ACCUMULATION = 16
"""Micro-steps that are always tried where they are left open; more as long as a micro-step has a sequence a device."""
MICROBATCHES_PER_STAGE = (1, 2, 4, 8)
AUTO_BATCHES = (0.0625, 0.125, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The legal mesh x batch splits, and the count of ruled-out meshes and splits by rule code."""

    candidates: Candidates
    """One row a split, with `full` remat and no vocabulary tiling."""
    rejected: dict[str, int]


def enumerate_candidates(case: Case) -> Enumeration:
    """Every legal mesh x batch split of a case."""
    tally: dict[str, int] = {}
    meshes = legal_meshes(case, tally)
    return Enumeration(_batch_splits(case, meshes, tally), tally)


# --- meshes --------------------------------------------------------------------------------------------------------

_ORDER = ("tensor", "expert", "pipeline", "context", "fsdp_transpose", "fsdp", "data")
"""Axes in the order degrees are chosen: the most constrained first."""


def legal_meshes(case: Case, tally: dict[str, int]) -> Candidates:
    """Every legal ICI x DCN mesh, one candidate each (`full`, one sequence a device); the others are tallied."""
    ici = _factorizations(case, "ici", case.cluster.devices_per_slice, tally)
    dcn = _factorizations(case, "dcn", case.cluster.slices, tally)
    inside, across = np.indices((len(ici.data), len(dcn.data))).reshape(2, -1)
    meshes = _cut(case, _blank(ici.take(inside), dcn.take(across)), MESH_LAWS, tally)
    meshes = replace(
        meshes,
        pipeline_repeats=pipeline_repeats(case, meshes.degree("pipeline")),
        needs_split=~torus.fits_without_split(case.cluster, meshes.ici),
    )
    return _cut(case, meshes, (LAYOUT_LAW,), tally)


def _blank(ici: Mesh, dcn: Mesh) -> Candidates:
    """Meshes as candidates with neutral batch, remat and tiling."""
    ones = np.ones(len(ici.data), dtype=np.int64)
    return Candidates(
        ici=ici, dcn=dcn, per_device_batch=ones.astype(float), gradient_accumulation=ones, pipeline_microbatches=ones,
        pipeline_repeats=ones, num_vocab_tiling=ones, remat=ones * 0, remat_policies=(POLICIES["full"],),
        needs_split=ones == 0,
    )  # fmt: skip


def _factorizations(case: Case, network: str, total: int, tally: dict[str, int]) -> Mesh:
    """Ordered factorizations of `total` into the axes of one network, without those that laws refuse on their own."""
    rest = np.array([total], dtype=np.int64)
    chosen: dict[str, Ints] = {}
    degrees = np.array([d for d in range(1, total + 1) if total % d == 0], dtype=np.int64)
    for place, axis in enumerate(_ORDER):
        is_last = axis == _ORDER[-1]
        row, pick = np.nonzero(rest[:, None] == degrees if is_last else rest[:, None] % degrees == 0)
        chosen = {name: column[row] for name, column in chosen.items()} | {axis: degrees[pick]}
        rest = rest[row] // degrees[pick]
        for law in MESH_LAWS:
            if axis not in law.prunes:
                continue
            keep = law.mask(case, _alone(network, chosen))
            if not keep.all():
                lost = _completions(rest[~keep], max(len(_ORDER) - 1 - place, 1))
                tally[law.code] = tally.get(law.code, 0) + lost
                chosen = {name: column[keep] for name, column in chosen.items()}
                rest = rest[keep]
    return Mesh(*(chosen[axis] for axis in AXES))


def _alone(network: str, chosen: dict[str, Ints]) -> Candidates:
    """The axes chosen so far as the meshes of one network, the others and the other network being of degree 1."""
    ones = np.ones_like(next(iter(chosen.values())))
    mesh, none = Mesh(*(chosen.get(axis, ones) for axis in AXES)), Mesh(*(ones for _ in AXES))
    return _blank(mesh, none) if network == "ici" else _blank(none, mesh)


def _completions(totals: Ints, n_axes: int) -> int:
    """Ordered factorizations of each total into `n_axes` factors, summed."""
    values, counts = np.unique(totals, return_counts=True)
    return sum(int(n) * _ordered_factorizations(int(v), n_axes) for v, n in zip(values, counts, strict=True))


def _ordered_factorizations(total: int, n_axes: int) -> int:
    """Ways to write a number as an ordered product of `n_axes` factors: stars and bars per prime."""
    ways, prime = 1, 2
    while total > 1:
        exponent = 0
        while total % prime == 0:
            total //= prime
            exponent += 1
        ways *= math.comb(exponent + n_axes - 1, n_axes - 1)
        prime += 1
    return ways


def _cut(case: Case, candidates: Candidates, laws: Iterable[Law], tally: dict[str, int]) -> Candidates:
    """The candidates that keep every law; the others are tallied under the rule of the first they break."""
    for law in laws:
        keep = law.mask(case, candidates)
        if not keep.all():
            tally[law.code] = tally.get(law.code, 0) + int(len(keep) - keep.sum())
            candidates = candidates.take(keep)
    return candidates


# --- batch ---------------------------------------------------------------------------------------------------------


def _batch_splits(case: Case, meshes: Candidates, tally: dict[str, int]) -> Candidates:
    """Each mesh with every legal per-device batch, gradient accumulation and number of pipeline microbatches."""
    parts = []
    stages = meshes.degree("pipeline")
    for batch, accumulation in _micro_steps(case, meshes):
        for per_stage in MICROBATCHES_PER_STAGE:
            here = np.flatnonzero((stages > 1) | (per_stage == 1))
            split = replace(
                meshes.take(here),
                per_device_batch=batch[here],
                gradient_accumulation=np.full(len(here), accumulation, dtype=np.int64),
                pipeline_microbatches=np.where(stages > 1, stages * per_stage, 1)[here],
            )
            parts.append(_cut(case, split, SPLIT_LAWS, tally))
    return concatenated(parts)


def _micro_steps(case: Case, meshes: Candidates) -> Iterator[tuple[Floats, int]]:
    """Sequences a device in one micro-step, per mesh, with the micro-steps an optimizer step takes."""
    wanted = case.constraints.gradient_accumulation
    total, per_device = case.workload.global_sequences, case.workload.per_device_batch
    if total is None:
        for size in AUTO_BATCHES if per_device == "auto" else (per_device,):
            yield np.full(len(meshes), float(size or 0)), 1 if wanted == "auto" else wanted
        return
    most = max(MIN_GRADIENT_ACCUMULATION, total // case.cluster.devices)
    powers = [2**i for i in range(most.bit_length()) if total % 2**i == 0]
    for accumulation in powers if wanted == "auto" else [wanted]:
        yield per_device_batch(total / accumulation, meshes.devices), accumulation


def per_device_batch(rows: float, devices: Ints) -> Floats:
    """Sequences a device that MaxText multiplies back to the rows: it cuts off what is a rounding error below them."""
    share = rows / devices
    return np.where(share * devices < rows, np.nextafter(share, np.inf), share)


# --- splits that are given -----------------------------------------------------------------------------------------


def batch_is_legal(case: Case, candidates: Candidates) -> Bools:
    """Whether the batch of given splits keeps the laws."""
    legal: Bools = np.all([law.mask(case, candidates) for law in SPLIT_LAWS], axis=0)
    return legal


def split_rows(case: Case, *splits: Split) -> Candidates:
    """Given splits as the candidates of a case."""
    blank = Candidates.of_splits(splits, [1] * len(splits), [False] * len(splits))
    stages, delayed = blank.degree("pipeline"), case.runtime.pipeline_delay_activations
    asked = [split.pipeline_microbatches for split in splits]
    microbatches = [m or default_microbatches(int(s), delayed=delayed) for m, s in zip(asked, stages, strict=True)]
    return replace(
        blank,
        pipeline_microbatches=np.array(microbatches, dtype=np.int64),
        pipeline_repeats=pipeline_repeats(case, stages),
        needs_split=~torus.fits_without_split(case.cluster, blank.ici),
    )
