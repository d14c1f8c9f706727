"""Why a plan ranks where it does, in sentences with the numbers of both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.catalogue.thresholds import threshold
from shardplan.cost.memory.release_band import release_band
from shardplan.engine.ranking import PRINCIPLE
from shardplan.maxtext.releases import release_of
from shardplan.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardplan.judge.profile import Profile
    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case


def notes(seen: Profile, plans: Sequence[ChoiceOut], objective: str) -> Iterator[str]:
    """How the plans are ordered, and where the cost model overrules the decision table."""
    yield "ranked by: " + PRINCIPLE.format(
        objective=objective, tolerance=threshold("ranking_tolerance"), margin=threshold("model_parallel_margin")
    )
    if not plans:
        return
    wanted, first = _kinds(seen.strategy), plans[0]
    if _kinds(first.strategy) == wanted:
        yield f"the decision table ({seen.row}: {seen.strategy}) and the cost model agree"
        return
    table = next((plan for plan in plans if _kinds(plan.strategy) == wanted), None)
    reason = f"no plan of the table's kind is among the first {len(plans)}"
    if table is not None:
        reason = f"the table's best, {why_lower(first, table)}"
    yield f"the decision table ({seen.row}) says {seen.strategy}; the cost model says {first.strategy}: {reason}"


def release_notes(case: Case) -> Iterator[str]:
    """What is to be said of the MaxText release a case is for: that another was asked for, that its memory is less sure."""
    meant = release_of(case.runtime.maxtext)
    if meant.note:
        yield meant.note
    if share := release_band(case):
        yield f"the compiler has not confirmed memory under MaxText {meant.release}: the band has {share:.0%} for that"


def why_lower(choice: ChoiceOut, following: ChoiceOut) -> str:
    """Why a later plan ranks lower, with the numbers of both."""
    name = f"rank {following.rank} ({following.strategy})"
    if following.verdict != choice.verdict:
        return f"{name} is {following.verdict.replace('_', ' ')}, {choice.strategy} {choice.verdict.replace('_', ' ')}"
    slower, tolerance = _per_sequence(following) / _per_sequence(choice) - 1, threshold("ranking_tolerance")
    if slower > tolerance:
        return f"{name}, takes {slower:.1%} longer: {_difference(choice, following)}"
    if slower < -tolerance:
        return (
            f"{name}, is {-slower:.1%} faster by estimate; but tensor, expert and pipeline parallelism must gain "
            f"{threshold('model_parallel_margin'):.0%}, because ablations find them costlier than the time model does"
        )
    return (
        f"{name}, is within {tolerance:.0%} ({slower:+.1%}); {choice.strategy} is simpler, or leaves more headroom "
        f"({format_bytes(choice.memory.total_bytes)} against {format_bytes(following.memory.total_bytes)})"
    )


def _per_sequence(choice: ChoiceOut) -> float:
    """Seconds a sequence."""
    return choice.time.estimate_s / choice.global_batch


def _difference(first: ChoiceOut, second: ChoiceOut) -> str:
    """Both step times, and the part that differs most."""
    parts = {name: second.time.breakdown[name] - value for name, value in first.time.breakdown.items()}
    name = max(parts, key=lambda part: parts[part])
    return (
        f"{second.time.estimate_s:.2f} s against {first.time.estimate_s:.2f} s, most of it "
        f"{name.removesuffix('_s').replace('_', ' ')} ({parts[name]:+.2f} s)"
    )


def _kinds(strategy: str) -> frozenset[str]:
    """The kinds of parallelism of a strategy; data parallelism goes with any, both FSDP axes are one kind."""
    words = strategy.replace("FSDP-T", "FSDP").replace(",", " ").split()
    return frozenset(words) & {"FSDP", "TP", "CP", "EP", "PP"}
