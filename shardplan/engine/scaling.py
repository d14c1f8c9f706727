"""Strong scaling: the best plan of one case on more and more chips, and where communication takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.catalogue.thresholds import threshold
from shardplan.engine.decide import decide
from shardplan.errors import Diagnostic, InputError
from shardplan.machine.chips import default_shape
from shardplan.plan import ScaleOut, ScaleRowOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case, Cluster


def scale(case: Case, fewest: int, most: int) -> ScaleOut:
    """The best plan on every doubling of chips from `fewest` to `most`; InputError if there is no slice in the range.

    Up to the largest slice of the chip a cluster is one slice; beyond it, several of the largest ones.
    """
    clusters = list(clusters_between(case.cluster, fewest, most))
    if not clusters:
        message = f"no {case.cluster.chip.name} slice has {fewest:,} to {most:,} chips"
        raise InputError([Diagnostic("SP014", message, None, "shardplan chips lists the slices")])
    rows: list[ScaleRowOut] = []
    for cluster in clusters:
        plans = decide(case.model_copy(update={"cluster": cluster, "plan": None}), 1).plans
        first = next((row for row in rows if row.fits), None)
        rows.append(_row(case, cluster, plans[0] if plans else None, first))
    bound = next((row.chips for row in rows if row.communication_bound), None)
    return ScaleOut(
        case=case.name,
        chip=case.cluster.chip.name,
        global_batch=case.workload.global_sequences,
        rows=tuple(rows),
        communication_bound_from=bound,
        notes=tuple(_notes(case)),
    )


def clusters_between(cluster: Cluster, fewest: int, most: int) -> Iterator[Cluster]:
    """Clusters of the chip with `fewest`, twice, four times ... as many chips, up to `most`; those that exist."""
    chips, largest = fewest, None
    while chips <= most:
        shape = default_shape(cluster.chip, chips)
        if shape is not None:
            largest = shape
            yield cluster.model_copy(update={"topology": shape, "slices": 1, "accelerator": None})
        elif largest is not None and chips > cluster.chip.max_chips:
            whole = cluster.model_copy(update={"topology": largest, "slices": 1})
            slices = chips // whole.chips_per_slice
            yield whole.model_copy(update={"slices": slices, "accelerator": None})
        chips *= 2


def _row(case: Case, cluster: Cluster, plan: ChoiceOut | None, first: ScaleRowOut | None) -> ScaleRowOut:
    """One size as a record; efficiency is against the first size that fits."""
    if plan is None:
        return ScaleRowOut(chips=cluster.chips, topology=cluster.topology, slices=cluster.slices, fits=False)
    rate = plan.global_batch * case.workload.sequence_length / plan.time.estimate_s
    share = plan.time.breakdown["exposed_comm_s"] / plan.time.estimate_s
    base = rate / cluster.chips if first is None else (first.tokens_per_s or 0) / first.chips
    return ScaleRowOut(
        chips=cluster.chips,
        topology=cluster.topology,
        slices=cluster.slices,
        fits=True,
        strategy=plan.strategy,
        remat_policy=plan.remat_policy,
        per_device_batch=plan.per_device_batch,
        estimate_s=plan.time.estimate_s,
        error_band=plan.time.error_band,
        calibrated=plan.time.calibrated,
        tokens_per_s=rate,
        mfu=plan.mfu,
        efficiency=rate / cluster.chips / base,
        exposed_comm_share=share,
        bound_by=plan.bound_by,
        communication_bound=share > threshold("exposed_share_limit"),
        days=plan.time.days,
        usd=plan.time.usd,
    )


def _notes(case: Case) -> Iterator[str]:
    """What the table takes for granted."""
    limit = threshold("exposed_share_limit")
    yield f"communication-bound: more than {limit:.0%} of the step waits for communication"
    if case.workload.global_sequences is None:
        yield "the batch is given per device, so the global batch grows with the chips: this is weak scaling"
    if case.workload.training_tokens is None:
        yield "days and cost need workload.training_tokens, cost also a price"
