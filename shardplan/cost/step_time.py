"""Seconds of one optimizer step of every candidate: the estimate, its provable bounds, and what binds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import Constants, error_band
from shardplan.cost.seconds import Pipeline, Rates, Traffic, mfu, step_lines, total_s
from shardplan.cost.work import work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.candidates import Candidates
    from shardplan.cost.comm import Collective
    from shardplan.cost.term import Term
    from shardplan.spec import Case
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
    """No implementation is faster: the busiest resource at the rates assumed."""
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
    pipeline = Pipeline(candidates.degree("pipeline"), candidates.pipeline_microbatches, candidates.pipeline_repeats)
    none, hideable = np.zeros(len(candidates)), [_can_hide(case, c) for c in collectives]
    traffic = traffic_of(case, candidates, collectives)
    lines = step_lines(done, traffic, pipeline, rates, Constants.of(case.cluster.chip.name))
    at = {name: np.broadcast_to(term.value, none.shape) for name, term in lines.items()}
    estimate = total_s(lines)
    hidden = at["hidden_comm_s"] / np.maximum(traffic.hideable_s, TINY_S)
    exposed = tuple(
        c.seconds * (1 - hidden) if hides else c.seconds for c, hides in zip(collectives, hideable, strict=True)
    )
    slower = 1 + at["slice_wait_s"] / np.maximum(estimate - at["slice_wait_s"], TINY_S)
    used = _resources(at, collectives, none)
    return Time(
        estimate_s=estimate,
        lower_s=np.max([used[name] for name in BOUNDS if name != "bubble"], axis=0),
        upper_s=(estimate / slower + at["hidden_comm_s"] + _hidden_offload(at)) * slower,
        error_band=none + error_band(),
        breakdown={part: sum((at[name] for name in names), start=none) for part, names in BREAKDOWN.items()},
        mfu=mfu(done.model_flops, rates.low_flops_per_s, estimate),
        bound_by=_bound_by(at, collectives, exposed),
        exposed_s=exposed,
        terms=tuple(lines.values()),
    )


def traffic_of(case: Case, candidates: Candidates, collectives: Iterable[Collective]) -> Traffic:
    """Communication seconds by whether compute may hide them."""
    hideable, inline = np.zeros(len(candidates)), np.zeros(len(candidates))
    for collective in collectives:
        if _can_hide(case, collective):
            hideable = hideable + collective.seconds
        else:
            inline = inline + collective.seconds
    return Traffic(hideable, inline)


def _can_hide(case: Case, collective: Collective) -> bool:
    """Whether the collective runs beside compute: the published flag groups make weight traffic asynchronous."""
    return collective.hides_behind == "compute" and case.runtime.tuned_flags


TINY_S = 1e-30


def _hidden_offload(at: dict[str, Floats]) -> Floats:
    """Seconds of copying to the host and back that run behind compute."""
    return 2 * at["offload_one_way_s"] - at["unhidden_offload_s"]


def _resources(at: dict[str, Floats], collectives: Iterable[Collective], none: Floats) -> dict[str, Floats]:
    """Seconds each resource is busy, whatever overlaps."""
    return {
        "compute": sum((at[n] for part in ("compute_s", "recompute_s") for n in BREAKDOWN[part]), start=none),
        "hbm": at["elementwise_s"] + at["expert_rows_s"] + at["optimizer_s"],
        "ici": sum((c.seconds for c in collectives if c.network != "dcn"), start=none),
        "dcn": sum((c.seconds for c in collectives if c.network == "dcn"), start=none),
        "bubble": at["bubble_s"],
        "host": 2 * at["offload_one_way_s"] + at["host_state_s"],
    }


def _bound_by(at: dict[str, Floats], collectives: Iterable[Collective], exposed: tuple[Floats, ...]) -> Ints:
    """The resource that the step waits for most, of its unhidden parts."""
    none = np.zeros_like(at["matmul_s"])
    waits = _resources(at, (), none)
    for network in ("ici", "dcn"):
        waits[network] = sum(
            (e for c, e in zip(collectives, exposed, strict=True) if (c.network == "dcn") == (network == "dcn")),
            start=none,
        )
    waits["host"] = at["unhidden_offload_s"] + at["host_state_s"]
    index: Ints = np.argmax([waits[name] for name in BOUNDS], axis=0)
    return index
