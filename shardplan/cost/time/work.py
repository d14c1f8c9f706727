"""What one JAX device does in an optimizer step, before efficiencies: seconds at peak rates, and bytes.

Everything here is exact for the structure; what measurement adds is in `calibration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.distinct import distinct
from shardplan.cost.tensors.parameters import total_parameters
from shardplan.cost.time.tally import PER_POLICY, PER_SHAPE, Shapes, Tally
from shardplan.maxtext.axes import WEIGHT_AXES
from shardplan.spec import DTYPE_BYTES

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats


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
    tokens: Floats
    """Tokens a device's share of the step."""


def work(case: Case, candidates: Candidates) -> Work:
    """The work of every candidate."""
    micro_tokens = candidates.per_device_batch * case.workload.sequence_length
    tokens = micro_tokens * candidates.gradient_accumulation
    TP, stages = candidates.degree("tensor"), candidates.degree("pipeline")
    columns: list[Floats] = [
        np.asarray(column, dtype=np.float64)
        for column in (
            micro_tokens * TP * stages / candidates.pipeline_microbatches,
            TP,
            candidates.degree("expert"),
            np.ones_like(TP) if case.runtime.context_load_balance else candidates.degree("context"),
            candidates.num_vocab_tiling > 1,
        )
    ]
    shapes = distinct(columns)
    few = Shapes(*(column[shapes.first] for column in columns))
    sums = Tally(case, few, candidates.remat_policies).sums
    optimizer_bytes, host_state_bytes = _state(case, candidates)
    return Work(
        **{name: tokens * sums[name][shapes.inverse] for name in PER_SHAPE},
        **{name: tokens * sums[name][candidates.remat, shapes.inverse] for name in PER_POLICY},
        optimizer_bytes=optimizer_bytes,
        host_state_bytes=host_state_bytes,
        tokens=tokens,
    )


def _state(case: Case, candidates: Candidates) -> tuple[Floats, Floats]:
    """HBM traffic of the update and of summing gradients, and optimizer state fetched from host memory."""
    optimizer = case.workload.optimizer
    weight, first = DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.mu_dtype]
    moments = {"sgd": 0, "muon": first}.get(optimizer.name, first + weight)
    splits = candidates.degree(*WEIGHT_AXES)
    held = total_parameters(case.architecture) / splits
    steps = candidates.gradient_accumulation
    summed = np.where(steps > 1, 3 * weight * steps, 0)
    touched = held * (2 * (weight + moments) + DTYPE_BYTES[optimizer.gradient_dtype] + summed)
    return touched, held * (moments if optimizer.host_offload else 0)
