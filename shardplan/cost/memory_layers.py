"""What one layer holds in its backward pass: the recomputed activations, and the buffers of each moment inside it.

The compiler's schedule is the same for every layer of a kind: recompute the forward pass, then go back through the
feed-forward block or the experts, then attention. Counts of live buffers are read off buffer assignments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardplan.cost import memory_terms as terms
from shardplan.cost.activations import LANES, Local, spared
from shardplan.cost.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.candidates import Candidates
    from shardplan.spec import Case, FeedForward, Layer
    from shardplan.units import Bools, Floats

Part: TypeAlias = tuple[str, Term]
"""A term with the kind of memory it belongs to in the breakdown."""


def part(kind: str, name: str, function: Callable[..., Any], **letters: Any) -> Part:
    """One buffer of a moment."""
    return f"{kind}_bytes", Term(f"{name}_bytes", function, letters)


@dataclass(frozen=True)
class Setting:
    """What every layer of a case shares. Columns `(n,)`."""

    case: Case
    candidates: Candidates
    here: Local
    shards: Floats
    """Devices that share the width of a weight: fsdp, its transpose, context and expert."""
    ring: Bools
    """Whether the compiler decomposes weight gathers and gradient scatters into rings of permutes."""
    fuses_matmuls: bool
    """Whether elementwise work of the feed-forward block fuses into its matmuls; not when SparseCores gather weights."""

    @property
    def width(self) -> int:
        """D, model width."""
        return self.case.architecture.model_width

    @property
    def tensor_split(self) -> Floats:
        """1 where a tensor axis splits the residual stream, else 0; `(n,)`."""
        split: Floats = (self.here.tensor > 1).astype(np.float64)
        return split

    @property
    def gathers(self) -> Floats:
        """1 where weights must be gathered before use, else 0; `(n,)`."""
        gathers: Floats = (self.shards > 1).astype(np.float64)
        return gathers


def padded(width: int) -> int:
    """A last dimension as stored: whole lanes."""
    return -(-width // LANES) * LANES


def expert_rows(ff: FeedForward, setting: Setting) -> Floats:
    """R, routed rows a device buffers, `(n,)`: the worst case under expert parallelism unless a factor bounds it.

    The dense path has a row for every slot of every expert, or without a capacity for every token at every expert.
    Source: maxtext reference 3.1, 2.5.
    """
    if not setting.case.runtime.sparse_matmul:
        slots = capacity(ff, setting)
        per_row = setting.here.tokens / setting.here.rows if slots is None else slots
        dense: Floats = setting.here.rows * ff.n_experts * per_row
        return dense
    degree, factor = setting.here.expert, setting.case.runtime.ragged_buffer_factor
    worst = np.minimum(degree, ff.n_experts / ff.n_active_experts) if factor <= 0 else factor
    rows: Floats = setting.here.tokens * ff.n_active_experts * np.where(degree > 1, worst, 1.0)
    return rows


def capacity(ff: FeedForward, setting: Setting) -> Floats | None:
    """Slots an expert has for the tokens of one sequence, `(n,)`; None if it takes all. Source: maxtext reference 2.5."""
    factor = setting.case.runtime.capacity_factor
    if factor <= 0:
        return None
    length = setting.case.workload.sequence_length / setting.here.context
    slots: Floats = np.maximum(np.ceil(length * ff.n_active_experts / ff.n_experts) * factor, factor)
    return np.floor(slots)


# --- what the backward pass of a layer needs ---------------------------------------------------------------------------


def residuals(layer: Layer, setting: Setting, *, hidden: float = 1.0) -> list[Part]:
    """Activations one layer recomputes and holds until its own backward pass is done with them.

    `hidden` 0 leaves out the feed-forward block's hidden activations.
    """
    ff = layer.feed_forward
    stream = 3.0 if layer.n_norms <= 2 else 5.0  # noqa: PLR2004 - a norm after a block needs the block's output
    single = 0.0 if setting.fuses_matmuls else 3.0 * (setting.here.rows <= 1)
    common = [_stream(stream + single, setting), *_gathered_stream(2.0, setting), *_attention(layer, setting)]
    if ff.is_moe:
        return common + _expert_residuals(ff, setting, hidden)
    return common + _hidden(ff, setting, hidden * _recomputed(ff, setting))


def held(layer: Layer, setting: Setting) -> list[Part]:
    """Activations a layer holds while a later one goes back: of a block, or of layers that are not scanned.

    The layer ran to its end, so the input of its down projection and its output are there too.
    """
    ff = layer.feed_forward
    stream = 4.0 if layer.n_norms <= 2 else 7.0  # noqa: PLR2004
    common = [_stream(stream, setting), *_gathered_stream(2.0, setting), *_attention(layer, setting)]
    if ff.is_moe:
        return common + _expert_residuals(ff, setting, 1.0)
    return common + _hidden(ff, setting, 1.0 + _recomputed(ff, setting))


def _stream(count: Floats | float, setting: Setting) -> Part:
    here = setting.here
    return part("layer_work", "layer_stream", terms.stream_bytes, c=count, n=here.tokens, D=setting.width, t=here.tensor)


def _gathered_stream(count: float, setting: Setting) -> list[Part]:
    n, c = setting.here.tokens, count * setting.tensor_split
    return [part("layer_work", "tensor_gathered", terms.gathered_stream_bytes, c=c, n=n, D=setting.width)]


def held_in_stage(layer: Layer, setting: Setting) -> list[Part]:
    """What one layer of a pipeline stage holds while another goes back: its weight gradients come last."""
    ff = layer.feed_forward
    weights = _gathered(attention_weights(layer, setting), setting, setting.gathers)
    if ff.is_moe:
        return [*residuals(layer, setting), weights, expert_matrices(ff, setting, 3.0)]
    block = _gathered(setting.width * ff.width, setting, setting.gathers * (ff.n_matrices - 1))
    return [*residuals(layer, setting, hidden=0), *_hidden(ff, setting, 2.0 + ff.gated * 2), weights, block]


def _attention(layer: Layer, setting: Setting) -> list[Part]:
    a, n, t = layer.attention, setting.here.tokens, setting.here.tensor
    lanes = np.where(spared(setting.candidates, "context"), 1.0, float(LANES))
    if setting.case.runtime.tokamax_splash:
        lanes = np.ones_like(lanes)
    N, K, H, J = a.n_query_heads, a.n_key_value_heads, padded(a.qk_width), padded(a.v_width)
    found = [part("layer_work", "attention", terms.attention_bytes, n=n, N=N, K=K, H=H, J=J, x=setting.here.context, t=t)]
    if a.qk_norm != "none":
        found.append(part("layer_work", "unnormed_queries_keys", terms.attention_bytes, n=n, N=N, K=K, H=H, J=0, x=1.0, t=t))
    if setting.case.runtime.attention == "flash":
        found.append(part("layer_work", "softmax_statistics", terms.statistics_bytes, n=n, N=N, H=lanes, t=t))
    else:
        T = setting.case.workload.sequence_length
        found.append(part("layer_work", "scores", terms.scores_bytes, c=1.0, n=n, N=N, T=T, t=t))
    return found


def _recomputed(ff: FeedForward, setting: Setting) -> Floats:
    """Hidden activations of the dense block that are recomputed rather than read back, `(n,)`."""
    names = ("mlpwi_0", "mlpwi_1") if ff.gated else ("mlpwi",)
    return sum((~spared(setting.candidates, name)).astype(np.float64) for name in names)  # type: ignore[return-value]


def _hidden(ff: FeedForward, setting: Setting, count: Floats | float) -> list[Part]:
    n, t = setting.here.tokens, setting.here.tensor
    return [part("layer_work", "hidden", terms.feed_forward_bytes, c=count, n=n, F=ff.width, t=t)]


def _expert_residuals(ff: FeedForward, setting: Setting, hidden: float) -> list[Part]:
    bias = 2.0 if ff.bias else 0.0
    found = _expert_rows(ff, setting, 2.0, hidden * (3.0 + bias))
    return found + _shared(ff, setting, 2.0 * hidden)


def _expert_rows(ff: FeedForward, setting: Setting, rows: Floats | float, hidden: Floats | float) -> list[Part]:
    R, D, F = expert_rows(ff, setting), padded(setting.width), padded(ff.width)
    return [
        part("moe_dispatch", "sorted_tokens", terms.expert_rows_bytes, c=rows, R=R, D=D),
        part("moe_dispatch", "expert_hidden", terms.expert_hidden_bytes, c=hidden, R=R, F=F, t=setting.here.tensor),
    ]


def _shared(ff: FeedForward, setting: Setting, count: float) -> list[Part]:
    if not ff.n_shared_experts:
        return []
    n, t = setting.here.tokens, setting.here.tensor
    return [part("layer_work", "shared_hidden", terms.feed_forward_bytes, c=count, n=n, F=ff.total_shared_width, t=t)]


# --- the moments inside a layer's backward pass ------------------------------------------------------------------------


def layer_moments(layer: Layer, setting: Setting) -> dict[str, list[Part]]:
    """Everything one layer holds at each moment of its backward pass, by the moment's name."""
    stream = part(
        "layer_work", "stream_gradient", terms.stream_bytes, c=1.0, n=setting.here.tokens, D=setting.width, t=setting.here.tensor
    )
    inner = _experts(layer, setting) if layer.feed_forward.is_moe else _dense(layer, setting)
    return {name: [stream, *parts] for name, parts in inner.items()}


