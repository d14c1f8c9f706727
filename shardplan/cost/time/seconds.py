"""The lines of a step's time: pure functions of letters whose values the explanation prints.

Letters: Q matmul seconds at the bf16 peak, U those of matmuls that stay in bf16, A attention seconds at peak, B bytes, W bytes a
second, C and c peak FLOP/s, g speed-up of low precision, s e h u calibrated fractions, K seconds of communication, t busy
seconds, P pipeline stages, m microbatches, r rounds, f and b forward and backward seconds, o offload seconds one way,
z slices, F FLOPs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost.term import Term

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.cost.calibration import Constants
    from shardplan.cost.time.work import Work
    from shardplan.spec import Case
    from shardplan.units import Floats, Ints

SUMMED = (
    "matmul_s", "matmul_stall_s", "attention_forward_s", "attention_backward_s", "matmul_again_s",
    "matmul_stall_again_s", "attention_again_s", "elementwise_s", "expert_rows_s", "exposed_comm_s", "bubble_s", "optimizer_s", "host_state_s", "unhidden_offload_s", "slice_wait_s",
)  # fmt: skip
"""Lines that sum to the step time; the others explain them."""

FORWARD_MATMUL_SHARE = 1 / 3
"""Part of a training step's matmuls, and of its weight traffic, that the forward pass does."""
FORWARD_HBM_SHARE = 1 / 4


def matmul_s(Q: Any, U: Any, g: Any, s: Any) -> Any:
    """Seconds of matmuls at peak over the fraction they sustain; low precision speeds up the quantised ones.

    Source: rules/calibration/matmul.yaml.
    """
    return (Q / g + U) / s


def attention_s(A: Any, e: Any) -> Any:
    """Seconds of attention kernels, at their fraction of the peak that head widths allow.

    Source: rules/calibration/kernels.yaml.
    """
    return A / e


def traffic_s(B: Any, W: Any, e: Any) -> Any:
    """Seconds of moving bytes through HBM or to the host, at the fraction of the bandwidth that is reached.

    Source: rules/calibration/kernels.yaml, overlap.yaml.
    """
    return B / (W * e)


def model_flops(f: Any, n: Any) -> Any:
    """FLOPs of n tokens at f each, forward and backward. Source: MaxText calculate_tflops_training_per_device."""
    return f * n


def low_precision_speedup(C: Any, c: Any, g: Any) -> Any:
    """Speed of large matmuls over bf16, from both peaks and the share of the difference that is realised."""
    return 1 + (C / c - 1) * g


def hidden_s(K: Any, c: Any, h: Any) -> Any:
    """Seconds of weight traffic behind compute: a share of what could hide at best.

    Source: rules/calibration/overlap.yaml.
    """
    return h * np.minimum(K, c)


def exposed_s(K: Any, h: Any) -> Any:
    """Seconds of communication that the step waits for. Source: rules/calibration/overlap.yaml."""
    return K - h


def bubble_s(t: Any, P: Any, m: Any, r: Any) -> Any:
    """Seconds a pipeline idles filling and draining. Source: maxtext reference 4.9: (P - 1) / (r m) of the busy time."""
    return t * (P - 1) / (m * r)


def unhidden_offload_s(o: Any, f: Any, b: Any) -> Any:
    """Seconds that copying out outlasts the forward pass, and copying back the backward pass."""
    return np.maximum(o - f, 0) + np.maximum(o - b, 0)


def slice_wait_s(t: Any, u: Any, z: Any) -> Any:
    """Seconds lost to the slowest slice, for every doubling of slices. Source: rules/calibration/overlap.yaml."""
    return t * u * np.log2(z)


def mfu(F: Any, C: Any, t: Any) -> Any:
    """Model FLOPs over what the peak could do in the step. Source: scaling book, training, MFU."""
    return F / (C * t)


@dataclass(frozen=True, slots=True)
class Rates:
    """Peak rates of one JAX device, and the machine's shape; floats, or columns when many runs are fitted at once."""

    bf16_flops_per_s: Floats | float
    low_flops_per_s: Floats | float
    """Matmul peak in the workload's precision."""
    hbm_bytes_per_s: Floats | float
    host_bytes_per_s: Floats | float
    slices: Floats | float

    @classmethod
    def of(cls, case: Case) -> Rates:
        """The rates of a case's chip."""
        chip = case.cluster.chip
        return cls(
            bf16_flops_per_s=chip.flops_per_s("bf16"),
            low_flops_per_s=chip.flops_per_s(case.workload.precision),
            hbm_bytes_per_s=chip.hbm_bytes_per_s_per_device,
            host_bytes_per_s=chip.pcie_bytes_per_s.value / chip.jax_devices_per_chip,
            slices=float(case.cluster.slices),
        )


