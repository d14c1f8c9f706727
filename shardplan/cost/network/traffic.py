"""What MaxText's compiled train step moves between devices in one optimizer step, by mesh axis.

A stage of a pipeline works through its share of the layers with every microbatch, so activations move in proportion to
the layers of a stage and the tokens of a whole micro-step.
Source: the collectives of programs compiled with MaxText 0.2.5 for v5p, v6e and tpu7x, one mesh axis at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from shardplan.cost.calibration import constant
from shardplan.cost.tensors.activations import spared
from shardplan.cost.tensors.parameters import parameter_tensors
from shardplan.cost.tensors.routing import rows_per_token
from shardplan.cost.tensors.sharding import tensor_axes
from shardplan.cost.tensors.stages import pipeline_iterations, stage_passes
from shardplan.maxtext.axes import ACTIVATION_RULES, WIDTH_AXES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.cost.tensors.parameters import ParameterTensor
    from shardplan.spec import Architecture, Case, Layer
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

CollectiveKind = Literal["all-gather", "reduce-scatter", "all-reduce", "all-to-all", "permute"]
Hides = Literal["compute", "none"]

BF16 = 2
F32 = 4
FP8 = 1


@dataclass(frozen=True, slots=True)
class Flow:
    """One kind of movement over one group of mesh axes. Columns `(d,)` or scalars."""

    axes: tuple[str, ...]
    """Mesh axes of the group; the first names it."""
    kind: CollectiveKind
    purpose: str
    hides_behind: Hides
    bytes: Floats
    """An optimizer step: of the gathered arrays (gather, scatter, all-reduce), or what a device puts in."""
    count: Floats
    """Collectives an optimizer step."""
    rides_on: tuple[str, ...] = field(default=())
    """Axes over which the arrays were already scattered inside the slice."""


def flows(case: Case, candidates: Candidates) -> Iterator[Flow]:
    """Every movement of every candidate."""
    rows = candidates.per_device_batch * candidates.devices / candidates.degree(*ACTIVATION_RULES["batch"])
    tokens = rows * case.workload.sequence_length / candidates.degree(*ACTIVATION_RULES["length"])
    yield from _merged(_weights(case, candidates))
    yield _embedding(case, candidates, tokens)
    yield from _tensor(case, candidates, tokens)
    yield from _experts(case, candidates, tokens)
    yield from _context(case, candidates, rows, tokens)
    yield from _pipeline(case, candidates, tokens)


def _merged(several: Iterator[Flow]) -> Iterator[Flow]:
    """Flows of the same kind, purpose and way as one."""
    found: dict[tuple[object, ...], Flow] = {}
    for flow in several:
        key = (flow.axes, flow.kind, flow.purpose, flow.rides_on)
        first = found.get(key)
        found[key] = (
            flow if first is None else replace(flow, bytes=first.bytes + flow.bytes, count=first.count + flow.count)
        )
    yield from found.values()


# --- weights and their gradients -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeightSum:
    """Matrices that move alike: elements and tensors of the whole model."""

    axes: frozenset[str]
    """Mesh axes over which they are gathered before use."""
    kept: frozenset[str]
    """Mesh axes that still split them in use."""
    is_pipelined: bool
    place: Literal["layer", "embedding", "head"]
    elements: int
    tensors: int


@cache
def weight_sums(architecture: Architecture) -> tuple[WeightSum, ...]:
    """The matrices of a model by how they move; vectors are left out, they are small and replicated."""
    found: dict[tuple[frozenset[str], frozenset[str], bool, str], list[int]] = {}
    for tensor in parameter_tensors(architecture):
        axes = tensor_axes(tensor) - {"pipeline"}
        kept = axes & ({"tensor", "expert"} if tensor.is_routed else {"tensor"})
        if len(tensor.dims) > 1 and axes - kept:
            for place in _places(tensor, architecture):
                total = found.setdefault((axes - kept, kept, tensor.is_pipelined, place), [0, 0])
                total[0] += tensor.elements
                total[1] += tensor.copies
    return tuple(WeightSum(*key, *total) for key, total in found.items())  # type: ignore[arg-type]


def _places(tensor: ParameterTensor, architecture: Architecture) -> tuple[str, ...]:
    """Where a matrix is used: a tied embedding is the head too."""
    if tensor.role == "embedding" and architecture.tied_embeddings:
        return "embedding", "head"
    if tensor.role in ("embedding", "position"):
        return ("embedding",)
    return ("head",) if tensor.role == "head" else ("layer",)


_PURPOSE = {"layer": "weights", "embedding": "embedding", "head": "output head"}


def _weights(case: Case, candidates: Candidates) -> Iterator[Flow]:
    """FSDP: weights gathered where they are used, gradients reduced; then summed over what replicates them."""
    micro_steps = candidates.gradient_accumulation
    for total in weight_sums(case.architecture):
        axes = tuple(axis for axis in WIDTH_AXES if axis in total.axes)
        elements = total.elements / candidates.degree(*sorted(total.kept))
        visits = stage_visits(case, candidates) if total.is_pipelined else np.ones(len(candidates))
        gathers, scatters = _passes(candidates, total.place)
        # Routed experts, and routers that no expert axis splits, move over the same axes.
        name = ("" if "expert" in axes else "expert ") + _PURPOSE[total.place]
        steps, calls = visits * micro_steps, total.tensors * visits * micro_steps
        element_bytes = _gathered_bytes(case, total.place)
        gathered = elements * element_bytes * _thin_shards(case, candidates, axes, element_bytes)
        reduced = elements * BF16 * _thin_shards(case, candidates, axes, BF16)
        yield Flow(axes, "all-gather", name, "compute", gathered * steps * gathers, calls * gathers)
        yield Flow(
            axes,
            "reduce-scatter",
            f"gradients of {name}",
            "compute",
            reduced * steps * scatters,
            calls * scatters,
        )
        # Layers sum their shards over `data` in the backward loop, the rest once after the last micro-step.
        replicas = ("data",) if total.place == "layer" else ("data", "pipeline")
        if total.place == "layer":
            yield Flow(
                replicas, "all-reduce", f"gradients of {name}", "compute", elements * BF16 * steps, calls, rides_on=axes
            )
        else:
            once = np.where(micro_steps > 1, F32, BF16)
            yield Flow(
                replicas, "all-reduce", f"gradients of {name}", "compute", elements * once, np.ones(1), rides_on=axes
            )


TILE_ROW_BYTES = 32
"""Rows of a tile in HBM times the bytes of an element: 16 rows of bf16, 32 of fp8. Whole tiles move between devices."""


def thin_shard_factor(r: Floats, b: float) -> Floats:
    """Enlargement of what moves when a shard has r rows and a tile b: padding, and the copies that undo it."""
    power = constant("overlap", "thin_shard_power")
    factor: Floats = np.maximum(1.0, b / r) ** power
    return factor


def _thin_shards(case: Case, candidates: Candidates, axes: tuple[str, ...], element_bytes: int) -> Floats:
    """Factor by which shards thinner than a tile enlarge what is moved, `(d,)`.

    A shard holds D / N rows of a matrix.
    """
    splits = candidates.degree(*(axis for axis in axes if axis != "fsdp_transpose"))
    rows = TILE_ROW_BYTES // element_bytes
    factor: Floats = thin_shard_factor(case.architecture.model_width / splits, rows)
    return factor


def _embedding(case: Case, candidates: Candidates, tokens: Floats) -> Flow:
    """Gradients of the embedded tokens, sent to the devices that hold their columns of the table."""
    steps = candidates.gradient_accumulation / candidates.degree("pipeline")
    sent = tokens * case.architecture.model_width * BF16 / candidates.degree("tensor") * steps
    return Flow(WIDTH_AXES, "all-to-all", "gradients of embedded tokens", "none", sent, steps)


def _passes(candidates: Candidates, place: str) -> tuple[Floats | Ints | int, Floats | Ints | int]:
    """Gathers and scatters of a weight a micro-step: layers are gathered again for the backward pass.

    The head is gathered once, or for every tile of the vocabulary loss forward and backward. The embedding is gathered
    once; its gradient takes the activations' way.
    """
    if place == "layer":
        return 2, 1
    tiles = candidates.num_vocab_tiling
    return (np.where(tiles > 1, 2 * tiles, 1), tiles) if place == "head" else (1, 0)


def _gathered_bytes(case: Case, place: str) -> int:
    """Bytes of an element as gathered: layers in 8 bits where their matmuls are."""
    is_low = case.workload.precision == "fp8" and case.runtime.quantization in (None, "fp8", "fp8_full")
    return FP8 if is_low and place == "layer" else BF16


def stage_visits(case: Case, candidates: Candidates) -> Floats:
    """Times a pass brings in a share of all pipelined layers, `(d,)`: 1 without pipeline.

    MaxText gathers a stage's layers anew in every iteration of the pipeline, bubble included, unless told otherwise.
    """
    stages, visits = candidates.degree("pipeline"), stage_passes(case, candidates)
    if case.runtime.pipeline_gather_weights != "per_iteration":
        visits = np.where(stages > 1, 1 / stages, visits)
    return np.asarray(visits, dtype=np.float64)


# --- activations ---------------------------------------------------------------------------------------------------


def _tensor(case: Case, candidates: Candidates, tokens: Floats) -> Iterator[Flow]:
    """Megatron: activations gathered before a block's first matmul and scattered after its last, forward and backward.

    Recomputation gathers again, since the matmuls' weight gradients need the gathered input whatever is kept; it
    scatters the attention output again unless `out_proj` is kept. Routed experts scatter their whole row buffer.
    """
    axes, layers = ("tensor",), _layers(case.architecture)
    again = 1 - spared(candidates, "out_proj").astype(np.float64)
    gathers, scatters = 0.0 * again, 0.0 * again
    for layer, count in layers:
        ff = layer.feed_forward
        rows = rows_per_token(case, ff, candidates.degree("expert")) if ff.is_moe else 0.0
        dense = (not ff.is_moe) + (ff.total_shared_width > 0)
        gathers += count * (3 + 3 * dense + ff.is_moe * (2 + rows))
        scatters += count * (2 + again + 2 * dense + ff.is_moe * (1 + 2 * rows))
    steps = candidates.gradient_accumulation / candidates.degree("pipeline")
    one = tokens * case.architecture.model_width * BF16 * steps
    calls = sum(count for _, count in layers) * steps
    # The embedding and the loss gather and scatter once each.
    yield Flow(axes, "all-gather", "activations", "none", one * (gathers + 2), 6 * calls)
    yield Flow(axes, "reduce-scatter", "activations", "none", one * (scatters + 2), (4 + again) * calls)


def _experts(case: Case, candidates: Candidates, tokens: Floats) -> Iterator[Flow]:
    """Rows of tokens sent to their experts and back: forward, again for recomputation, and backward."""
    width = case.architecture.model_width
    steps = candidates.gradient_accumulation / candidates.degree("pipeline")
    again = 2 - spared(candidates, "moe_x_sorted").astype(np.float64)
    layers = [(layer, count) for layer, count in _layers(case.architecture) if layer.feed_forward.is_moe]
    visits = sum(count * layer.feed_forward.n_active_experts for layer, count in layers)
    rows = tokens * visits * width * BF16 * steps
    count = sum(count for _, count in layers) * (4 + again) * steps
    yield Flow(("expert",), "all-to-all", "tokens to experts and back", "none", rows * (4 + again), count)


def _context(case: Case, candidates: Candidates, rows: Floats, tokens: Floats) -> Iterator[Flow]:
    """Keys and values over the sequence shards: gathered forward and again backward, their gradients scattered.

    Gathers run beside the query's projection. Source: MaxText pull request 4687, where gathering is no slower than Ulysses.
    """
    axes, t = ("context",), candidates.degree("tensor")
    steps = candidates.gradient_accumulation / candidates.degree("pipeline")
    layers = _layers(case.architecture)
    total = sum(count for _, count in layers)
    kv = sum(count * _key_value_width(layer) for layer, count in layers) * BF16 * steps / t
    if case.runtime.context_strategy == "all_gather":
        whole = rows * case.workload.sequence_length * kv
        yield Flow(axes, "all-gather", "keys and values", "compute", 2 * whole, 4 * total * steps)
        yield Flow(axes, "reduce-scatter", "gradients of keys and values", "compute", whole, 2 * total * steps)
    elif case.runtime.context_strategy == "ring":
        others = candidates.degree("context") - 1
        yield Flow(axes, "permute", "keys and values", "compute", 4 * others * tokens * kv, 8 * others * total * steps)
    else:
        queries = sum(count * _query_width(layer) for layer, count in layers) * BF16 * steps / t
        yield Flow(axes, "all-to-all", "heads for sequence", "none", 3 * tokens * (kv + queries), 12 * total * steps)


def _pipeline(case: Case, candidates: Candidates, tokens: Floats) -> Iterator[Flow]:
    """Microbatches handed to the next stage, and the buffers of inputs and outputs that rotate with them."""
    buffers = 2 + (candidates.pipeline_repeats > 1)
    passes = 2.0 * pipeline_iterations(case, candidates) * buffers * candidates.gradient_accumulation
    share = case.architecture.model_width * BF16 / candidates.degree("tensor")
    each = tokens / candidates.pipeline_microbatches * share
    # With a delay of one iteration more, a stage works while its next input is on the way.
    hides: Hides = "compute" if case.runtime.pipeline_delay_activations else "none"
    yield Flow(("pipeline",), "permute", "microbatches", hides, each * passes, passes.astype(np.float64))


@cache
def _layers(architecture: Architecture) -> tuple[tuple[Layer, int], ...]:
    """Layer kinds with their number, multi-token-prediction layers included."""
    extra = (
        ((architecture.layer_groups[-1].layers[-1], architecture.n_mtp_layers),) if architecture.n_mtp_layers else ()
    )
    return (*architecture.layers, *extra)


def _key_value_width(layer: Layer) -> int:
    return layer.attention.n_key_value_heads * (layer.attention.qk_width + layer.attention.v_width)


def _query_width(layer: Layer) -> int:
    return layer.attention.n_query_heads * (layer.attention.qk_width + layer.attention.v_width)