def _dense(layer: Layer, setting: Setting) -> dict[str, list[Part]]:
    ff, n, t, D = layer.feed_forward, setting.here.tokens, setting.here.tensor, setting.width
    attention, block = attention_weights(layer, setting), D * ff.width
    separate = 0.0 if setting.fuses_matmuls else np.where((t > 1) & (setting.shards < 4), 0.0, 1.0) * setting.ring  # noqa: PLR2004
    outputs = 1.0 + float(ff.gated)
    doubled = 1.0 if setting.fuses_matmuls else 2.0
    gather = setting.gathers
    full = part("layer_work", "tensor_gathered_gradient", terms.gathered_stream_bytes, c=2 * setting.tensor_split, n=n, D=D)
    fulls = part("layer_work", "tensor_gathered_gradient", terms.gathered_stream_bytes, c=3 * setting.tensor_split, n=n, D=D)
    alone = gather * ~setting.ring
    back = (1.0 - separate) * 1.0 + gather * 1.0
    return {
        "feed_forward_backward": [
            *residuals(layer, setting),
            full,
            *_hidden(ff, setting, outputs + separate * outputs + setting.tensor_split),
            _gathered(attention, setting, gather),
            _gathered(block, setting, gather * (ff.n_matrices - 1) + np.where(separate > 0, 0, gather)),
        ],
        "attention_backward": [
            *residuals(layer, setting, hidden=0),
            fulls,
            *_hidden(ff, setting, 1 + outputs),
            *_attention_gradients(layer, setting),
            _gathered(attention, setting, gather),
        ],
        "weight_gathers": [
            *residuals(layer, setting, hidden=0),
            _gathered(attention + ff.n_matrices * block, setting, doubled * alone),
        ],
        "weight_gradients": [_gathered(attention + ff.n_matrices * block, setting, doubled * alone)],
    }


