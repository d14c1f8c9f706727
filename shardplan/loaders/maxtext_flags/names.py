"""Keys by the names of a release, in the words of the newest one; and what to say of a key that a release does not know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, suggest
from shardplan.maxtext.releases import releases
from shardplan.maxtext.tables import keys_of_rl, known_anywhere, lifetimes, past_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.errors import Mark
    from shardplan.maxtext.tables import Table


def in_newest_words(table: Table, name: str, value: Any) -> dict[str, Any]:
    """The keys of the newest release that a key of some release stands for, each with its value; itself if it has no other name."""
    past = past_keys().get(name)
    means = table.means.get(name) or (past.means if past else {})
    if not means:
        return {name: value}
    found = {}
    for target, values in means.items():
        if values is None:
            found[target] = value
        elif (written := str(value).lower()) in values:
            found[target] = values[written]
    return found


def model_in_newest_words(table: Table, model: Mapping[str, Any]) -> dict[str, Any]:
    """What a model's file sets, by the names of the newest release."""
    found: dict[str, Any] = {}
    for name, value in model.items():
        found |= in_newest_words(table, name, value) if name in table.means else {name: value}
    return found


def unknown_key(table: Table, name: str, mark: Mark) -> Diagnostic:
    """What to say of a key that the release does not know: gone and by what it is replaced, not there yet, or never heard of."""
    start = f"MaxText {table.release} has no key {name[:80]!r}"
    spans = lifetimes().get(name, [])
    before = [last for _, last in spans if last <= table.release.order]
    after = [first for first, _ in spans if first > table.release.order]
    if before:
        past, until = past_keys().get(name), releases()[before[-1] - 1]
        says = f"{start}: known until {until}"
        if past is not None and past.means:
            is_plain = all(value is None for value in past.means.values())
            now = ", ".join(past.means) if is_plain else _selected(past.means)
            return Diagnostic("SP010", f"{says}, now {now}", mark, f"write {now}")
        if name in keys_of_rl():
            return Diagnostic("SP010", f"{says}; since then only the RL trainer knows it", mark, "leave it out")
        return Diagnostic("SP010", f"{says}, now gone", mark, past.instead if past else None)
    if after:
        since = releases()[after[0]]
        older = [old for old, means in table.means.items() if name in means]
        hint = f"this release calls it {older[0]}" if older else f"leave it out, or launch with {since} or later"
        return Diagnostic("SP010", f"{start} yet: known since {since}", mark, hint)
    if name in keys_of_rl():
        return Diagnostic("SP010", f"{start}: only the RL trainer knows it", mark, "leave it out")
    return Diagnostic("SP010", start, mark, suggest(name, table.keys))


def is_known(table: Table, name: str) -> bool:
    """Whether some release knows the key, so that its value can be read."""
    return name in table.keys or known_anywhere(name) is not None


def _selected(means: Mapping[str, Any]) -> str:
    """Keys with the values that the old one's values select."""
    return " or ".join(f"{key}={new} for {old}" for key, values in means.items() for old, new in (values or {}).items())
