"""Work of one token on one JAX device, summed over all layers, before efficiencies: seconds at peak rates, and bytes.

Most of it depends on a candidate only through the shape of its matmuls; recomputation and saved tensors also on the remat
policy. So sums are kept per shape `(s,)`, or per policy and shape `(p, s)`, and every candidate looks its own up.
Letters as in `compute`; TP and EP are the degrees of tensor and expert parallelism.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import constant, hbm_stall
from shardplan.cost.tensors.routing import capacity, rows_per_token
from shardplan.cost.tensors.saved import ACTIVATION_BYTES, INPUT, block_layers, saved_tensors, spared_by
from shardplan.cost.time.compute import (
    TRAINING_PASSES,
    Matmul,
    attention_backward_flops,
    attention_forward_flops,
    attention_two_pass_flops,
    grouped_rows_factor,
    layer_matmuls,
    matmul_bytes_per_flop,
    matmul_flops,
    peak_s,
    tile_share,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.cost.tensors.saved import Sets
    from shardplan.spec import Case, FeedForward, Layer, RematPolicy
    from shardplan.units import Floats

CAST_BYTES = 3
"""Bytes an element of a low-precision operand costs: a bf16 read and an 8-bit write. Weights are cast as shards."""
LOGIT_BYTES = 4
LOGIT_PASSES = 6
"""Times the logits are written or read: forward, softmax and loss, and the same backward."""
ELEMENTWISE_PASSES = 4
"""Elementwise work of a layer in units of its forward pass: forward, recomputation, and twice that backward."""
WIDTH_TOUCHES = 4
"""Reads and writes of a model-width activation a forward layer: two residual sums, each fused with a matmul's write."""
NORM_TOUCHES = 2
HEAD_TOUCHES = 2
"""A read and a write of queries, keys and values for rotary embedding."""
GATE_TOUCHES = 2
"""A read of the gate and the write of its product with up."""
ROW_PASSES = 3
"""Forward, recomputation and backward of the expert permutation."""
ROW_TOUCHES = 4
"""Reads and writes of a routed row a pass: into expert order and back."""
COMBINE_BYTES = 6
"""Bytes an element of the weighted sum over experts: a bfloat16 read and a float32 write."""


