"""Input types: what is trained (Architecture, Workload), on what (Chip, Cluster), within which bounds (Constraints).

Everything here is a frozen pydantic model that refuses unknown keys and never coerces types. Sizes are pure numbers,
times are seconds, memory is bytes; a `Figure` carries the source of a hardware number with its value.
"""

from __future__ import annotations

from shardplan.spec.architecture import Architecture, Attention, FeedForward, Layer, LayerGroup
from shardplan.spec.case import Case
from shardplan.spec.machine import Chip, Cluster, Compiler, Figure, Nodes
from shardplan.spec.scalars import (
    AXES,
    DTYPE_BYTES,
    MAX_PARAMETERS,
    Count,
    Dtype,
    Flag,
    Fraction,
    Input,
    Number,
    OptionalCount,
    Precision,
    Text,
)
from shardplan.spec.split import Constraints, RematLocation, RematPolicy, Split, default_microbatches
from shardplan.spec.workload import Optimizer, Runtime, Workload

__all__ = [
    "AXES",
    "DTYPE_BYTES",
    "MAX_PARAMETERS",
    "Architecture",
    "Attention",
    "Case",
    "Chip",
    "Cluster",
    "Compiler",
    "Constraints",
    "Count",
    "Dtype",
    "FeedForward",
    "Figure",
    "Flag",
    "Fraction",
    "Input",
    "Layer",
    "LayerGroup",
    "Nodes",
    "Number",
    "Optimizer",
    "OptionalCount",
    "Precision",
    "RematLocation",
    "RematPolicy",
    "Runtime",
    "Split",
    "Text",
    "Workload",
    "default_microbatches",
]  # fmt: skip
