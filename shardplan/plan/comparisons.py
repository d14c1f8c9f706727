"""Results of `verify`, `scale` and `diff`: a plan held against the compiler, other slices, another plan."""

from __future__ import annotations

from shardplan.plan.choice import SCHEMA_VERSION, MemoryOut, Output, Verdict
from shardplan.plan.results import FlagOut, ProblemOut


class CompiledOut(Output):
    """What the compiler said."""

    arguments_bytes: int | None
    temp_bytes: int | None
    limit_bytes: float
    oom: bool
    needed_bytes: float | None
    """Where it ran out of memory: what it would have needed of the kind it names."""
    error: str | None
    """Why MaxText or the compiler refused for another reason."""


class VerifyOut(Output):
    """Result of `verify` for one plan: our prediction beside the compiler's verdict."""

    schema_version: str = SCHEMA_VERSION
    case: str
    rank: int
    strategy: str
    remat_policy: str
    predicted: MemoryOut
    predicted_verdict: Verdict
    compiled: CompiledOut
    ratio: float | None
    """Predicted over compiled arguments and temporaries; null where the compiler refused."""
    seconds: float
    cached: bool
    versions: dict[str, str]


class ScaleRowOut(Output):
    """The best plan on one number of chips."""

    chips: int
    topology: tuple[int, ...]
    slices: int
    fits: bool
    strategy: str | None = None
    remat_policy: str | None = None
    per_device_batch: float | None = None
    estimate_s: float | None = None
    error_band: float | None = None
    calibrated: bool = True
    tokens_per_s: float | None = None
    mfu: float | None = None
    efficiency: float | None = None
    """Tokens per second and chip, over those of the smallest number of chips that fits."""
    exposed_comm_share: float | None = None
    """Share of the step that waits for communication."""
    bound_by: str | None = None
    communication_bound: bool | None = None
    days: float | None = None
    usd: float | None = None


class ScaleOut(Output):
    """Result of `scale`: strong scaling of one global batch over slice sizes."""

    schema_version: str = SCHEMA_VERSION
    case: str
    chip: str
    global_batch: int | None
    rows: tuple[ScaleRowOut, ...]
    communication_bound_from: int | None
    """Fewest chips from which the best plan waits for communication more than the threshold allows."""
    notes: tuple[str, ...] = ()


class SideOut(Output):
    """One of two plans that are compared, or the old one with one change."""

    name: str
    verdict: Verdict
    problems: tuple[ProblemOut, ...]
    strategy: str
    remat_policy: str
    global_batch: int
    memory_bytes: float
    limit_bytes: float
    communication_bytes: float
    """All collectives of one step, on one device."""
    exposed_comm_s: float
    step_s: float
    error_band: float
    calibrated: bool = True
    tokens_per_s_per_device: float


class EffectOut(Output):
    """What a change adds, on one device and step."""

    memory_bytes: float = 0.0
    communication_bytes: float = 0.0
    exposed_comm_s: float = 0.0
    step_s: float = 0.0
    tokens_per_s_per_device: float = 0.0


class ChangeOut(Output):
    """One change between two plans, and what it does on its own to the old one."""

    change: str
    old: str
    new: str
    flags: tuple[FlagOut, ...]
    alone: SideOut
    """The old plan with this change only."""
    effect: EffectOut


class DiffOut(Output):
    """Result of `diff`."""

    schema_version: str = SCHEMA_VERSION
    old: SideOut
    new: SideOut
    flags: tuple[FlagOut, ...]
    changes: tuple[ChangeOut, ...]
    total: EffectOut
    """What all changes do together; more or less than the sum of each on its own."""
