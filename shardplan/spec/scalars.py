"""The scalars of the input, with their ranges, and the base of every record of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shardplan.source.records import Record

AXES = ("data", "pipeline", "fsdp", "fsdp_transpose", "context", "tensor", "expert")
"""Mesh axes shardplan plans with, in MaxText's order (its `stage` axis is sized by the key `pipeline`)."""

MAX_PARAMETERS = 10**15

Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
OptionalCount = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=500)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, ge=0.0, lt=1.0, allow_inf_nan=False)]
Dtype = Literal["float32", "bfloat16"]
Precision = Literal["bf16", "fp8"]

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}


class Input(Record):
    """A frozen record of the user's input; unknown keys are errors."""
