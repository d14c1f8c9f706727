"""What a mixture-of-experts layer holds in its backward pass: routed rows, gathered experts and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.layers import (
    attention_weights,
    gathered_weights,
    held,
    recomputed,
    stream,
)
from shardplan.cost.memory.setting import Part, Setting, part
from shardplan.cost.tensors.routing import capacity, rows_per_token
from shardplan.cost.tensors.saved import LANES, padded

if TYPE_CHECKING:
    from shardplan.spec import FeedForward, Layer
    from shardplan.units import Bools, Floats

PACKED_ROWS = 16
"""Rows of a bfloat16 tile."""

SPARSE_MOMENTS: dict[str, tuple[float, float, float]] = {
    "experts_recomputed": (3.0, 3.0, 3.0),
    "experts_hidden_gradient": (2.0, 4.0, 2.0),
    "experts_backward": (6.0, 3.0, 1.0),
    "expert_gradients": (1.0, 1.0, 4.0),
}
"""Buffers alive inside the experts' backward pass: sorted rows, hidden rows, whole matrices.

Source: buffer dumps of mixtral-8x7b and qwen3-30b-a3b with and without expert parallelism, deepseek3-671b.
"""

DENSE_MOMENTS: dict[str, tuple[float, float, float]] = {
    "experts_backward": (2.0, 5.0, 3.0),
    "slots_backward": (3.0, 3.0, 1.0),
}
"""The same on the dense path; the slots' own gradient comes with the second. Source: buffer dumps of mixtral-8x7b with
capacity factor 1.25, deepseek2-16b with 1.0."""

ALL_ROWS, SPLIT_ROWS, PRESSED_ROWS = 6.0, 5.0, 4.0
"""Sorted rows of `experts_backward`; with a tensor axis; and when the experts' output is recomputed before it goes back:
experts wider than the model, jax's own grouped matmul on a tensor axis, or short of memory. Source: buffer dumps of
qwen3-30b with and without tensor 4, mixtral-8x7b on tensor 2 and 4 and expert 8, qwen3-235b on expert 8."""

PRESSURE = 0.9
"""Share of the usable HBM above which the compiler's scheduler saves memory. Source: qwen3-30b on expert 8 (51%) keeps
six sorted rows, qwen3-235b (97%) four."""

BIASES = 2.0
"""Rows of hidden width that gather each routed row's biases."""


def expert_rows(ff: FeedForward, setting: Setting) -> Floats:
    """R, routed rows a device buffers."""
    here = setting.here
    return here.tokens * rows_per_token(setting.case, ff, here.expert, here.context)


def held_experts(layer: Layer, setting: Setting) -> list[Part]:
    """All a layer of a block holds while another goes back, with its gathered experts."""
    ff = layer.feed_forward
    return [
        *held(layer, setting),
        *_rows(ff, setting, 2.0, 3.0 + BIASES * ff.bias),
        *_shared(ff, setting, 2.0),
        _matrices(ff, setting, 3.0),
    ]


def apart_experts(layer: Layer, setting: Setting) -> list[Part]:
    """What a layer of a block holds beside another if its own input is kept: attention and its gathered experts.

    Rows are routed when the layer's turn comes; under expert parallelism all layers' are, early. Source: buffer dumps of
    llama4-17b-16e over 512 devices and gpt-oss-20b on expert 4.
    """
    ff, early = layer.feed_forward, (setting.here.expert > 1).astype(np.float64)
    return [
        *held(layer, setting),
        *_rows(ff, setting, 2.0 * early, (3.0 + BIASES * ff.bias) * early),
        *_shared(ff, setting, 2.0 * early),
        _matrices(ff, setting, 3.0),
    ]


def staged_experts(layer: Layer, setting: Setting) -> list[Part]:
    """All a layer of a pipeline stage holds while another goes back."""
    weights = gathered_weights(setting, attention_weights(layer, setting), setting.gathers)
    return [*held_experts(layer, setting), weights]


