"""Floating-point operations: the matrices each token meets in a layer, and attention's share.

Letters: n rows (tokens, or queries of all heads), A and B inner and outer width of a matmul, D model width, P parameters,
Q width of a query or key head, U width of a value head, T sequence length, w window, b rows of a kernel tile, c share of
the T x T score pairs that are computed. A multiply and an add are two FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost.tensors.saved import spared_by

if TYPE_CHECKING:
    from shardplan.cost.tensors.saved import Sets
    from shardplan.spec import Architecture, Attention, FeedForward, Layer

BACKWARD_MATMULS = 2
"""Matmuls of the backward pass for each of the forward pass: one for the input's gradient, one for the weight's."""
TRAINING_PASSES = 1 + BACKWARD_MATMULS


def matmul_flops(n: Any, A: Any, B: Any) -> Any:
    """FLOPs of n rows times a matrix of A x B. Source: scaling book, transformers, counting dots."""
    return 2 * n * A * B


def attention_two_pass_flops(n: Any, T: Any, Q: Any, U: Any, c: Any) -> Any:
    """FLOPs of the two-kernel backward pass: each computes scores and the probabilities' gradient for itself.

    Source: the seven matmuls of the dkv and dq splash kernels, jax experimental/pallas/ops/tpu/splash_attention.
    """
    return 2 * n * T * (4 * Q + 3 * U) * c


def grouped_rows_factor(r: Any, b: Any) -> Any:
    """Rows a grouped matmul computes over those it needs, with r rows an expert in tiles of b: one tile an expert more.

    Source: megablox visits a tile once for every group in it, jax experimental/pallas/ops/tpu/megablox.
    """
    return 1 + b / r


def peak_s(F: Any, C: Any) -> Any:
    """Seconds of F FLOPs at C FLOP/s. Source: scaling book, roofline."""
    return F / C


def matmul_bytes_per_flop(n: Any, A: Any, B: Any) -> Any:
    """Bytes a bf16 matmul moves through HBM for each FLOP: operands and result once. Source: scaling book, roofline."""
    return 1 / A + 1 / B + 1 / n


def attention_forward_flops(n: Any, T: Any, Q: Any, U: Any, c: Any) -> Any:
    """FLOPs of scores and weighted values for n query rows. Source: scaling book, transformers, attention."""
    return 2 * n * T * (Q + U) * c


def attention_backward_flops(n: Any, T: Any, Q: Any, U: Any, c: Any) -> Any:
    """FLOPs of the fused backward kernel: scores again, and the gradients of values, probabilities, queries, keys.

    Source: the five matmuls of the fused splash kernel, jax experimental/pallas/ops/tpu/splash_attention.
    """
    return 2 * n * T * (3 * Q + 2 * U) * c


def training_flops(n: Any, P: Any) -> Any:
    """FLOPs of forward and backward for n tokens through P parameters. Source: scaling book, transformers: 6 n P."""
    return 6 * n * P


def causal_share(T: Any) -> Any:
    """Share of the T x T pairs a causal query looks at. Source: MaxText maxtext_utils, pull request 1988."""
    return 1 / 2 + 0 * T


def sliding_share(T: Any, w: Any) -> Any:
    """Share of pairs within a sliding window w <= T. Source: MaxText maxtext_utils, gemma2 and gpt-oss FLOPs."""
    return w / T - w * w / (2 * T * T)


def chunked_share(T: Any, w: Any) -> Any:
    """Share of pairs within causal chunks of w <= T. Source: MaxText maxtext_utils, llama4 FLOPs."""
    return w / (2 * T)


def causal_tile_share(T: Any, b: Any) -> Any:
    """Share of pairs a block-sparse kernel computes: whole tiles of b on and below the diagonal (b <= T)."""
    return (T + b) / (2 * T)


def sliding_tile_share(T: Any, w: Any, b: Any) -> Any:
    """Share of pairs in whole tiles of b that a sliding window touches, at most all causal ones."""
    return np.minimum((np.ceil((w - 1) / b) * b + b) / T, (T + b) / (2 * T))


def pair_share(attention: Attention, T: int) -> float:
    """Share of the T x T pairs that the mask lets through: what counts as model FLOPs."""
    if attention.window is None or attention.window >= T:
        return float(causal_share(T))
    share = sliding_share if attention.window_kind == "sliding" else chunked_share
    return float(share(T, attention.window))


def tile_share(attention: Attention, T: int, b: int) -> float:
    """Share of the T x T pairs that the kernel computes in tiles of b."""
    if b >= T:
        return 1.0
    if attention.window is None or attention.window >= T:
        return float(causal_tile_share(T, b))
    if attention.window_kind == "sliding":
        return float(sliding_tile_share(T, attention.window, b))
    return attention.window / T * (float(causal_tile_share(attention.window, b)) if b < attention.window else 1.0)


@dataclass(frozen=True, slots=True)
class Matmul:
    """One weight matrix of a layer, as a token meets it."""

    name: str
    inner: float
    """Width it contracts."""
    outer: float
    """Width it yields."""
    splits: tuple[str, ...]
    """Which of `inner` and `outer` tensor parallelism divides; empty for neither."""
    visits: float = 1
    """Rows a token takes through it: k for routed experts."""
    n_experts: int = 1
    """Matrices of the kind, among which the rows are divided."""
    shares_input: bool = False
    """Whether another matrix of the layer reads the same rows."""
    is_quantised: bool = True
    """Whether a low-precision recipe runs it in that precision."""
    spared_by: Sets = ()
    """Sets of saved tensors, any one of which makes recomputing it unnecessary; the empty set spares it always."""


def layer_matmuls(layer: Layer, D: int, *, is_last_of_block: bool = True) -> tuple[Matmul, ...]:
    """Every matrix of one layer, with what makes recomputing it unnecessary."""
    ff, spared = layer.feed_forward, spared_by(layer, is_last=is_last_of_block)
    width = ff.total_shared_width if ff.is_moe else ff.width
    matrices = (
        *(_latent_projections if layer.attention.kind == "mla" else _projections)(layer.attention, D),
        *(_experts(ff, D) if ff.is_moe else ()),
        *(_dense(width, ff, D) if width else ()),
    )
    return tuple(replace(matrix, spared_by=spared.get(matrix.name, ())) for matrix in matrices)


def _projections(attention: Attention, D: int) -> tuple[Matmul, ...]:
    heads, pairs = (
        attention.n_query_heads * attention.qk_width,
        attention.n_key_value_heads * attention.qk_width,
    )
    out = Matmul("out", attention.n_query_heads * attention.v_width, D, ("inner",))
    if attention.fused_qkv:
        return Matmul("qkv", D, heads + 2 * pairs, ("outer",)), out
    return (
        Matmul("query", D, heads, ("outer",)),
        Matmul("key", D, pairs, ("outer",), shares_input=True),
        Matmul("value", D, pairs, ("outer",), shares_input=True),
        out,
    )


def _latent_projections(attention: Attention, D: int) -> tuple[Matmul, ...]:
    heads = attention.n_query_heads
    query = (
        (
            Matmul("query_down", D, attention.query_rank, ()),
            Matmul("query_up", attention.query_rank, heads * attention.qk_width, ("outer",)),
        )
        if attention.query_rank
        else (Matmul("query", D, heads * attention.qk_width, ("outer",)),)
    )
    rank = attention.key_value_rank
    return (
        *query,
        Matmul("key_value_down", D, rank + attention.rope_width, (), shares_input=True),
        Matmul("key_value_up", rank, heads * (attention.nope_width + attention.v_width), ("outer",)),
        Matmul("out", heads * attention.v_width, D, ("inner",)),
    )


def _dense(width: int, ff: FeedForward, D: int) -> tuple[Matmul, ...]:
    return (
        Matmul("gate", D, width, ("outer",)),
        *([Matmul("up", D, width, ("outer",), shares_input=True)] if ff.gated else []),
        Matmul("down", width, D, ("inner",)),
    )


def _experts(ff: FeedForward, D: int) -> tuple[Matmul, ...]:
    F, k, E = ff.width, ff.n_active_experts, ff.n_experts
    return (
        Matmul("router", D, E, (), is_quantised=False),
        Matmul("expert_gate", D, F, ("outer",), k, E),
        *([Matmul("expert_up", D, F, ("outer",), k, E, shares_input=True)] if ff.gated else []),
        Matmul("expert_down", F, D, ("inner",), k, E),
    )


def weight_flops_per_token(architecture: Architecture) -> float:
    """Forward FLOPs of one token through every weight matrix, the output head included; experts count if active."""
    D = architecture.model_width
    total = float(matmul_flops(1, D, architecture.vocab_size))
    for layer, count in architecture.layers:
        total += count * sum(float(matmul_flops(m.visits, m.inner, m.outer)) for m in layer_matmuls(layer, D))
    return total


def attention_flops_per_token(architecture: Architecture, T: int) -> float:
    """Forward FLOPs of one token's scores and weighted values, within the masks."""
    total = 0.0
    for layer, count in architecture.layers:
        a = layer.attention
        flops = attention_forward_flops(a.n_query_heads, T, a.qk_width, a.v_width, pair_share(a, T))
        total += count * float(flops)
    return total


def model_flops_per_token(architecture: Architecture, T: int) -> float:
    """Training FLOPs of one token that any implementation must do: no recomputation, no padding, no optimizer.

    Agrees with MaxText's calculate_tflops_training_per_device. Multi-token prediction is left out, as there by default.
    """
    return TRAINING_PASSES * (weight_flops_per_token(architecture) + attention_flops_per_token(architecture, T))
