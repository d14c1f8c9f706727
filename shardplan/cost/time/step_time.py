"""Seconds of one optimizer step of every candidate: the estimate, its provable bounds, and what binds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import Constants, step_time_band
from shardplan.cost.term import Term
from shardplan.cost.time.compute import model_flops_per_token
from shardplan.cost.time.seconds import (
    CommunicationSeconds,
    Pipeline,
    Rates,
    added,
    at_peak_s,
    mfu,
    model_flops,
    step_lines,
    total_s,
)
from shardplan.cost.time.work import work

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shardplan.cost.network.comm import Collective
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

BREAKDOWN = {
    "compute_s": ("matmul_s", "matmul_stall_s", "attention_forward_s", "attention_backward_s"),
    "recompute_s": ("matmul_again_s", "matmul_stall_again_s", "attention_again_s"),
    "hbm_s": ("elementwise_s", "expert_rows_s"),
    "exposed_comm_s": ("exposed_comm_s", "slice_wait_s"),
    "bubble_s": ("bubble_s",),
    "optimizer_s": ("optimizer_s",),
    "offload_s": ("unhidden_offload_s", "host_state_s"),
}
"""Parts of the estimate, which sum to it, and the lines each is made of."""

BOUNDS = ("compute", "hbm", "ici", "dcn", "bubble", "host")
"""What a step can be bound by; `Time.bound_by` indexes into it."""


@dataclass(frozen=True, slots=True)
class Time:
    """Step time of every candidate, `(n,)`."""

    estimate_s: Floats
    lower_s: Floats
    """Nothing is faster: the arithmetic or HBM traffic at their peaks, or a network or the host link alone."""
    upper_s: Floats
    """Nothing overlaps."""
    error_band: Floats
    """Relative, from runs of models the calibration did not see."""
    breakdown: dict[str, Floats]
    """By `BREAKDOWN`; sums to the estimate."""
    mfu: Floats
    bound_by: Ints
    """Index into `BOUNDS` of the largest part."""
    exposed_s: tuple[Floats, ...]
    """Unhidden seconds of each collective, in their order."""
    terms: tuple[Term, ...]

    @property
    def bounds(self) -> tuple[str, ...]:
        """Names `bound_by` indexes into."""
        return BOUNDS


def step_time(case: Case, candidates: Candidates, collectives: tuple[Collective, ...]) -> Time:
    """Seconds of one optimizer step of every candidate."""
    done, rates = work(case, candidates), Rates.of(case)
    traffic = traffic_of(case, candidates, collectives)
    lines = step_lines(done, traffic, _pipeline(candidates), rates, Constants.of(case.cluster.chip.name))
    shape = (len(candidates),)
    at = {name: np.broadcast_to(term.value, shape) for name, term in lines.items()}
    estimate = total_s(lines)
    shown = 1 - at["hidden_comm_s"] / np.maximum(traffic.hideable_s, TINY_S)
    exposed = tuple(c.seconds * shown if _can_hide(case, c) else c.seconds for c in collectives)
    slower = 1 + at["slice_wait_s"] / np.maximum(estimate - at["slice_wait_s"], TINY_S)
    overlapped = at["hidden_comm_s"] + 2 * at["offload_one_way_s"] - at["unhidden_offload_s"]
    breakdown = {part: added((at[name] for name in names), shape) for part, names in BREAKDOWN.items()}
    used = _resources(at, breakdown, _by_network(collectives, [c.seconds for c in collectives], shape))
    waits = _resources(at, breakdown, _by_network(collectives, exposed, shape))
    waits["host"] = breakdown["offload_s"]
    each = model_flops_per_token(case.architecture, case.workload.sequence_length)
    needed = Term("model_flops", model_flops, {"f": each, "n": done.tokens})
    use = Term("mfu", mfu, {"F": needed.value, "C": rates.low_flops_per_s, "t": estimate})
    return Time(
        estimate_s=estimate,
        lower_s=np.max([at_peak_s(done, rates), *(used[name] for name in ("ici", "dcn", "host"))], axis=0),
        upper_s=estimate + overlapped * slower,
        error_band=np.full(shape, step_time_band(case.cluster.chip)),
        breakdown=breakdown,
        mfu=use.value,
        bound_by=np.argmax([waits[name] for name in BOUNDS], axis=0),
        exposed_s=exposed,
        terms=(*lines.values(), needed, use),
    )


def step_seconds(case: Case, candidates: Candidates, collectives: tuple[Collective, ...]) -> Floats:
    """The estimate alone, `(n,)`: what a search needs to compare many."""
    traffic, constants = traffic_of(case, candidates, collectives), Constants.of(case.cluster.chip.name)
    return total_s(step_lines(work(case, candidates), traffic, _pipeline(candidates), Rates.of(case), constants))


def traffic_of(case: Case, candidates: Candidates, collectives: Iterable[Collective]) -> CommunicationSeconds:
    """Communication seconds by whether compute may hide them."""
    hideable, inline = np.zeros(len(candidates)), np.zeros(len(candidates))
    for collective in collectives:
        total = hideable if _can_hide(case, collective) else inline
        total += collective.seconds
    return CommunicationSeconds(hideable, inline)


def _pipeline(candidates: Candidates) -> Pipeline:
    return Pipeline(candidates.degree("pipeline"), candidates.pipeline_microbatches, candidates.pipeline_repeats)


def _can_hide(case: Case, collective: Collective) -> bool:
    """Whether the collective runs beside compute: the published flag groups make weight traffic asynchronous."""
    return collective.hides_behind == "compute" and case.runtime.tuned_flags


TINY_S = 1e-30


def _by_network(collectives: tuple[Collective, ...], seconds: Sequence[Floats], shape: tuple[int]) -> dict[str, Floats]:
    """Seconds of the collectives on the torus and between slices."""
    pairs = list(zip(collectives, seconds, strict=True))
    return {
        network: added((s for c, s in pairs if (c.network == "dcn") == (network == "dcn")), shape)
        for network in ("ici", "dcn")
    }


def _resources(at: dict[str, Floats], breakdown: dict[str, Floats], networks: dict[str, Floats]) -> dict[str, Floats]:
    """Seconds each resource is busy, whatever overlaps."""
    return {
        "compute": breakdown["compute_s"] + breakdown["recompute_s"],
        "hbm": breakdown["hbm_s"] + breakdown["optimizer_s"],
        "bubble": breakdown["bubble_s"],
        "host": 2 * at["offload_one_way_s"] + at["host_state_s"],
        **networks,
    }
