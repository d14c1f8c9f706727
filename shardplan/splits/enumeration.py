"""Every legal way to split a case, as `Candidates`; and how many ways were ruled out, by rule code.

Degrees are chosen axis by axis. What MaxText would refuse for one degree alone (a head count it does not divide) is cut
before the other axes are chosen, and counted with all the meshes it would have led to. What depends on several degrees is
a mask over meshes. Batch splits are laid over the meshes that remain; `variants` lays remat policies and tilings over those.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.machine import torus
from shardplan.maxtext.remat import POLICIES
from shardplan.spec import AXES
from shardplan.splits.candidates import Candidates, Mesh, concatenated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Architecture, Case, Split
    from shardplan.units import Bools, Ints

MAX_GRADIENT_ACCUMULATION = 16
MICROBATCHES_PER_STAGE = (1, 2, 4, 8)
AUTO_BATCHES = (0.0625, 0.125, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
DCN_AXES = ("data", "pipeline", "fsdp")
"""Axes that may cross slices: the others communicate inside every layer, where the data centre network is ~10x slower."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The legal mesh x batch splits, and the count of ruled-out meshes and splits by rule code."""

    candidates: Candidates
    """One row a split, with `full` remat and no vocabulary tiling."""
    rejected: dict[str, int]


def enumerate_candidates(case: Case) -> Enumeration:
    """Every legal mesh x batch split of a case."""
    tally: dict[str, int] = {}
    meshes = _cross_checked(case, _meshes(case, tally), tally)
    return Enumeration(_batch_splits(case, meshes, tally), tally)


# --- dimensions that degrees must divide ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Divisors:
    """What each degree, or product of degrees, must divide. Source: MaxText checks D1-D11, reference section 2.2."""

    tensor: int
    """Heads, key-value heads, widths and vocabulary: all split by `tensor`."""
    feed_forward: int
    """Feed-forward widths: split by `fsdp_transpose` x `tensor`."""
    width: int
    """Model width and latent ranks: split by `fsdp` x `fsdp_transpose` x `context` x `expert`."""
    expert: int
    """Experts; 1 for a dense model, where an expert axis would only be another fsdp."""
    context: int
    """Shards the sequence may have: whole attention tiles, an even number of them where causal work is balanced."""
    stages: int
    """Blocks that can be pipelined; 1 if the model's layer groups cannot."""


def divisors(case: Case) -> Divisors:
    """The divisors of a case, each as one greatest common divisor."""
    architecture = case.architecture
    heads, widths, ranks, experts = set(), set(), {architecture.model_width}, set()
    for layer, _ in architecture.layers:
        attention, block = layer.attention, layer.feed_forward
        heads |= {attention.n_query_heads, attention.n_key_value_heads}
        ranks |= {r for r in (attention.query_rank, attention.key_value_rank) if r}
        widths |= {block.width, *([block.total_shared_width] if block.total_shared_width else [])}
        experts |= {block.n_experts} if block.is_moe else set()
    tile = min(case.runtime.attention_tile_tokens, case.workload.sequence_length)
    shards = case.workload.sequence_length // tile if case.workload.sequence_length % tile == 0 else 1
    return Divisors(
        tensor=math.gcd(architecture.model_width, architecture.vocab_size, *heads, *widths),
        feed_forward=math.gcd(*widths),
        width=math.gcd(*ranks),
        expert=math.gcd(*experts) if experts else 1,
        context=shards,
        stages=pipelined_blocks(architecture),
    )


def pipelined_blocks(architecture: Architecture) -> int:
    """Blocks MaxText would spread over pipeline stages: all, or all after a leading dense group; 1 if it cannot.

    Of blocks with several layers it builds too many (every block once a layer), so they are not pipelined either.

    Source: MaxText checks P1, P8 and P10, reference section 2.6.
    """
    *leading, last = architecture.layer_groups
    if architecture.n_mtp_layers or len(leading) > 1 or any(g.layers[0].feed_forward.is_moe for g in leading):
        return 1
    if last.layers_per_block > 1 or last.layers[0].feed_forward.score_bias:
        return 1
    return last.count if not leading or architecture.is_moe else 1


# --- meshes --------------------------------------------------------------------------------------------------------

_ORDER = ("tensor", "expert", "pipeline", "context", "fsdp_transpose", "fsdp", "data")
"""Axes in the order degrees are chosen: the most constrained first."""

BOUND, ACROSS_SLICES = "SP420", "SP407"
"""Rules that forbid a degree for what the user asked, and for crossing slices."""

Ruling = Callable[[int], str | None]
"""The rule that forbids a degree of one axis on its own, if one does."""


