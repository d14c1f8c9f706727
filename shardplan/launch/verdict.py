"""The verdict on one launch under a MaxText release, or under the newest of those that take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.engine.decide import check_split
from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import AUTO
from shardplan.maxtext.releases import release_of, releases
from shardplan.plan import CheckOut, ProblemOut
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from shardplan.errors import Diagnostic
    from shardplan.loaders.maxtext_flags import Launch

    Load = Callable[[str | None], Launch]


def verdict_on(name: str, load: Load, maxtext: str | None) -> CheckOut:
    """The verdict on a launch, read by `load` under a release; `auto` finds the releases that take it.

    Where only its names are wrong for the release, the launch is judged invalid and priced all the same. Raises InputError
    for what cannot be read.
    """
    accepting: tuple[str, ...] = ()
    if maxtext is not None and maxtext.strip().lower() == AUTO:
        accepting, maxtext = accepted_by(load)
    release = release_of(maxtext).release.name
    try:
        launch = load(maxtext)
    except InvalidShardingError as error:
        problems = _problems(error.diagnostics)
        return CheckOut(
            id=name, verdict="invalid", problems=problems, choice=None, release=release, releases_accepting=accepting
        )
    result = check_split(launch.case, split_rows(launch.case, launch.split), name)
    found: dict[str, object] = {
        "notes": (*launch.echo, *launch.notes, *result.notes),
        "release": launch.release,
        "releases_accepting": accepting,
    }
    if launch.drift:
        found |= {"verdict": "invalid", "problems": (*_problems(launch.drift), *result.problems)}
        found["releases_accepting"] = accepting or accepted_by(load)[0]
    return result.model_copy(update=found)


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