@dataclass(frozen=True, slots=True)
class CommunicationSeconds:
    """Communication seconds of a step by what may hide them, `(n,)`."""

    hideable_s: Floats
    """Weight gathers and gradient reductions."""
    inline_s: Floats
    """What the next operation waits for."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline's shape, `(n,)`."""

    stages: Ints | Floats
    microbatches: Ints | Floats
    rounds: Ints | Floats


def step_lines(
    done: Work, traffic: CommunicationSeconds, pipeline: Pipeline, rates: Rates, by: Constants
) -> dict[str, Term]:
    """Every line of the step's time, by name, in the order they are printed."""
    g = low_precision_speedup(rates.low_flops_per_s, rates.bf16_flops_per_s, by.low_precision_gain)
    W, s, e = rates.hbm_bytes_per_s, by.matmul_sustained, by.attention_kernel
    lines: dict[str, Term] = {}

    def line(name: str, function: Any, **letters: Any) -> Floats:
        lines[name] = Term(name, function, letters)
        return lines[name].value

    matmul = line("matmul_s", matmul_s, Q=done.low_s, U=done.plain_s, g=g, s=s)
    stall = line("matmul_stall_s", traffic_s, B=done.stall_bytes, W=W, e=1.0)
    forward_kernel = line("attention_forward_s", attention_s, A=done.attention_forward_s, e=e)
    backward_kernel = line("attention_backward_s", attention_s, A=done.attention_backward_s, e=e)
    again = line("matmul_again_s", matmul_s, Q=done.low_again_s, U=done.plain_again_s, g=g, s=s)
    stall_again = line("matmul_stall_again_s", traffic_s, B=done.stall_again_bytes, W=W, e=1.0)
    kernel_again = line("attention_again_s", attention_s, A=done.attention_again_s, e=e)
    touched = line("elementwise_s", traffic_s, B=done.touched_bytes, W=W, e=by.hbm)
    routed = line("expert_rows_s", traffic_s, B=done.routed_bytes, W=W, e=by.row_gather)
    forward_busy = (matmul + stall) * FORWARD_MATMUL_SHARE + forward_kernel + (touched + routed) * FORWARD_HBM_SHARE
    busy = matmul + stall + forward_kernel + backward_kernel + again + stall_again + kernel_again + touched + routed
    hidden = line("hidden_comm_s", hidden_s, K=traffic.hideable_s, c=busy, h=by.weights_hidden)
    exposed = traffic.hideable_s + traffic.inline_s - hidden
    line("bubble_s", bubble_s, t=busy, P=pipeline.stages, m=pipeline.microbatches, r=pipeline.rounds)
    line("optimizer_s", traffic_s, B=done.optimizer_bytes, W=W, e=by.hbm)
    line("host_state_s", traffic_s, B=2 * done.host_state_bytes, W=rates.host_bytes_per_s, e=by.host_link)
    one_way = line("offload_one_way_s", traffic_s, B=done.offload_bytes, W=rates.host_bytes_per_s, e=by.host_link)
    forward = forward_busy + exposed * FORWARD_MATMUL_SHARE
    line("unhidden_offload_s", unhidden_offload_s, o=one_way, f=forward, b=busy + exposed - forward)
    line("exposed_comm_s", exposed_s, K=traffic.hideable_s + traffic.inline_s, h=hidden)
    whole = added((lines[name].value for name in SUMMED if name != "slice_wait_s"), np.shape(exposed))
    line("slice_wait_s", slice_wait_s, t=whole, u=by.slice_wait, z=rates.slices)
    return lines


def at_peak_s(done: Work, rates: Rates) -> Floats:
    """The larger of arithmetic at the chip's peaks and HBM traffic at its bandwidth."""
    low = (done.low_s + done.low_again_s) * (rates.bf16_flops_per_s / rates.low_flops_per_s)
    attention = done.attention_forward_s + done.attention_backward_s + done.attention_again_s
    arithmetic = low + done.plain_s + done.plain_again_s + attention
    moved = done.touched_bytes + done.routed_bytes + done.optimizer_bytes
    bound: Floats = np.maximum(arithmetic, moved / rates.hbm_bytes_per_s)
    return bound


def total_s(lines: dict[str, Term]) -> Floats:
    """The step time."""
    return added((lines[name].value for name in SUMMED), np.shape(lines["exposed_comm_s"].value))


def added(columns: Iterable[Floats], shape: tuple[int, ...]) -> Floats:
    """The sum of columns, or of scalars among them."""
    total = np.zeros(shape)
    for column in columns:
        total += column
    return total