def _attention_gradients(layer: Layer, setting: Setting) -> list[Part]:
    """Gradients of attention's output, queries, keys and values; unfused, two more arrays of scores."""
    a, n, t = layer.attention, setting.here.tokens, setting.here.tensor
    N, K, H, J = a.n_query_heads, a.n_key_value_heads, padded(a.qk_width), padded(a.v_width)
    found = [part("layer_work", "attention_gradients", terms.attention_bytes, n=n, N=N, K=K, H=H, J=J, x=setting.here.context, t=t)]
    if setting.case.runtime.attention == "dot_product":
        T = setting.case.workload.sequence_length
        found.append(part("layer_work", "score_gradients", terms.scores_bytes, c=2.0, n=n, N=N, T=T, t=t))
    return found


def _masks(ff: FeedForward, setting: Setting) -> list[Part]:
    """Which token takes which slot of which expert, on the dense path with a capacity."""
    slots = None if setting.case.runtime.sparse_matmul else capacity(ff, setting)
    if slots is None:
        return []
    return [part("moe_dispatch", "slots", terms.slots_bytes, n=setting.here.tokens, E=ff.n_experts, C=slots)]


PACKED_ROWS = 16
"""Rows of a bfloat16 tile."""

EXPERT_MOMENTS: dict[str, tuple[float, float, float]] = {
    "experts_recomputed": (3.0, 3.0, 3.0),
    "experts_hidden_gradient": (2.0, 4.0, 2.0),
    "experts_backward": (6.0, 3.0, 1.0),
    "expert_gradients": (1.0, 1.0, 4.0),
}
"""Buffers alive inside the experts' backward pass: sorted rows, hidden rows, gathered matrices. Source: buffer dumps of
mixtral-8x7b and qwen3-30b-a3b with and without expert parallelism."""


