"""Generated parts of the accuracy page that are about memory, for cog; `accuracy_runs` and `accuracy_ranks` have the others.

Each function returns one Markdown table of predicted beside compiled bytes: `benchmarks.compared` over the committed corpora.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from benchmarks.accuracy import DATA, FILES, load
from benchmarks.compared import DIMENSIONS, Errors, by_dimension, changes
from shardplan.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from benchmarks.compared import Compared

WORST = 10
NEAR = 0.9
"""Share of the limit from which on the compiler schedules for memory."""
VERDICTS = {"fits": "fits", "at_risk": "at risk", "does_not_fit": "does not fit"}

REASONS: tuple[tuple[str, Callable[[Compared], bool]], ...] = (
    (
        "beyond the limit the compiler rematerialises and compresses until it gives up; the model follows a part of it",
        lambda p: p.refused,
    ),
    (
        "near the limit the compiler schedules for memory: what waits elsewhere, such as logits for the head's gradient, is used first",
        lambda p: p.total_bytes > NEAR * p.limit_bytes,
    ),
    (
        "which offloaded rows of experts are back on the device at once is the scheduler's choice; few such programs were read",
        lambda p: p.family == "moe" and "offload" in _settings(p),
    ),
    (
        "which offloaded tensors are back on the device early is the scheduler's choice",
        lambda p: "offload" in _settings(p),
    ),
    (
        "every point with accumulation over two slices falls short by as much: something lives there that we do not count",
        lambda p: int(p.flag("gradient_accumulation_steps", 1)) > 1 and _is_sliced(p),
    ),
)
"""What explains an error, or the pattern it belongs to; the first that applies."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> str:
    """A Markdown table; so many of its last columns are numbers."""
    rule = ["---"] * (len(header) - numbers) + ["--:"] * numbers
    lines = [header, rule, *rows]
    return "\n".join(("", *(f"| {' | '.join(str(cell).replace('|', '/') for cell in line)} |" for line in lines), ""))


@cache
def corpus(name: str) -> tuple[Compared, ...]:
    """The compiled configurations of one file with our prediction."""
    return tuple(load([DATA / name]))


def points() -> tuple[Compared, ...]:
    """All of them."""
    return tuple(point for name in FILES for point in corpus(name))


def memory_totals() -> str:
    """How far arguments + temporaries are off: everything, each corpus, and both sides of the limit."""
    groups = {
        "every point": points(),
        **{name: corpus(name) for name in FILES},
        "compiled": [point for point in points() if not point.refused],
        "refused for memory": [point for point in points() if point.refused],
    }
    return _errors_table("group", {label: Errors.of(members) for label, members in groups.items()})


def memory_by(dimension: str) -> str:
    """How far the groups of one dimension are off, largest first."""
    return _errors_table(dimension, by_dimension(points(), dimension))


def memory_dimensions() -> str:
    """All dimensions, a heading and a table each."""
    return "\n".join(f"\n### By {name}\n{memory_by(name)}" for name in DIMENSIONS)


def memory_verdicts() -> str:
    """What we say of configurations the compiler took, and of those it refused."""
    counts = Counter((point.refused, point.verdict) for point in points())
    rows = [
        ("refused" if refused else "compiled", *(counts[refused, verdict] for verdict in VERDICTS))
        for refused in (False, True)
    ]
    return table(("the compiler", *VERDICTS.values()), rows, numbers=len(VERDICTS))


def memory_worst() -> str:
    """The points that are furthest off, with a reason where there is one."""
    rows = [
        (
            f"`{point.id}`", _settings(point), f"{_gib(point.compiled_bytes)}{' (refused)' if point.refused else ''}",
            _gib(point.total_bytes), f"{point.error:+.1%}", VERDICTS[point.verdict], reason(point),
        )
        for point in worst()
    ]  # fmt: skip
    return table(("point", "settings", "compiled GiB", "predicted GiB", "error", "verdict", "reason"), rows)


def worst() -> list[Compared]:
    """The ten points that are furthest off, the worst first."""
    return sorted(points(), key=lambda point: -abs(point.error))[:WORST]


def reason(point: Compared) -> str:
    """Why a point is off, as far as we know."""
    return next((text for text, applies in REASONS if applies(point)), "not known")


def memory_changes() -> str:
    """Pairs that differ in one setting: how many are right, by setting."""
    met, total = Counter[str](), Counter[str]()
    for change in changes(points()):
        total[change.factor] += 1
        met[change.factor] += change.met
    rows = [(f"`{factor}`", met[factor], count) for factor, count in total.most_common()]
    return table(("setting", "right", "pairs"), [*rows, ("all", met.total(), total.total())], numbers=2)


def memory_missed() -> str:
    """Pairs whose difference we miss."""
    rows = [
        (
            f"`{change.factor}`",
            f"`{change.first.id}`",
            f"`{change.second.id}`",
            f"{change.compiled_bytes / GIB:+.2f}",
            f"{(change.compiled_bytes + change.miss_bytes) / GIB:+.2f}",
        )
        for change in changes(points())
        if not change.met
    ]
    return table(("setting", "from", "to", "compiled GiB", "predicted GiB"), rows, numbers=2)


def _errors_table(what: str, groups: dict[str, Errors]) -> str:
    rows = [
        (label, e.count, f"{e.median:.1%}", f"{e.p95:.1%}", f"{e.worst:.1%}", f"{e.bias:+.1%}")
        for label, e in groups.items()
    ]
    return table((what, "points", "median", "95th percentile", "worst", "bias"), rows, numbers=5)


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f}"


def _is_sliced(point: Compared) -> bool:
    return int(point.record.get("slices") or 1) > 1


PLAIN = frozenset({"model_name", "attention", "override_model_config", "allow_split_physical_axes"})
"""Settings that say nothing on their own."""


def _settings(point: Compared) -> str:
    """The settings of a point in short, without what is one or off."""
    shown = {k: v for k, v in point.record["flags"].items() if k not in PLAIN and str(v) not in {"1", "false"}}
    return ", ".join(f"{key.removeprefix('ici_').removesuffix('_parallelism')} {value}" for key, value in shown.items())
