"""Changes that would make a plan fit, cheapest first: each with the memory it saves and the time it costs.

A fix is one change of the split or of the case, priced like any plan. Only changes of the launch are proposed for one
configuration (`check`); where nothing fits at all (`recommend`), more chips and smaller batches are too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from shardplan.cost.estimate import estimate
from shardplan.engine.ranking import FITS, fit_classes
from shardplan.engine.variants import VOCAB_TILINGS
from shardplan.exporters import maxtext
from shardplan.machine.chips import default_shape
from shardplan.maxtext.remat import POLICIES, custom
from shardplan.plan import FixOut
from shardplan.splits.enumeration import batch_is_legal, split_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Case, Input, Split

Changed = TypeVar("Changed", bound="Input")

WORTH_BYTES = 2**28
"""Savings below a quarter of a GiB are not worth a proposal."""
AT_MOST = 6


@dataclass(frozen=True, slots=True)
class Change:
    """One change: what it is called, and the case and split after it."""

    name: str
    case: Case
    split: Split


def fixes_for(case: Case, split: Split) -> tuple[FixOut, ...]:
    """Changes of one configuration that save memory: those that fit first, then by the time they cost."""
    changes = [Change("none", case, split), *_changes(case, split)]
    (before_bytes, before_s, _), *prices = _prices(changes)
    found = []
    for change, (after_bytes, after_s, fits) in zip(changes[1:], prices, strict=True):
        if before_bytes - after_bytes > WORTH_BYTES:
            flags = _changed_flags(case, split, change)
            saved, cost = before_bytes - after_bytes, after_s - before_s
            found.append(FixOut(change=change.name, flags=flags, saves_bytes=saved, costs_s=cost, fits=fits))
    found.sort(key=lambda fix: (not fix.fits, fix.costs_s if fix.fits else -fix.saves_bytes))
    return tuple(found[:AT_MOST])


def _changed_flags(case: Case, split: Split, change: Change) -> dict[str, maxtext.Value]:
    """The launch flags that differ after a change."""
    before, after = maxtext.flags_if_any(case, split)[0], maxtext.flags_if_any(change.case, change.split)[0]
    return {key: value for key, value in after.items() if before.get(key) != value}


def _prices(changes: list[Change]) -> Iterator[tuple[float, float, bool]]:
    """Total bytes, seconds a step and whether it fits, after each change; neighbours of one case are priced together."""
    for _, group in groupby(changes, key=lambda change: id(change.case)):
        same = list(group)
        case = same[0].case
        got = estimate(case, split_rows(case, *(change.split for change in same)))
        classes = fit_classes(case, got.memory.total_bytes, got.memory.error_band)
        for row in range(len(same)):
            yield float(got.memory.total_bytes[row]), float(got.time.estimate_s[row]), bool(classes[row] == FITS)


def _changes(case: Case, split: Split) -> Iterator[Change]:
    """Every change worth pricing, of the split first."""
    for policy in POLICIES.values():
        if policy.name != split.remat_policy:
            yield Change(f"remat_policy {policy.name}", case, _with(split, remat_policy=policy.name, remat_tensors={}))
    offload = custom({"decoder_layer_input": "offload"})
    if split.remat_tensors != offload.tensors:
        yield Change(
            "keep nothing, layer inputs on the host",
            case,
            _with(split, remat_policy="custom", remat_tensors=offload.tensors),
        )
    for tiling in VOCAB_TILINGS:
        tokens = split.per_device_batch * case.workload.sequence_length
        if tiling > split.num_vocab_tiling and tokens % tiling == 0:
            yield Change(f"logits in {tiling} pieces", case, _with(split, num_vocab_tiling=tiling))
    for halvings in (1, 2, 3):
        smaller = _with(
            split,
            per_device_batch=split.per_device_batch / 2**halvings,
            gradient_accumulation=split.gradient_accumulation * 2**halvings,
        )
        if batch_is_legal(case, split_rows(case, smaller)).all():
            yield Change(f"gradient accumulation x {2**halvings}, same global batch", case, smaller)
    optimizer = case.workload.optimizer
    for name, better in (
        ("first moment in bfloat16", {"first_moment_dtype": "bfloat16"}),
        ("gradients in bfloat16", {"gradient_dtype": "bfloat16"}),
        ("optimizer state on the host", {"host_offload": True}),
    ):
        if any(getattr(optimizer, key) != value for key, value in better.items()):
            changed = optimizer.model_copy(update=better)
            yield Change(name, _with(case, workload=_with(case.workload, optimizer=changed)), split)


def bigger_cases(case: Case) -> Iterator[tuple[str, Case]]:
    """Cases that leave more room where nothing fits, the cheapest change first."""
    constraints, workload, cluster = case.constraints, case.workload, case.cluster
    if constraints.remat != "auto" or constraints.num_vocab_tiling != "auto":
        yield (
            "let remat and vocabulary tiling be chosen",
            _with(case, constraints=_with(constraints, remat="auto", num_vocab_tiling="auto")),
        )
    if constraints.hbm_headroom:
        yield "no headroom", _with(case, constraints=_with(constraints, hbm_headroom=0.0))
    optimizer = workload.optimizer
    if optimizer.mu_dtype != "bfloat16":
        lighter = optimizer.model_copy(update={"first_moment_dtype": "bfloat16", "gradient_dtype": "bfloat16"})
        yield (
            "first moment and gradients in bfloat16",
            _with(case, workload=_with(workload, optimizer=lighter)),
        )
    if not optimizer.host_offload:
        hosted = optimizer.model_copy(update={"host_offload": True})
        yield "optimizer state on the host", _with(case, workload=_with(workload, optimizer=hosted))
    for times in (2, 4, 8):
        batch = workload.global_sequences
        if batch and batch % times == 0:
            smaller = {"global_batch": batch // times, "global_batch_tokens": None}
            yield f"global batch / {times}", _with(case, workload=_with(workload, **smaller))
    for times in (2, 4, 8, 16):
        if shape := default_shape(cluster.chip, cluster.chips_per_slice * times):
            bigger = _with(cluster, topology=shape, accelerator=None)
            yield f"a slice of {'x'.join(map(str, shape))}", _with(case, cluster=bigger)


def _with(model: Changed, **changes: object) -> Changed:
    """A changed copy, validated."""
    return type(model).model_validate({**dict(model), **changes})
