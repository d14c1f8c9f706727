"""Output types: what `recommend` and `check` print as JSON and YAML. The JSON schema is generated from here.

All bytes are per JAX device, all seconds per optimizer step. Keys of `contract.md` keep name, unit and meaning.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = "1.0"

Verdict = Literal["fits", "at_risk", "does_not_fit", "invalid"]


class Output(BaseModel):
    """A frozen record of a result."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProfileOut(Output):
    """What kind of workload this is, and the decision table's row for it."""

    family: Literal["dense", "moe"]
    context: Literal["short", "long"]
    very_large: bool
    table_row: str
    table_strategy: str
    why: tuple[str, ...]


class ClusterOut(Output):
    """The machine as resolved."""

    chip: str
    topology: tuple[int, ...]
    chips: int
    devices: int
    slices: int
    hbm_limit_bytes: float
    wraps: tuple[bool, ...]
    resolution: str


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
    verdict: Verdict
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
    libtpu_init_args: tuple[str, ...]


class ProblemOut(Output):
    """Something that stands in the way, with a way out."""

    code: str
    message: str
    hint: str | None = None


class FixOut(Output):
    """A change that would make a plan fit."""

    change: str
    flags: dict[str, int | float | str | bool]
    saves_bytes: float
    costs_s: float
    fits: bool


class PlanOut(Output):
    """Result of `recommend`."""

    schema_version: str = SCHEMA_VERSION
    shardplan_version: str
    case: str
    model: dict[str, int | float | str]
    profile: ProfileOut
    cluster: ClusterOut
    objective: str
    plans: tuple[ChoiceOut, ...]
    considered: int
    """Variants of all splits, legal or not."""
    priced: int
    """Estimates made."""
    rejected: dict[str, int]
    rejections: dict[str, str]
    """What each code of `rejected` stands for."""
    closest: ChoiceOut | None = None
    """Where nothing fits: the plan that misses by least."""
    problems: tuple[ProblemOut, ...]
    fixes: tuple[FixOut, ...] = ()
    notes: tuple[str, ...] = ()


class FlagOut(Output):
    """A launch flag that changes; null where it is not given."""

    key: str
    old: int | float | str | bool | None
    new: int | float | str | bool | None


class PatchOut(Output):
    """The smallest change of flags found that makes a launch legal and fitting; checked again before it is printed."""

    changes: tuple[FlagOut, ...]
    patch: tuple[str, ...]
    """The change as a unified diff of the flags, one flag a line."""
    command: str
    """The whole launch with the change."""
    verdict: Verdict
    total_bytes: float
    limit_bytes: float
    estimate_s: float
    global_batch: int


class CheckOut(Output):
    """Result of `check` for one configuration."""

    id: str
    verdict: Verdict
    problems: tuple[ProblemOut, ...]
    notes: tuple[str, ...] = ()
    choice: ChoiceOut | None
    fixes: tuple[FixOut, ...] = ()
    patch: PatchOut | None = None
    """With --fix, for what does not fit or is invalid; null where no change was found."""


class LineOut(Output):
    """One line of arithmetic: the formula, the letters filled in, and the result."""

    name: str
    formula: str
    letters: dict[str, float]
    value: float
    unit: Literal["bytes", "s", "flops", "tokens", ""]
    source: str | None = None


class ExplanationOut(Output):
    """Result of `explain`: a plan with every number's arithmetic."""

    schema_version: str = SCHEMA_VERSION
    case: str
    choice: ChoiceOut
    profile: ProfileOut
    memory: tuple[LineOut, ...]
    communication: tuple[LineOut, ...]
    time: tuple[LineOut, ...]
    next_plan: str
    """Why the plan after this one ranks lower; empty if there is none."""
    notes: tuple[str, ...] = ()


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
