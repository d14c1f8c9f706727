"""What a device holds of the batch, and where each candidate's remat policy keeps a named activation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.maxtext.axes import ACTIVATION_RULES

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools, Floats


@dataclass(frozen=True, slots=True)
class Local:
    """What one device holds of the batch in one micro-step. Columns `(n,)`."""

    rows: Floats
    """Sequences a layer works on at once: of the micro-step, or of one microbatch of the pipeline."""
    tokens: Floats
    """Tokens a layer works on at once, after the context axis."""
    head_tokens: Floats
    """Tokens of the loss: those of the whole micro-step, which pipeline stages split too."""
    tensor: Floats
    context: Floats
    expert: Floats


def local(case: Case, candidates: Candidates) -> Local:
    """The batch of one micro-step on a device, for each candidate."""
    whole = candidates.per_device_batch * candidates.devices / candidates.degree(*ACTIVATION_RULES["batch"])
    rows = whole / candidates.pipeline_microbatches
    context = candidates.degree(*ACTIVATION_RULES["length"])
    tokens_per_row = case.workload.sequence_length / context
    return Local(
        rows=rows,
        tokens=rows * tokens_per_row,
        head_tokens=whole / candidates.degree("pipeline") * tokens_per_row,
        tensor=candidates.degree("tensor").astype(np.float64),
        context=context.astype(np.float64),
        expert=candidates.degree("expert").astype(np.float64),
    )


def kept(candidates: Candidates, *names: str) -> Bools:
    """Candidates whose policy keeps one of the names on the device, `(n,)`."""
    return np.array([bool(policy.device & set(names)) for policy in candidates.remat_policies])[candidates.remat]


def offloaded(candidates: Candidates, *names: str) -> Bools:
    """Candidates whose policy keeps one of the names in host memory, `(n,)`."""
    return np.array([bool(policy.offload & set(names)) for policy in candidates.remat_policies])[candidates.remat]


def spared(candidates: Candidates, *names: str) -> Bools:
    """Candidates that need not recompute: one of the names is kept somewhere, `(n,)`."""
    return kept(candidates, *names) | offloaded(candidates, *names)
