"""Worked problems of "How To Scale Your Model", and the public formulas that cover them."""

# ruff: noqa: PLW0108 - a lambda's keyword names are the letters of the vector
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from places import DATA

from shardplan.cost.network.intensity import (
    best_fsdp,
    expert_width,
    gather_tokens,
    mixed_tokens,
    ridge,
    slice_tokens,
    tensor_width,
)
from shardplan.cost.tensors.parameters import active_parameters, parameter_tensors, total_parameters
from shardplan.cost.tensors.saved import saved_tensors
from shardplan.cost.time.compute import (
    attention_forward_flops,
    layer_matmuls,
    matmul_bytes_per_flop,
    matmul_flops,
    peak_s,
    training_flops,
)
from shardplan.cost.time.seconds import mfu, traffic_s
from shardplan.spec import Architecture, Attention, FeedForward, Layer, LayerGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VECTORS = {v["id"]: v for v in json.loads((DATA / "scaling_book_vectors.json").read_text())}
DAY_S = 86_400


def _dense(L: int, D: int, F: int, N: int, K: int, H: int = 128, V: int = 128) -> Architecture:  # noqa: PLR0917
    layer = Layer(
        attention=Attention(n_query_heads=N, n_key_value_heads=K, head_width=H), feed_forward=FeedForward(width=F)
    )
    return Architecture(model_width=D, vocab_size=V, layer_groups=(LayerGroup(count=L, layers=(layer,)),))


def _deepseek_v3() -> Architecture:
    mla = Attention(
        kind="mla", n_query_heads=128, n_key_value_heads=128, query_rank=1536, key_value_rank=512, nope_width=128,
        rope_width=64, value_width=128,
    )  # fmt: skip
    moe = FeedForward(kind="moe", width=2048, n_experts=256, n_active_experts=8, n_shared_experts=1)
    return Architecture(
        model_width=7168,
        vocab_size=129280,
        layer_groups=(
            LayerGroup(count=3, layers=(Layer(attention=mla, feed_forward=FeedForward(width=18432)),)),
            LayerGroup(count=58, layers=(Layer(attention=mla, feed_forward=moe),)),
        ),
    )


def _feed_forward_parameters(L: int, D: int, F: int) -> float:
    layer = _dense(1, D, F, 1, 1).layers[0][0]
    matrices = layer_matmuls(layer, D)
    return L * sum(m.inner * m.outer for m in matrices if m.name in {"gate", "up", "down"})


def _attention_parameters(L: int, D: int, N: int, K: int, H: int) -> float:
    layer = _dense(1, D, 128, N, K, H).layers[0][0]
    return L * sum(m.inner * m.outer for m in layer_matmuls(layer, D) if m.name in {"query", "key", "value", "out"})


def _attention_equals(D: int, projections: float) -> float:
    """Sequence length at which full attention does as many FLOPs as `projections` weights a token (D = N H)."""
    return float(matmul_flops(1, projections, 1) / attention_forward_flops(1, 1, D, D, 1))


def _checkpoint_bytes(L: int, B: float, D: int, F: int) -> float:
    """The three feed-forward outputs in bfloat16, kept for all layers."""
    layer = _dense(1, D, F, 1, 1).layers[0][0]
    return L * B * _row_bytes(layer, D, ("mlpwi_0", "mlpwi_1", "mlpwo"))


