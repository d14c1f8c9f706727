"""How far the compiler may be from the memory model, by what a candidate uses, from the corpus of compiled points.

Each feature whose schedule we know less well widens the band; features add up as independent errors do. The band is
the 95th percentile of the errors seen with the feature, rounded up; with few points, the largest. On a chip without points it is at
least that of the worst chip left out, which errs in those ways as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.calibration import constant
from shardplan.cost.memory.kept import relaid, relaid_last
from shardplan.cost.memory.release_band import release_band

if TYPE_CHECKING:
    from shardplan.cost.memory.setting import Setting
    from shardplan.units import Floats

BASE = 0.03
"""Dense layers on one slice, split by fsdp and data."""
EXPERTS = 0.03
"""A mixture of experts."""
DISPATCH = 0.04
"""Expert parallelism: rows sorted before or after a recomputation."""
TENSOR = 0.03
"""A tensor axis."""
SLICES = 0.05
"""Several slices: the compiler peels loops to overlap the slow network."""
OFFLOAD = 0.07
"""Activations inside a layer go to the host: loops are peeled and stacks copied."""
PIPELINE = 0.05
"""Pipeline stages."""
UNFUSED = 0.04
"""Attention with scores in memory, or experts with slots."""
APART = 0.05
"""Blocks of several layers that each keep their input: what the others hold meanwhile is known from three dumps."""

ORTHOGONALISED = 0.15
"""A muon update."""


def usual_band(setting: Setting) -> Floats:
    """Share of the total by which the compiler's answer may differ, `(n,)`."""
    runtime, moe = setting.case.runtime, setting.case.architecture.is_moe
    unfused = runtime.attention == "dot_product" or (moe and not runtime.sparse_matmul)
    parts = (
        np.full(len(setting.candidates), BASE),
        EXPERTS * moe,
        DISPATCH * (moe & (setting.here.expert > 1)),
        TENSOR * (setting.here.tensor > 1),
        SLICES * (setting.case.cluster.slices > 1),
        OFFLOAD * (relaid(setting) | relaid_last(setting)),
        PIPELINE * (setting.stages > 1),
        UNFUSED * unfused,
        APART * np.any([setting.inputs(group) > 1 for group in setting.case.architecture.layer_groups], axis=0),
        release_band(setting.case),
        ORTHOGONALISED * (setting.case.workload.optimizer.name == "muon"),
    )
    least = 0.0 if setting.case.cluster.chip.calibration.compiled_points else constant("memory", "uncalibrated_band")
    band: Floats = np.maximum(np.sqrt(sum(np.square(share) for share in parts)), least)
    return band
