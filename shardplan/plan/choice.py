"""One priced plan as a record: mesh, memory, time, communication, intensity, rules and flags."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = "1.0"
NEWEST_MAXTEXT = "0.2.5"
"""What a record that does not say its release is for: the newest one known."""

Verdict = Literal["fits", "at_risk", "does_not_fit", "invalid"]


OWN_RANK = 0
"""Rank of the plan that a case brings itself: it is not one of the ranked."""


def plan_name(rank: int) -> str:
    """What a plan of a case is called: by its rank, or as the case's own."""
    return "its own plan" if rank == OWN_RANK else f"plan {rank}"


class Output(BaseModel):
    """A frozen record of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, allow_inf_nan=False)


class MeshOut(Output):
    """Degrees above 1 by axis; ICI degrees multiply to the devices of a slice, DCN degrees to the slices."""

    ici: dict[str, int]
    dcn: dict[str, int]


class MemoryOut(Output):
    """Bytes on one JAX device at the worst moment, against the compiler's limit."""

    arguments_bytes: float
    temp_bytes: float
    total_bytes: float
    limit_bytes: float
    error_band: float
    calibrated: bool = True
    """Whether compiled points of this chip support the band."""
    binding_moment: str
    breakdown: dict[str, float]
    moments: dict[str, float]
    host_bytes: float


class TimeOut(Output):
    """Seconds of one optimizer step, with provable bounds and the calibration's error band."""

    estimate_s: float
    lower_s: float
    upper_s: float
    error_band: float
    calibrated: bool = True
    """Whether published runs of this chip support the estimate."""
    breakdown: dict[str, float]
    days: float | None = None
    usd: float | None = None


class CollectiveOut(Output):
    """One kind of communication on one mesh axis."""

    axis: str
    network: Literal["ici", "dcn", "d2d"]
    kind: str
    purpose: str
    bytes: float
    count: float
    seconds: float
    exposed_s: float


class IntensityOut(Output):
    """One side against the other: is this axis compute-bound?"""

    axis: str
    ours: float
    needed: float
    unit: Literal["tokens", "flops_per_byte", "width"]
    ok: bool
    rule: str


class RuleOut(Output):
    """A rule that fired, with its numbers filled in."""

    code: str
    severity: Literal["error", "warning", "note"]
    explanation: str


class ChoiceOut(Output):
    """One priced plan."""

    rank: int
    """Place in the order of plans; 0 for the plan that the case brings itself."""
    verdict: Verdict
    launchable: bool = True
    """Whether MaxText has the layers of the model."""
    why_not_launchable: str | None = None
    """What it lacks; null where it lacks nothing."""
    mesh: MeshOut
    strategy: str
    remat_policy: str
    remat_tensors: dict[str, str]
    per_device_batch: float
    global_batch: int
    gradient_accumulation: int
    pipeline_microbatches: int | None
    num_vocab_tiling: int
    allow_split_physical_axes: bool
    memory: MemoryOut
    time: TimeOut
    tokens_per_s_per_device: float
    mfu: float
    bound_by: str
    communication: tuple[CollectiveOut, ...]
    intensity: tuple[IntensityOut, ...]
    rules: tuple[RuleOut, ...]
    maxtext_flags: dict[str, int | float | str | bool]
    maxtext_release: str = NEWEST_MAXTEXT
    """The release the flags are for."""
    flags_lost: dict[str, int | float | str | bool] = {}
    """Flags of the newest release that this one cannot express."""
    libtpu_init_args: tuple[str, ...]