def _meshes(case: Case, tally: dict[str, int]) -> Candidates:
    """Every ICI x DCN mesh whose degrees are legal one by one, one candidate each (`full`, one sequence a device)."""
    inside = _rulings(case)
    across: dict[str, Ruling] = {
        axis: inside[axis] if axis in DCN_AXES else (lambda d: ACROSS_SLICES if d > 1 else None) for axis in AXES
    }
    ici = _factorizations(case.cluster.devices_per_slice, inside, tally)
    dcn = _factorizations(case.cluster.slices, across, tally)
    pairs = np.indices((len(ici), len(dcn))).reshape(2, -1)
    return _blank(Mesh(*ici[pairs[0]].T), Mesh(*dcn[pairs[1]].T))


def _blank(ici: Mesh, dcn: Mesh) -> Candidates:
    """Meshes as candidates with neutral batch, remat and tiling."""
    ones = np.ones(len(ici.data), dtype=np.int64)
    return Candidates(
        ici=ici, dcn=dcn, per_device_batch=ones.astype(float), gradient_accumulation=ones, pipeline_microbatches=ones,
        pipeline_repeats=ones, num_vocab_tiling=ones, remat=ones * 0, remat_policies=(POLICIES["full"],),
        needs_split=ones == 0,
    )  # fmt: skip


def _rulings(case: Case) -> dict[str, Ruling]:
    """For each axis, what forbids a degree on its own: MaxText's divisibility, or a bound of the user's."""
    by, balanced = divisors(case), case.runtime.context_load_balance
    legal: dict[str, tuple[str, Callable[[int], bool]]] = {
        "tensor": ("SP520", lambda d: by.tensor % d == 0),
        # An expert axis of a dense model is accepted, but only another fsdp: its meshes are there without it.
        "expert": ("SP529" if case.architecture.is_moe else "SP581", lambda d: by.expert % d == 0),
        "pipeline": ("SP560", lambda d: by.stages % d == 0),
        "context": ("SP540", lambda d: by.context % d == 0 and (d == 1 or not balanced or d % 2 == 0)),
        "fsdp_transpose": ("SP523", lambda d: by.feed_forward % d == 0 and by.width % d == 0),
        "fsdp": ("SP524", lambda d: by.width % d == 0),
        "data": (BOUND, lambda _: True),
    }

    def ruling(axis: str) -> Ruling:
        limit = getattr(case.constraints, f"max_{axis}_parallelism", None) or math.inf
        code, is_legal = legal[axis]
        return lambda degree: BOUND if degree > limit else None if is_legal(degree) else code

    return {axis: ruling(axis) for axis in AXES}


def _factorizations(total: int, rulings: dict[str, Ruling], tally: dict[str, int]) -> Ints:
    """Ordered factorizations of `total` into the axes, `(n, axes)` in `AXES` order; forbidden degrees are tallied."""
    rest = np.array([total], dtype=np.int64)
    chosen: dict[str, Ints] = {}
    degrees = np.array([d for d in range(1, total + 1) if total % d == 0], dtype=np.int64)
    for place, axis in enumerate(_ORDER):
        is_last = axis == _ORDER[-1]
        row, pick = np.nonzero(rest[:, None] == degrees if is_last else rest[:, None] % degrees == 0)
        codes = np.array([rulings[axis](int(d)) or "" for d in degrees])[pick]
        left = rest[row] // degrees[pick]
        for code in sorted(set(codes.tolist()) - {""}):
            lost = _completions(left[codes == code], max(len(_ORDER) - 1 - place, 1))
            tally[code] = tally.get(code, 0) + lost
        good = codes == ""
        chosen = {name: column[row[good]] for name, column in chosen.items()}
        chosen[axis], rest = degrees[pick[good]], left[good]
    legal_rows: Ints = np.stack([chosen[axis] for axis in AXES], axis=1)
    return legal_rows


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


def _cross_checked(case: Case, meshes: Candidates, tally: dict[str, int]) -> Candidates:
    """Meshes that pass the checks on several degrees at once, marked with what the torus says of each."""
    by = divisors(case)
    balanced = case.runtime.context_load_balance
    checks: tuple[tuple[str, Callable[[Candidates], Bools]], ...] = (
        ("SP520", lambda m: by.tensor % m.degree("tensor") == 0),
        ("SP523", lambda m: by.feed_forward % m.degree("fsdp_transpose", "tensor") == 0),
        ("SP524", lambda m: by.width % m.degree("fsdp", "fsdp_transpose", "context", "expert") == 0),
        ("SP529", lambda m: by.expert % m.degree("expert") == 0),
        (
            "SP540",
            lambda m: by.context % (m.degree("context") * (1 + balanced * (m.degree("context") > 1))) == 0,
        ),
        ("SP560", lambda m: by.stages % m.degree("pipeline") == 0),
    )
    for code, check in checks:
        meshes = _cut(meshes, check(meshes), code, tally)
    without_split = torus.fits_without_split(case.cluster, meshes.ici)
    meshes = replace(meshes, needs_split=~without_split)
    if not case.constraints.allow_split_physical_axes:
        meshes = _cut(meshes, without_split, "SP403", tally)
    return meshes


