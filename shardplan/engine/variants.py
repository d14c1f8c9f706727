"""Variants of a split: remat policies x vocabulary tilings. MaxText's named policies, and custom sets chosen by value.

A named activation is worth the seconds it spares for the bytes it keeps. Both are priced on one plain split of the case;
the sets to try keep a prefix of the tensors in the order of their worth on the device or on the host, and recompute the
others or keep them on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.estimate import step_time_of
from shardplan.cost.memory.total import memory
from shardplan.maxtext.releases import release_of
from shardplan.maxtext.remat import ALIASES, POLICIES, TENSORS, as_kept_by, custom, exists_in
from shardplan.maxtext.tables import table
from shardplan.splits.candidates import concatenated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.maxtext.releases import Release
    from shardplan.spec import Case, RematPolicy
    from shardplan.splits.candidates import Candidates

VOCAB_TILINGS = (1, 8)
LAYER_INPUT = "decoder_layer_input"
"""Kept on the device by every policy that does not send it to the host: the scanned loop carries it."""
_INPUT_HOSTED = {LAYER_INPUT: "offload"}
WORTH_SHARE = 1e-4
"""Share of the step a tensor must spare to be worth keeping."""


@dataclass(frozen=True, slots=True)
class Variants:
    """What is tried with every split."""

    policies: tuple[RematPolicy, ...]
    tilings: tuple[int, ...]

    def __len__(self) -> int:
        """Variants of one split."""
        return len(self.policies) * len(self.tilings)


def variants_of(case: Case, splits: Candidates) -> Variants:
    """The variants to try: what the user fixed, else every named policy and the custom sets worth trying."""
    wanted, tiling = case.constraints.remat, case.constraints.num_vocab_tiling
    has_tilings = "num_vocab_tiling" in table(_release(case).name).keys
    tilings = (tiling,) if tiling != "auto" else VOCAB_TILINGS if has_tilings else (1,)
    if isinstance(wanted, dict):
        return Variants(_of_release(case, (custom(wanted),)), tilings)
    if wanted != "auto":
        return Variants(_of_release(case, (POLICIES[ALIASES.get(wanted, wanted)],)), tilings)
    policies = (*POLICIES.values(), *_custom_sets(by_value(case, plainest(splits))))
    return Variants(tuple(filter(partial(exists_in, _release(case)), _of_release(case, policies))), tilings)


def _of_release(case: Case, policies: Sequence[RematPolicy]) -> tuple[RematPolicy, ...]:
    """Policies as the case's MaxText release keeps them, each once."""
    has_experts = case.architecture.is_moe
    return tuple(dict.fromkeys(as_kept_by(_release(case), policy, has_experts=has_experts) for policy in policies))


def _release(case: Case) -> Release:
    return release_of(case.runtime.maxtext).release


def expand(case: Case, rows: Candidates, variants: Variants) -> Candidates:
    """Each candidate with every remat policy and every vocabulary tiling that divides its tokens."""
    n = len(variants.policies)
    tokens = rows.per_device_batch * case.workload.sequence_length
    parts = []
    for tiling in variants.tilings:
        here = np.flatnonzero(tokens % tiling == 0)
        parts.append(
            replace(
                rows.take(np.repeat(here, n)),
                num_vocab_tiling=np.full(len(here) * n, tiling, dtype=np.int64),
                remat=np.tile(np.arange(n), len(here)),
                remat_policies=variants.policies,
            )
        )
    return concatenated(parts)


def plainest(splits: Candidates) -> Candidates:
    """The split with the least model parallelism and the most sequences a device, as the only candidate."""
    model = splits.degree("tensor", "context", "expert", "pipeline")
    return splits.take(np.lexsort((-splits.per_device_batch, model))[:1])


def by_value(case: Case, split: Candidates) -> tuple[str, ...]:
    """Named activations that spare time when kept on the device, the most seconds a byte first."""
    names = sorted(TENSORS - {LAYER_INPUT})
    policies = (POLICIES["full"], *(custom({name: "device"}) for name in names))
    rows = replace(
        split.take(np.zeros(len(policies), dtype=np.int64)),
        remat=np.arange(len(policies)),
        remat_policies=policies,
    )
    seconds, total = step_time_of(case, rows), memory(case, rows).total_bytes
    spared, kept = seconds[0] - seconds[1:], np.maximum(total[1:] - total[0], 1.0)
    worth = np.flatnonzero(spared > WORTH_SHARE * seconds[0])
    return tuple(names[i] for i in worth[np.argsort(-(spared / kept)[worth], kind="stable")])


def _custom_sets(names: Sequence[str]) -> list[RematPolicy]:
    """Prefixes of the tensors kept on the device, the others recomputed or on the host, layer inputs here or there."""
    found: dict[RematPolicy, None] = {}
    for length in range(len(names) + 1):
        kept, others = dict.fromkeys(names[:length], "device"), dict.fromkeys(names[length:], "offload")
        hosted = dict.fromkeys(names[:length], "offload")
        for tensors in (kept, kept | _INPUT_HOSTED, kept | others | _INPUT_HOSTED, hosted | _INPUT_HOSTED):
            found[custom(tensors)] = None
    return list(found)[1:]