DENSE_EXPERT_MOMENTS: dict[str, tuple[float, float, float]] = {"experts_backward": (2.0, 5.0, 3.0)}
"""The same on the dense path. Source: buffer dump of mixtral-8x7b with capacity factor 1.25."""


def _experts(layer: Layer, setting: Setting) -> dict[str, list[Part]]:
    ff = layer.feed_forward
    sparse = setting.case.runtime.sparse_matmul
    fixed = [
        p for p in residuals(layer, setting, hidden=0) if p[0] != "moe_dispatch_bytes"
    ] + [*_shared(ff, setting, 3.0), *_masks(ff, setting), _gathered(attention_weights(layer, setting), setting, setting.gathers)]
    bias = 2.0 if ff.bias else 0.0
    alone = (setting.here.expert == 1) & (setting.here.tensor == 1)
    relaid = _relaid(setting)
    return {
        name: [
            *fixed,
            *_expert_rows(ff, setting, np.where(alone, rows, np.minimum(rows, 4.0)), hidden + bias * (hidden > 1)),
            expert_matrices(ff, setting, matrices + relaid.get(name, 0.0)),
        ]
        for name, (rows, hidden, matrices) in (EXPERT_MOMENTS if sparse else DENSE_EXPERT_MOMENTS).items()
    }


def _relaid(setting: Setting) -> dict[str, Floats]:
    """Expert matrices copied to another layout after the gather, by moment, `(n,)`: where shards do not fill whole tiles."""
    shards = setting.candidates.degree("fsdp", "fsdp_transpose", "context")
    lanes = ((setting.width / shards % LANES != 0) & (shards > 1)).astype(np.float64)
    rows = ((setting.width / shards % PACKED_ROWS != 0) & (shards > 1)).astype(np.float64)
    return {"experts_recomputed": lanes + rows, "experts_backward": rows}


def expert_matrices(ff: FeedForward, setting: Setting, count: Floats | float) -> Part:
    """Gathered matrices of all the experts a device computes, or their gradients."""
    return part(
        "gathered_weights", "expert_matrices", terms.expert_weights_bytes,
        c=count, E=ff.n_experts, D=setting.width, F=ff.width, e=setting.here.expert, t=setting.here.tensor,
    )  # fmt: skip


def attention_weights(layer: Layer, setting: Setting) -> int:
    """Elements of the attention matrices of a layer."""
    from shardplan.cost.parameters import layer_tensors

    return sum(t.size for t in layer_tensors(layer, setting.case.architecture) if t.role == "attention")


def _gathered(W: int, setting: Setting, count: Floats | float) -> Part:
    return part("gathered_weights", "gathered_matrices", terms.matrices_bytes, c=count, W=W, t=setting.here.tensor)