def unrolled_experts(layer: Layer, setting: Setting) -> list[Part]:
    """All a layer outside the scanned loops holds from the forward pass on; its experts are gathered again."""
    return [p for p in held_experts(layer, setting) if p[0] != "gathered_weights_bytes"]


def expert_moments(layer: Layer, setting: Setting, *, pressed: Bools | None = None) -> dict[str, list[Part]]:
    """Everything a mixture-of-experts layer holds at each moment of its backward pass, by the moment's name.

    `pressed` marks candidates for which the compiler saves memory.
    """
    ff = layer.feed_forward
    alive = [
        stream(setting, 1.0),
        *recomputed(layer, setting),
        *_shared(ff, setting, 3.0),
        gathered_weights(setting, attention_weights(layer, setting), setting.gathers),
    ]
    counts = SPARSE_MOMENTS if setting.case.runtime.sparse_matmul else DENSE_MOMENTS
    least = _sorted_rows(ff, setting, pressed)
    copies = _layout_copies(setting)
    return {
        name: [
            *alive,
            *_slots(ff, setting, 2.0 if name == "slots_backward" else 1.0),
            *_rows(ff, setting, np.minimum(rows, least), hidden + BIASES * ff.bias * (hidden > 1)),
            _matrices(ff, setting, matrices + copies.get(name, 0.0)),
        ]
        for name, (rows, hidden, matrices) in counts.items()
    }


def _sorted_rows(ff: FeedForward, setting: Setting, pressed: Bools | None) -> Floats:
    split = setting.here.tensor > 1
    before = np.where(split, not setting.case.runtime.megablox, ff.width > setting.width)
    early = before if pressed is None else before | pressed
    return np.where(early, PRESSED_ROWS, np.where(split, SPLIT_ROWS, ALL_ROWS))


def _rows(ff: FeedForward, setting: Setting, rows: Floats | float, hidden: Floats | float) -> list[Part]:
    R, D, F = expert_rows(ff, setting), padded(setting.width), padded(ff.width)
    t = setting.here.tensor
    return [
        part("moe_dispatch", "sorted_rows", terms.expert_rows_bytes, c=rows, R=R, D=D),
        part("moe_dispatch", "hidden_rows", terms.expert_hidden_bytes, c=hidden, R=R, F=F, t=t),
    ]


def _slots(ff: FeedForward, setting: Setting, count: float) -> list[Part]:
    """Which token takes which slot of which expert, on the dense path with a capacity."""
    slots = None if setting.case.runtime.sparse_matmul else capacity(setting.case, ff, setting.here.context)
    if slots is None:
        return []
    return [part("moe_dispatch", "slots", terms.slots_bytes, c=count, n=setting.here.tokens, E=ff.n_experts, C=slots)]


def _shared(ff: FeedForward, setting: Setting, count: Floats | float) -> list[Part]:
    if not ff.n_shared_experts:
        return []
    n, t, F = setting.here.tokens, setting.here.tensor, ff.total_shared_width
    return [part("layer_work", "shared_hidden", terms.feed_forward_bytes, c=count, n=n, F=F, t=t)]


def _matrices(ff: FeedForward, setting: Setting, count: Floats | float) -> Part:
    """Whole matrices of the experts a device computes, gathered over the axes that split them, or their gradients."""
    e, t, EDF = setting.here.expert, setting.here.tensor, ff.n_experts * setting.width * ff.width
    return part("gathered_weights", "expert_matrices", terms.expert_weights_bytes, c=count, W=EDF, e=e, t=t)


def _layout_copies(setting: Setting) -> dict[str, Floats]:
    """Expert matrices copied to another layout after the gather, by moment: where shards do not fill whole tiles."""
    shards = setting.expert_shards
    share = setting.width / shards
    lanes, rows = ((share % size != 0) & (shards > 1) for size in (LANES, PACKED_ROWS))
    return {"experts_recomputed": 1.0 * lanes + rows, "experts_backward": 1.0 * rows}
