"""Flags of the newest MaxText in the words of another release: renamed back, left out where they say nothing new, or lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardplan.errors import Diagnostic, InputError
from shardplan.maxtext.tables import first_with_model, older_value, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.exporters.maxtext.keys import Value
    from shardplan.maxtext.releases import Release
    from shardplan.maxtext.tables import Table

    Flags = dict[str, Value]


AS_ANOTHER: Final = {"mu_dtype": "weight_dtype"}
"""Keys that are as another one where they are not given."""


def in_words_of(release: Release, flags: Mapping[str, Value]) -> tuple[Flags, Flags]:
    """The flags as a release takes them, and those of the given ones that it cannot express.

    A flag it does not know is left out where the release does the same without it. Raises InputError for a model that came
    later.
    """
    theirs = table(release.name)
    _check_model(theirs, str(flags["model_name"]))
    found: Flags = {}
    lost: Flags = {}
    left = dict(flags)
    for old, means in theirs.means.items():
        for value in _said_by(theirs, means, left):
            found[old] = value
            left = {key: other for key, other in left.items() if key not in means}
    for key, value in left.items():
        if key in theirs.keys:
            found[key] = older_value(release, key, value)
        elif value not in {theirs.defaults.get(key), flags.get(AS_ANOTHER.get(key, ""))}:
            lost[key] = value
    order = [*flags, *found]
    return dict(sorted(found.items(), key=lambda flag: order.index(flag[0]))), lost


def _said_by(theirs: Table, means: Mapping[str, object], flags: Mapping[str, Value]) -> list[Value]:
    """The value of an old key that says what the flags say of all it stands for; none if it cannot."""
    wanted = {key: flags[key] for key in means if key in flags}
    beyond = [key for key in wanted if key not in theirs.keys]
    if not beyond:
        return []
    values = {str(value): value for value in wanted.values()}
    if len(values) == 1 and all(meant is None for meant in means.values()):
        return list(values.values())
    (key, value) = next(iter(wanted.items()))
    selected = means[key]
    if isinstance(selected, dict):
        return [_typed(written) for written, new in selected.items() if new == value]
    return []


def _typed(written: str) -> Value:
    return written == "true" if written in {"true", "false"} else written


def _check_model(theirs: Table, name: str) -> None:
    if name in table().models and name not in theirs.models:
        message = f"MaxText {theirs.release} has no model {name}: it came with {first_with_model(name)}"
        raise InputError([Diagnostic("SP015", message)])
