"""Output types: what the commands print as JSON and YAML. The JSON schemas are generated from here.

All bytes are per JAX device, all seconds per optimizer step. Keys of `contract.md` keep name, unit and meaning.
"""

from __future__ import annotations

from shardplan.plan.choice import (
    SCHEMA_VERSION,
    ChoiceOut,
    CollectiveOut,
    IntensityOut,
    MemoryOut,
    MeshOut,
    Output,
    RuleOut,
    TimeOut,
    Verdict,
)
from shardplan.plan.comparisons import (
    ChangeOut,
    CompiledOut,
    DiffOut,
    EffectOut,
    ScaleOut,
    ScaleRowOut,
    SideOut,
    VerifyOut,
)
from shardplan.plan.results import (
    CheckOut,
    ClusterOut,
    ExplanationOut,
    FixOut,
    FlagOut,
    LineOut,
    PatchOut,
    PlanOut,
    ProblemOut,
    ProfileOut,
)

__all__ = [
    "SCHEMA_VERSION",
    "ChangeOut",
    "CheckOut",
    "ChoiceOut",
    "ClusterOut",
    "CollectiveOut",
    "CompiledOut",
    "DiffOut",
    "EffectOut",
    "ExplanationOut",
    "FixOut",
    "FlagOut",
    "IntensityOut",
    "LineOut",
    "MemoryOut",
    "MeshOut",
    "Output",
    "PatchOut",
    "PlanOut",
    "ProblemOut",
    "ProfileOut",
    "RuleOut",
    "ScaleOut",
    "ScaleRowOut",
    "SideOut",
    "TimeOut",
    "Verdict",
    "VerifyOut",
]