PER_SHAPE = ("low_s", "plain_s", "stall_bytes", "attention_forward_s", "attention_backward_s", "routed_bytes")
PER_POLICY = (
    "low_again_s", "plain_again_s", "stall_again_bytes", "attention_again_s", "touched_bytes", "offload_bytes", "flops",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shapes:
    """What distinguishes the matmuls of candidates, columns `(s,)`."""

    rows: Floats
    """Token rows of one matmul call."""
    TP: Floats
    EP: Floats
    context: Floats
    tiled: Floats
    """1 where the vocabulary is tiled, else 0."""


class Tally:
    """Sums over all layers for some shapes and remat policies."""

    def __init__(self, case: Case, shapes: Shapes, policies: tuple[RematPolicy, ...]) -> None:
        self.case, self.shapes, self.policies = case, shapes, policies
        self.D, self.T = case.architecture.model_width, case.workload.sequence_length
        self.peak = case.cluster.chip.flops_per_s("bf16")
        self.hbm = case.cluster.chip.hbm_bytes_per_s_per_device
        self.is_low = case.cluster.chip.flops_per_s(case.workload.precision) > self.peak
        n = len(shapes.rows)
        self.sums = {name: np.zeros(n) for name in PER_SHAPE}
        self.sums |= {name: np.zeros((len(policies), n)) for name in PER_POLICY}
        for layer, count, is_last in layers_of(case):
            for matmul in layer_matmuls(layer, self.D, is_last_of_block=is_last):
                self._matmul(self._routed(matmul, layer), count)
            self._attention(layer, count)
            self._elementwise(layer, count)
            self._saved(layer, count, is_last=is_last)
        self._head()

    def _recomputed(self, sets: Sets) -> Floats:
        """1 where a policy keeps nothing that spares the recomputation, else 0; `(p, 1)`."""
        return self._by_policy([float(not any(names <= p.device | p.offload for names in sets)) for p in self.policies])

    def _by_policy(self, values: list[float]) -> Floats:
        return np.array(values, dtype=np.float64)[:, None]

    def _routed(self, matmul: Matmul, layer: Layer) -> Matmul:
        """The matmul with the rows its mixture-of-experts path really computes."""
        if matmul.n_experts == 1 or self.case.runtime.sparse_matmul:
            return matmul
        slots = capacity(self.case, layer.feed_forward, 1.0)
        return replace(matmul, visits=matmul.n_experts * (1.0 if slots is None else float(slots) / self.T))

    def _matmul(self, m: Matmul, count: float, again: Floats | None = None) -> None:
        shapes = self.shapes
        inner = m.inner / (shapes.TP if "inner" in m.splits else np.ones_like(shapes.TP))
        outer = m.outer / (shapes.TP if "outer" in m.splits else np.ones_like(shapes.TP))
        rows = shapes.rows * m.visits * np.minimum(shapes.EP, m.n_experts) / m.n_experts
        flops = count * matmul_flops(shapes.TP * m.visits, inner, outer)
        at_peak = peak_s(flops * self._padding(inner) * self._padding(outer) * self._shared_tiles(m, rows), self.peak)
        moved = flops * matmul_bytes_per_flop(rows, inner, outer)
        stalled = moved * hbm_stall(peak_s(flops, self.peak) / (moved / self.hbm))
        again = self._recomputed(m.spared_by) if again is None else again
        kind = "low" if m.is_quantised else "plain"
        self.sums[f"{kind}_s"] += TRAINING_PASSES * at_peak
        self.sums["stall_bytes"] += TRAINING_PASSES * stalled
        self.sums[f"{kind}_again_s"] += again * at_peak
        self.sums["stall_again_bytes"] += again * stalled
        self.sums["flops"] += (TRAINING_PASSES + again) * flops
        if m.is_quantised and self.is_low:
            cast = (2 + again) * (0 if m.shares_input else inner) + outer
            self.sums["touched_bytes"] += count * shapes.TP * m.visits * cast * CAST_BYTES

    def _shared_tiles(self, m: Matmul, rows: Floats) -> Floats | float:
        """Factor for row tiles of a grouped matmul that straddle two experts: about one more tile an expert."""
        if m.n_experts == 1 or not self.case.runtime.sparse_matmul:
            return 1.0
        factor: Floats = grouped_rows_factor(rows, constant("kernels", "grouped_tile_rows"))
        return factor

    def _padding(self, width: Floats | float) -> Floats:
        """Factor by which a matrix unit's grid enlarges a width."""
        unit = self.case.cluster.chip.mxu_dim
        padded: Floats = np.ceil(np.asarray(width) / unit) * unit / width
        return padded

    def _attention(self, layer: Layer, count: float) -> None:
        a, runtime = layer.attention, self.case.runtime
        tile = int(constant("kernels", "measured_tile_tokens"))
        share = tile_share(a, self.T, tile) if runtime.attention == "flash" else 1.0
        # Ulysses gives a device whole sequences of some heads: nobody has more of the triangle.
        is_even = runtime.context_load_balance or runtime.context_strategy == "ulysses"
        uneven = 1.0 if is_even else 2 - 1 / self.shapes.context
        rows = count * a.n_query_heads * uneven * np.ones_like(self.shapes.TP)
        again = self._recomputed(spared_by(layer, is_last=True)["attention"])
        Q, U = a.qk_width, a.v_width
        filled_Q, filled_U = Q * self._padding(Q), U * self._padding(U)
        # Scores are computed again once in every backward pass but that of jax's two kernels, where each does it for itself.
        is_fused = runtime.attention != "flash" or runtime.tokamax_splash or runtime.fused_attention_backward
        backward = attention_backward_flops if is_fused else attention_two_pass_flops
        for name, formula in (("forward", attention_forward_flops), ("backward", backward)):
            seconds = peak_s(formula(rows, self.T, filled_Q, filled_U, share), self.peak)
            flops = formula(rows, self.T, Q, U, share)
            self.sums[f"attention_{name}_s"] += seconds
            self.sums["flops"] += flops
            if name == "forward":
                self.sums["attention_again_s"] += again * seconds
                self.sums["flops"] += again * flops

    def _elementwise(self, layer: Layer, count: float) -> None:
        a, block = layer.attention, layer.feed_forward
        heads = a.n_query_heads * a.qk_width + a.n_key_value_heads * (a.qk_width + a.v_width)
        hidden = block.total_shared_width + block.n_active_experts * block.width if block.is_moe else block.width
        elements = (
            (WIDTH_TOUCHES + NORM_TOUCHES * layer.n_norms) * self.D + HEAD_TOUCHES * heads + GATE_TOUCHES * hidden
        )
        self.sums["touched_bytes"] += count * elements * ACTIVATION_BYTES * ELEMENTWISE_PASSES
        if block.is_moe and self.case.runtime.sparse_matmul:
            rows = self.shapes.TP * self._rows(block)
            per_row = ROW_TOUCHES * ACTIVATION_BYTES * np.where(self.shapes.EP > 1, 2, 1) + COMBINE_BYTES
            self.sums["routed_bytes"] += count * rows * self.D * per_row * ROW_PASSES
        elif block.is_moe and (slots := capacity(self.case, block, 1.0)) is not None:
            for name in ("dispatch", "combine"):
                everything = float(slots) * block.n_experts
                self._matmul(Matmul(name, everything, self.D, (), is_quantised=False), count)

    def _saved(self, layer: Layer, count: float, *, is_last: bool) -> None:
        kept = self._kept_bytes(layer, [p.device - {INPUT} for p in self.policies], is_last=is_last)
        moved = self._kept_bytes(layer, [p.offload for p in self.policies], is_last=is_last)
        self.sums["touched_bytes"] += 2 * count * (kept + moved)
        self.sums["offload_bytes"] += count * moved

    def _kept_bytes(self, layer: Layer, names: list[frozenset[str]], *, is_last: bool) -> Floats:
        """Bytes a token of the tensors of a layer that each set of names keeps, `(p, s)`."""
        tensors, routed = saved_tensors(layer, self.D, is_last=is_last), self._rows(layer.feed_forward)
        plain, expert = (
            self._by_policy(
                [sum(t.row_bytes for t in tensors if t.is_routed == kind and t.names & kept) for kept in names]
            )
            for kind in (False, True)
        )
        return plain + expert * routed

    def _rows(self, ff: FeedForward) -> Floats | float:
        """Routed rows a token; 0 in a dense layer."""
        return rows_per_token(self.case, ff, self.shapes.EP) if ff.is_moe else 0.0

    def _head(self) -> None:
        """Logits and loss, once more for every multi-token-prediction module; tiled ones are recomputed.

        A one-hot embedding is a matmul as large, forward and for the gradient of its table: tokens have none. Source: MaxText
        layers/embeddings.py.
        """
        V, n_mtp = self.case.architecture.vocab_size, self.case.architecture.n_mtp_layers
        if self.case.runtime.iota_embed:
            lookup = Matmul("embedding", V, self.D, ("inner",), is_quantised=False)
            self._matmul(lookup, (TRAINING_PASSES - 1) / TRAINING_PASSES, self._by_policy([0.0] * len(self.policies)))
        self._matmul(Matmul("head", self.D, V, ("outer",), is_quantised=False), 1 + n_mtp, self.shapes.tiled)
        self.sums["touched_bytes"] += (1 + n_mtp) * V * LOGIT_BYTES * LOGIT_PASSES
        if n_mtp:
            self._matmul(Matmul("mtp_projection", 2 * self.D, self.D, ()), n_mtp)


def layers_of(case: Case) -> Iterator[tuple[Layer, int, bool]]:
    """Each layer kind with its count and whether it ends its recomputed block."""
    for group in case.architecture.layer_groups:
        yield from ((layer, group.count * n, last) for layer, n, last in block_layers(group))
    if case.architecture.n_mtp_layers:
        yield case.architecture.layer_groups[-1].layers[-1], case.architecture.n_mtp_layers, True
