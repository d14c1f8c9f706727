"""The verdict on one launch under a MaxText release, or under the newest of those that take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardplan.engine.decide import judge_splits, with_fixes
from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import AUTO
from shardplan.maxtext.releases import release_of, releases
from shardplan.plan import CheckOut, ProblemOut
from shardplan.spec.workload import BATCHES
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from shardplan.errors import Diagnostic
    from shardplan.loaders.maxtext_flags import Launch
    from shardplan.spec import Case

    Load = Callable[[str | None], Launch]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """A launch that a release can read, and what its verdict will say beside the price."""

    name: str
    launch: Launch
    load: Load
    accepting: tuple[str, ...]


def verdict_on(name: str, load: Load, maxtext: str | None) -> CheckOut:
    """The verdict on a launch, read by `load` under a release; `auto` finds the releases that take it.

    Where only its names are wrong for the release, the launch is judged invalid and priced all the same. Raises InputError
    for what cannot be read.
    """
    asked = ask(name, load, maxtext)
    return asked if isinstance(asked, CheckOut) else with_ways_out(asked, verdicts_on([asked])[0])


def ask(name: str, load: Load, maxtext: str | None) -> Asked | CheckOut:
    """A launch as the release reads it, or the verdict where the release would refuse it unpriced."""
    accepting: tuple[str, ...] = ()
    if maxtext is not None and maxtext.strip().lower() == AUTO:
        accepting, maxtext = accepted_by(load)
    try:
        return Asked(name, load(maxtext), load, accepting)
    except InvalidShardingError as error:
        problems, release = _problems(error.diagnostics), release_of(maxtext).release.name
        return CheckOut(
            id=name, verdict="invalid", problems=problems, choice=None, release=release, releases_accepting=accepting
        )


def verdicts_on(asked: Sequence[Asked]) -> list[CheckOut]:
    """The verdicts without ways out, in order; launches that differ in mesh, batch and remat alone are priced at once."""
    groups: dict[object, list[int]] = {}
    for place, each in enumerate(asked):
        groups.setdefault(_without_split(each.launch.case), []).append(place)
    found: dict[int, CheckOut] = {}
    for places in groups.values():
        case = asked[places[0]].launch.case
        splits = split_rows(case, *(asked[place].launch.split for place in places))
        found |= zip(places, judge_splits(case, splits, [asked[place].name for place in places]), strict=True)
    return [_told(each, found[place]) for place, each in enumerate(asked)]


def with_ways_out(asked: Asked, verdict: CheckOut) -> CheckOut:
    """The verdict with the ways out, where the launch does not fit."""
    return with_fixes(verdict, asked.launch.case, asked.launch.split)


def _told(asked: Asked, result: CheckOut) -> CheckOut:
    """The verdict with what reading the launch had to say."""
    launch = asked.launch
    found: dict[str, object] = {
        "notes": (*launch.echo, *launch.notes, *result.notes),
        "release": launch.release,
        "releases_accepting": asked.accepting,
    }
    if launch.drift:
        found |= {"verdict": "invalid", "problems": (*_problems(launch.drift), *result.problems)}
        found["releases_accepting"] = asked.accepting or accepted_by(asked.load)[0]
    return result.model_copy(update=found)


def _without_split(case: Case) -> tuple[object, ...]:
    """All that a price depends on beside the split: the case but for its name, and for its batch, which the split says."""
    cluster, workload = case.cluster, case.workload.model_copy(update=dict.fromkeys(BATCHES))
    machine = (cluster.chip.name, cluster.topology, cluster.slices, cluster.usd_per_chip_hour)
    may_cut = case.plan is not None and case.plan.allow_split_physical_axes
    return case.architecture, *machine, *map(repr, (workload, case.runtime, case.constraints)), may_cut


def accepted_by(load: Load) -> tuple[tuple[str, ...], str]:
    """The releases that take a launch, newest first; and the one to judge it under: the first, or the one that minds least.

    Raises InputError where no release can be asked.
    """
    accepting: list[str] = []
    minded: dict[str, int] = {}
    unreadable: InputError | None = None
    for release in reversed(releases()):
        try:
            faults = len(load(release.name).drift)
        except InvalidShardingError as error:
            faults = len(error.diagnostics)
        except InputError as error:
            unreadable = unreadable or error
            continue
        minded[release.name] = faults
        if not faults:
            accepting.append(release.name)
    if not minded:
        assert unreadable is not None, "a launch that no release takes was read by one"
        raise unreadable
    return tuple(accepting), min(minded, key=lambda name: minded[name])


def _problems(diagnostics: Iterable[Diagnostic]) -> tuple[ProblemOut, ...]:
    """Diagnostics as records, placed where they come from a file."""
    return tuple(
        ProblemOut(
            code=diagnostic.code,
            message=diagnostic.message,
            hint=diagnostic.hint,
            place=str(diagnostic.mark) if diagnostic.mark and diagnostic.mark.line else None,
        )
        for diagnostic in diagnostics
    )