def _cut(candidates: Candidates, keep: Bools, code: str, tally: dict[str, int]) -> Candidates:
    """The candidates to keep; the others are tallied under the rule's code."""
    if keep.all():
        return candidates
    tally[code] = tally.get(code, 0) + int(len(keep) - keep.sum())
    return candidates.take(keep)


# --- batch, remat, tiling ------------------------------------------------------------------------------------------


def _batch_splits(case: Case, meshes: Candidates, tally: dict[str, int]) -> Candidates:
    """Each mesh with every legal per-device batch, gradient accumulation and number of pipeline microbatches."""
    repeats = pipeline_repeats(case, meshes.degree("pipeline"))
    parts = []
    for rows, accumulation in _micro_steps(case, meshes):
        for per_stage in MICROBATCHES_PER_STAGE:
            stages = meshes.degree("pipeline")
            here = np.flatnonzero((rows > 0) & ((stages > 1) | (per_stage == 1)))
            split = replace(
                meshes.take(here),
                per_device_batch=rows[here] / meshes.devices[here],
                gradient_accumulation=np.full(len(here), accumulation, dtype=np.int64),
                pipeline_microbatches=np.where(stages > 1, stages * per_stage, 1)[here],
                pipeline_repeats=repeats[here],
            )
            parts.append(_cut(split, batch_is_legal(case, split), "SP510", tally))
    return concatenated(parts)


def _micro_steps(case: Case, meshes: Candidates) -> Iterator[tuple[Ints, int]]:
    """Rows (sequences) of one micro-step per mesh, 0 where not whole, with the micro-steps an optimizer step takes."""
    wanted = case.constraints.gradient_accumulation
    options = [2**i for i in range(MAX_GRADIENT_ACCUMULATION.bit_length())] if wanted == "auto" else [wanted]
    total, per_device = case.workload.global_sequences, case.workload.per_device_batch
    for accumulation in options:
        if total is not None and total % accumulation == 0:
            yield np.full(len(meshes), total // accumulation, dtype=np.int64), accumulation
    if total is None:
        sizes = AUTO_BATCHES if per_device == "auto" else (per_device,)
        for size in sizes:
            rows = float(size or 0) * meshes.devices
            yield (
                np.where(rows == np.floor(rows), rows, 0).astype(np.int64),
                1 if wanted == "auto" else wanted,
            )


def batch_is_legal(case: Case, candidates: Candidates) -> Bools:
    """Whether the rows of a micro-step spread evenly over the batch axes. Source: MaxText B1-B4, P3, P4."""
    rows = np.rint(candidates.per_device_batch * candidates.devices).astype(np.int64)
    spread = candidates.degree("data", "fsdp", "fsdp_transpose", "expert")
    loaded = np.maximum(rows, candidates.devices) * candidates.gradient_accumulation
    microbatches = candidates.pipeline_microbatches
    whole_tokens = rows * case.workload.sequence_length % candidates.devices == 0
    even = (rows % (spread * microbatches) == 0) & (loaded % (spread * candidates.degree("pipeline")) == 0)
    return np.asarray(whole_tokens & even, dtype=bool)


def pipeline_repeats(case: Case, stages: Ints) -> Ints:
    """Times a microbatch passes each stage, `(n,)`; 1 without pipeline. Source: MaxText P1."""
    per_visit = stages * layers_per_stage(case, stages)
    return np.where(stages > 1, np.maximum(pipelined_blocks(case.architecture) // per_visit, 1), 1).astype(np.int64)


def layers_per_stage(case: Case, stages: Ints | int) -> Ints:
    """Blocks a stage runs a visit, at least 1, in the shape of `stages`.

    Where the case leaves it open, a dense model runs MaxText's circular schedule, one block a visit; an expert model visits
    each stage once, because sparse matmuls cannot be traced with repeats (MaxText P7).
    """
    if (asked := case.runtime.pipeline_layers_per_stage) is not None:
        return np.full_like(stages, asked)
    if not case.architecture.is_moe:
        return np.ones_like(stages)
    return np.maximum(case.architecture.layer_groups[-1].count // stages, 1)


def split_rows(case: Case, *splits: Split) -> Candidates:
    """Given splits as the candidates of a case."""
    blank = Candidates.of_splits(splits, [1] * len(splits), [False] * len(splits))
    return replace(
        blank,
        pipeline_repeats=pipeline_repeats(case, blank.degree("pipeline")),
        needs_split=~torus.fits_without_split(case.cluster, blank.ici),
    )