def _wide_tensors(D: int, n: int) -> float:
    """Elements a token of the `n` tensors of a layer that are as wide as the model, in bfloat16; softmax statistics apart."""
    layer = _dense(1, D, 4 * D, D // 128, D // 128).layers[0][0]
    names = ("decoder_layer_input", "context", "out_proj", "mlpwo")
    statistics = 4 * layer.attention.n_query_heads if "context" in names[:n] else 0
    return (_row_bytes(layer, D, names[:n]) - statistics) / 2


def _row_bytes(layer: Layer, D: int, names: Sequence[str]) -> float:
    """Bytes a token of the named tensors of a layer that another follows in its block."""
    return sum(tensor.row_bytes for tensor in saved_tensors(layer, D, is_last=False) if tensor.names & {*names})


def _vocabulary_parameters(architecture: Architecture) -> int:
    return sum(t.elements for t in parameter_tensors(architecture) if t.role in {"embedding", "head"})


def _days(flops: float, N: float, C: float, used: float) -> float:
    return float(peak_s(flops, N * C * used)) / DAY_S


FORMULAS: dict[str, Callable[..., Any]] = {
    "RL-01": lambda flops, C: peak_s(flops, C),
    "RL-02": lambda flops, C: peak_s(flops, C),
    "RL-03": lambda C, W_hbm: ridge(C, W_hbm),
    "RL-09": lambda C, W_hbm: ridge(C, W_hbm),
    "RL-12": lambda bm, bn: 1 / matmul_bytes_per_flop(bm, 1e30, bn),
    "SH-14": lambda C, W_bidi: ridge(C, W_bidi),
    "SH-17b": lambda B, D, F, chips, C: peak_s(2 * matmul_flops(B, D, F) / chips, C),
    "SH-17c": lambda D, F, chips, W: traffic_s(2 * 2 * D * F / chips, W, 1),
    "TF-04a": lambda D: _attention_equals(D, 16 * D * D),
    "TF-04b": lambda D: _attention_equals(D, 16 * D * D),
    "TF-05a": lambda D, F, V, L: total_parameters(_dense(L, D, F, D // 128, D // 128, V=V)),
    "TF-05b": lambda D: (
        _attention_parameters(1, D, D // 128, D // 128, 128)
        / (_attention_parameters(1, D, D // 128, D // 128, 128) + _feed_forward_parameters(1, D, 4 * D))
    ),
    "TF-06": lambda D: _attention_equals(D, 4 * D * D),
    "TF-09": lambda B, T, N, H: attention_forward_flops(B * T * N, T, H, H, 1),
    "TF-10": lambda hours, C, active, tokens: mfu(training_flops(tokens, active), C, hours * 3600),
    "TF-13": lambda d: matmul_flops(d**3, d**2, d**2),
    "TR-02": lambda C, W_ici: ridge(C, W_ici),
    "TR-03": lambda alpha, M: gather_tokens(alpha, M, 1),
    "TR-04": lambda alpha, M, N: gather_tokens(alpha, M, 1) * N,
    "TR-05": lambda B, alpha, M: B / gather_tokens(alpha, M, 1),
    "TR-06": lambda B, alpha, M: B / gather_tokens(alpha, M, 1),
    "TR-07": lambda flops, N, C, mfu: _days(flops, N, C, mfu),
    "TR-08b": lambda Y, alpha: tensor_width(alpha, Y, 1, 2),
    "TR-09": lambda F, alpha: F / tensor_width(alpha, 1, 1, 2),
    "TR-10": lambda C, W_ici: ridge(C, W_ici),
    "TR-11": lambda N, B, F, Mx, My: best_fsdp(B, F, N, Mx / My),
    "TR-12": lambda alpha, MM, F: mixed_tokens(alpha, F, MM, 1),
    "TR-13": lambda N, alpha, F: N * mixed_tokens(alpha, F, 2, 1),
    "TR-14": lambda C, W_dcn: slice_tokens(ridge(C, W_dcn), 1),
    "TR-15": lambda B, alpha, M: B / gather_tokens(alpha, M, 1),
    "TR-16": lambda alpha, F, MM: mixed_tokens(alpha, F, MM, 1),
    "TR-17": lambda B, bpc: B / mixed_tokens(2550, 30_000, 2, 1) + 0 * bpc,
    "TR-19a": lambda L, D, F, **_: _feed_forward_parameters(L, D, F),
    "TR-19d": lambda L, D, F, N, K, H, V: total_parameters(_dense(L, D, F, N, K, H, V)),
    "TR-20b": _checkpoint_bytes,
    "TR-22a": _checkpoint_bytes,
    "TR-25": lambda alpha, F, MM: mixed_tokens(alpha, F, MM, 1),
    "TR-26": lambda B, F, Mx, My, N: best_fsdp(B, F, N, Mx / My),
    "TR-27": lambda B, P, N, C, mfu: peak_s(training_flops(B, P), N * C * mfu),
    "AT-01a": lambda L, D, F, **_: _feed_forward_parameters(L, D, F),
    "AT-01b": lambda L, D, F, N, K, H, V: _vocabulary_parameters(_dense(L, D, F, N, K, H, V)),
    "AT-01c": lambda L, D, N, K, H, **_: _attention_parameters(L, D, N, K, H),
    "AT-01d": lambda L, D, F, N, K, H, V: total_parameters(_dense(L, D, F, N, K, H, V)),
    "AT-02": lambda P: training_flops(1, P),
    "AT-03": lambda P, C: peak_s(training_flops(1, P), C),
    "AT-04": lambda P, tokens: training_flops(tokens, P),
    "AT-06": lambda flops, N, C, mfu: _days(flops, N, C, mfu),
    "AT-07c": lambda D, B, n, L: 2 * L * B * _wide_tensors(D, n),
    "AT-13": lambda alpha, F, MM: mixed_tokens(alpha, F, MM, 1),
    "AT-14": lambda B, N, F, Mx, My: best_fsdp(B, F, N, Mx / My),
    "AT-16a": lambda L, D, F, N, K, H, V: total_parameters(_dense(L, D, F, N, K, H, V)),
    "AT-16b": lambda P, tokens: training_flops(tokens, P),
    "AT-16c": lambda flops, N, C, mfu: _days(flops, N, C, mfu),
    "AT-16d": lambda alpha, F, MM: mixed_tokens(alpha, F, MM, 1),
    "U7-01": lambda C, W: ridge(C, W),
    "U7-02": lambda C, W: ridge(C, W),
    "U7-03": lambda C, W, M: gather_tokens(ridge(C, W), M, 1),
    "U7-04": lambda F, C, W, M: F / tensor_width(ridge(C, W), 1, M, 2),
    "CO-01": lambda **_: total_parameters(_deepseek_v3()),
    "CO-02": lambda **_: active_parameters(_deepseek_v3()),
    "CO-03": lambda A, C, W, b: expert_width(ridge(C, W), A, b, 3),
    "CO-05": lambda A, C, W, b: expert_width(ridge(C, W), 2 * A, b, 3),
    "PR-01": lambda BT, D, F, C, n: peak_s(matmul_flops(BT, D, F) / n, C),
}
"""Vector to the public function it tests; keyword names are the vector's own letters."""


def answer(vector: str) -> float:
    """What the public formula says of a problem."""
    return float(FORMULAS[vector](**VECTORS[vector]["inputs"]))
