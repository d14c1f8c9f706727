"""Results of `recommend`, `check` and `explain`."""

from __future__ import annotations

from typing import Literal

from shardplan.plan.choice import NEWEST_MAXTEXT, SCHEMA_VERSION, ChoiceOut, Output, Verdict


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


class ProblemOut(Output):
    """Something that stands in the way, with a way out."""

    code: str
    message: str
    hint: str | None = None
    place: str | None = None
    """File and line, where it comes from a file."""


class FixOut(Output):
    """A change that would make a plan fit."""

    change: str
    flags: dict[str, int | float | str | bool]
    saves_bytes: float
    costs_s: float
    fits: bool


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
    release: str = NEWEST_MAXTEXT
    """The MaxText release it is judged under."""
    releases_accepting: tuple[str, ...] = ()
    """With `auto`, or where the release does not take it: the releases that do, newest first."""
    patch: PatchOut | None = None
    """With --fix, for what does not fit or is invalid; null where no change was found."""


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
    own: CheckOut | None = None
    """The verdict on the case's own `plan:`; null if it has none."""
    own_distance: float | None = None
    """Share by which that plan takes longer a sequence than rank 1; null where either is not priced."""
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
