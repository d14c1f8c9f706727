"""What one JAX device does in an optimizer step, before efficiencies: seconds at peak rates, and bytes.

Letters as in `compute`; rows is the number of token rows of one matmul call, TP and PP the degrees of tensor and
pipeline parallelism. Everything here is exact for the structure; what measurement adds is in `calibration`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import constant, hbm_stall
from shardplan.cost.compute import (
    TRAINING_PASSES,
    Matmul,
    attention_backward_flops,
    attention_forward_flops,
    attention_two_pass_flops,
    layer_matmuls,
    matmul_bytes_per_flop,
    matmul_flops,
    model_flops_per_token,
    peak_s,
    tile_share,
)
from shardplan.cost.distinct import distinct
from shardplan.cost.parameters import total_parameters
from shardplan.cost.saved import offloaded_width, saved_width
from shardplan.spec import DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.candidates import Candidates
    from shardplan.spec import Case, Layer, RematPolicy
    from shardplan.units import Floats

ACTIVATION_BYTES = 2
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


@dataclass(frozen=True, slots=True)
class Work:
    """Columns `(n,)` for one JAX device and optimizer step. Seconds are at the bf16 peak."""

    low_s: Floats
    """Forward and backward of the matmuls that a low precision speeds up."""
    plain_s: Floats
    """Forward and backward of the matmuls that stay in bf16."""
    stall_bytes: Floats
    """HBM traffic that these matmuls do not hide."""
    low_again_s: Floats
    """As `low_s`, for matmuls recomputed in the backward pass."""
    plain_again_s: Floats
    stall_again_bytes: Floats
    attention_forward_s: Floats
    """Attention kernels at the peak that their head widths allow."""
    attention_backward_s: Floats
    attention_again_s: Floats
    touched_bytes: Floats
    """HBM traffic of norms, activations, residuals, saved tensors and logits."""
    routed_bytes: Floats
    """HBM traffic of sorting token rows to experts and back."""
    optimizer_bytes: Floats
    """HBM traffic of the weight update, and of summing gradients over micro-steps."""
    offload_bytes: Floats
    """Activations moved to host memory, and later back."""
    host_state_bytes: Floats
    """Optimizer state fetched from and returned to host memory, each way."""
    flops: Floats
    """FLOPs executed, recomputation and masked tiles included."""
    model_flops: Floats
    """FLOPs any implementation must do."""


def work(case: Case, candidates: Candidates) -> Work:
    """The work of every candidate."""
    groups = distinct(
        [
            candidates.per_device_batch, candidates.gradient_accumulation, candidates.pipeline_microbatches,
            candidates.num_vocab_tiling, candidates.remat,
            *(candidates.degree(axis) for axis in ("tensor", "expert", "pipeline", "context")),
            candidates.degree("fsdp", "fsdp_transpose"),
        ]
    )  # fmt: skip
    few = _Tally(case, candidates.take(groups.first)).work()
    return Work(*(groups.spread(getattr(few, f.name)) for f in fields(Work)))


def layers_of(case: Case) -> Iterator[tuple[Layer, int, bool]]:
    """Each layer kind with its count and whether it ends its recomputed block."""
    for group in case.architecture.layer_groups:
        for place, layer in enumerate(group.layers):
            ends = group.count if place == len(group.layers) - 1 else 0
            yield from ((layer, n, last) for n, last in ((group.count * layer.count - ends, False), (ends, True)) if n)
    if case.architecture.n_mtp_layers:
        yield case.architecture.layer_groups[-1].layers[-1], case.architecture.n_mtp_layers, True


class _Tally:
    """Sums the work of all layers for a few distinct candidates."""

    def __init__(self, case: Case, candidates: Candidates) -> None:
        self.case, self.candidates = case, candidates
        self.D, self.T = case.architecture.model_width, case.workload.sequence_length
        self.TP, self.EP, self.PP = (candidates.degree(a).astype(float) for a in ("tensor", "expert", "pipeline"))
        self.micro_tokens = candidates.per_device_batch * self.T
        self.tokens = self.micro_tokens * candidates.gradient_accumulation
        self.rows = self.micro_tokens * self.TP * self.PP / candidates.pipeline_microbatches
        self.peak = case.cluster.chip.flops_per_s("bf16")
        self.hbm = case.cluster.chip.hbm_bytes_per_s_per_device
        self.sums = {f.name: np.zeros(len(candidates)) for f in fields(Work)}

    def work(self) -> Work:
        for layer, count, is_last in layers_of(self.case):
            for matmul in layer_matmuls(layer, self.D, is_last_of_block=is_last):
                self._matmul(self._routed(matmul, layer), count)
            self._attention(layer, count)
            self._elementwise(layer, count)
            self._saved(layer, count, is_last=is_last)
        self._head()
        self._state()
        per_token = model_flops_per_token(self.case.architecture, self.T)
        self.sums["model_flops"] += per_token * self.tokens
        return Work(**self.sums)

    def _policies(self, of: dict[RematPolicy, float]) -> Floats:
        values: Floats = np.array([of[p] for p in self.candidates.remat_policies])[self.candidates.remat]
        return values

    def _recomputed(self, spared_by: tuple[frozenset[str], ...]) -> Floats:
        """1 where the policy keeps nothing that spares the recomputation, else 0."""
        policies = self.candidates.remat_policies
        return self._policies({p: float(not any(s <= p.device | p.offload for s in spared_by)) for p in policies})

    def _routed(self, matmul: Matmul, layer: Layer) -> Matmul:
        """The matmul with the rows its mixture-of-experts path really computes."""
        runtime, experts = self.case.runtime, layer.feed_forward.n_experts
        if matmul.n_experts == 1 or runtime.sparse_matmul:
            return matmul
        factor = runtime.capacity_factor if runtime.capacity_factor > 0 else experts / matmul.visits
        return replace(matmul, visits=matmul.visits * factor)

    def _matmul(self, m: Matmul, count: float, again: Floats | None = None) -> None:
        inner = m.inner / self.TP if "inner" in m.splits else np.full(len(self.TP), float(m.inner))
        outer = m.outer / self.TP if "outer" in m.splits else np.full(len(self.TP), float(m.outer))
        rows = self.rows * m.visits * np.minimum(self.EP, m.n_experts) / m.n_experts
        flops = count * matmul_flops(self.tokens * self.TP * m.visits, inner, outer)
        at_peak = peak_s(flops * self._padding(inner) * self._padding(outer), self.peak)
        moved = flops * matmul_bytes_per_flop(rows, inner, outer)
        stalled = moved * hbm_stall(peak_s(flops, self.peak) / (moved / self.hbm))
        again = self._recomputed(m.spared_by) if again is None else again
        kind = "low" if m.is_quantised else "plain"
        for passes, suffix in ((TRAINING_PASSES, ""), (again, "_again")):
            self.sums[f"{kind}{suffix}_s"] += passes * at_peak
            self.sums[f"stall{suffix}_bytes"] += passes * stalled
        self.sums["flops"] += (TRAINING_PASSES + again) * flops

    def _padding(self, width: Floats | float) -> Floats:
        """Factor by which a matrix unit's grid enlarges a width."""
        unit = self.case.cluster.chip.mxu_dim
        padded: Floats = np.ceil(np.asarray(width) / unit) * unit / width
        return padded

    def _attention(self, layer: Layer, count: float) -> None:
        a, runtime = layer.attention, self.case.runtime
        name = "attention_tile_tokens" if runtime.tuned_flags else "untuned_attention_tile_tokens"
        tile = int(constant("kernels", name))
        share = tile_share(a, self.T, tile) if runtime.attention == "flash" else 1.0
        context = self.candidates.degree("context")
        uneven = 1.0 if runtime.context_load_balance else 2 - 1 / context
        rows = count * self.tokens * a.n_query_heads * uneven
        again = self._recomputed((frozenset({"context"}),))
        Q, U = a.qk_width, a.v_width
        filled_Q, filled_U = Q * self._padding(Q), U * self._padding(U)
        is_fused = runtime.tokamax_splash or runtime.fused_attention_backward
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
        self.sums["touched_bytes"] += count * self.tokens * elements * ACTIVATION_BYTES * ELEMENTWISE_PASSES
        if block.is_moe and self.case.runtime.sparse_matmul:
            rows = (
                self.tokens * self.TP * block.n_active_experts * self._buffer(block.n_active_experts, block.n_experts)
            )
            per_row = ROW_TOUCHES * ACTIVATION_BYTES * np.where(self.EP > 1, 2, 1) + COMBINE_BYTES
            self.sums["routed_bytes"] += count * rows * self.D * per_row * ROW_PASSES
        elif block.is_moe and self.case.runtime.capacity_factor > 0:
            slots = self.T * block.n_active_experts * self.case.runtime.capacity_factor
            for name in ("dispatch", "combine"):
                self._matmul(Matmul(name, slots, self.D, (), (), is_quantised=False), count)

    def _buffer(self, k: int, E: int) -> Floats:
        """Rows of the routed buffer over those that hold tokens. Source: MaxText ragged_buffer_factor, reference 4.7."""
        chosen = self.case.runtime.ragged_buffer_factor
        worst: Floats = np.minimum(self.EP, E / k)
        return np.where(self.EP > 1, chosen if chosen > 0 else worst, 1.0)

    def _saved(self, layer: Layer, count: float, *, is_last: bool) -> None:
        policies = self.candidates.remat_policies
        kept = {p: saved_width(layer, self.D, p.device, is_last=is_last) for p in policies}
        moved = {p: offloaded_width(layer, self.D, p.offload, is_last=is_last) for p in policies}
        bytes_per_element = count * self.tokens * ACTIVATION_BYTES
        self.sums["touched_bytes"] += 2 * bytes_per_element * self._policies(kept)
        self.sums["offload_bytes"] += bytes_per_element * self._policies(moved)

    def _head(self) -> None:
        """Logits and loss, once more for every multi-token-prediction module; tiled ones are recomputed."""
        V, n_mtp = self.case.architecture.vocab_size, self.case.architecture.n_mtp_layers
        again = (self.candidates.num_vocab_tiling > 1).astype(float)
        self._matmul(Matmul("head", self.D, V, ("outer",), (), is_quantised=False), 1 + n_mtp, again)
        self.sums["touched_bytes"] += (1 + n_mtp) * self.tokens * V * LOGIT_BYTES * LOGIT_PASSES
        if n_mtp:
            self._matmul(Matmul("mtp_projection", 2 * self.D, self.D, (), ()), n_mtp)

    def _state(self) -> None:
        optimizer = self.case.workload.optimizer
        weight, first, grad = (
            DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.mu_dtype], DTYPE_BYTES[optimizer.gradient_dtype]
        )  # fmt: skip
        moments = {"sgd": 0, "muon": first}.get(optimizer.name, first + weight)
        held = total_parameters(self.case.architecture) / self.candidates.degree(
            "fsdp", "fsdp_transpose", "context", "expert", "tensor", "pipeline"
        )
        steps = self.candidates.gradient_accumulation
        summed = np.where(steps > 1, 3 * weight * steps, 0)
        self.sums["optimizer_bytes"] += held * (2 * (weight + moments) + grad + summed)
        if optimizer.host_offload:
            self.sums["host_state_bytes"] += held * moments
