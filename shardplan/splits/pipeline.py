"""How a pipeline goes round: layers a stage runs a visit, and visits of a microbatch to each stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shardplan.splits.sizes import pipelined_blocks

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.units import Ints


def pipeline_repeats(case: Case, stages: Ints) -> Ints:
    """Times a microbatch passes each stage, `(n,)`; 1 without pipeline. Source: MaxText P1."""
    per_visit = stages * layers_per_stage(case, stages)
    return np.where(stages > 1, np.maximum(pipelined_blocks(case.architecture) // per_visit, 1), 1).astype(np.int64)


def layers_per_stage(case: Case, stages: Ints | int) -> Ints:
    """Blocks a stage runs a visit, at least 1, in the shape of `stages`.

    Where the case leaves it open, a dense model runs MaxText's circular schedule, one block a visit; an expert model visits
    each stage once, because sparse matmuls cannot be traced with repeats (MaxText P7).
    """
    if (asked := case.runtime.pipeline_layers_per_stage) is not None:
        return np.full_like(stages, asked)
    if not case.architecture.is_moe:
        return np.ones_like(stages)
    return np.maximum(case.architecture.layer_groups[-1].count // stages, 1)
