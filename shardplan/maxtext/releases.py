"""MaxText's releases, oldest first: how strict each is, which keys came and went, how runs were started; and which one is meant.

The history is data, `rules/maxtext/releases.json`, written by `benchmarks/maxtext_releases.py`: versions of the package, tags,
and the commits that published launches name. Other commits are taken for the nearest of these.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, Final, Literal

from shardplan import data
from shardplan.errors import Diagnostic, InputError, Mark, suggest

Strictness = Literal["refused", "refused_if_different", "accepted", "ignored"]
Stage = Literal["train", "sft", "sft_tunix", "dpo", "rl", "distillation"]
"""What an entry point does."""

SHARED_OTHERWISE_SINCE: Final = "0.2.4"
"""The first release with ring and Ulysses attention on TPUs. Source: configs/types.py of 0.2.3 and 0.2.4."""
_COMMIT: Final = re.compile(r"(?:.*-g)?([0-9a-f]{7,40})")
_VERSION: Final = re.compile(r"(?:maxtext)?[-=]{0,2}v?(\d+(?:\.\d+){1,3})")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIP: Final = frozenset({"main", "head", "latest", "nightly"})
_DIGITS: Final = 7
"""Of a commit, in the table."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release, or a commit that launches are pinned to."""

    name: str
    day: date
    order: int
    """Place in the history; comparable."""
    also: tuple[str, ...]
    """Its tag, its whole commit."""
    unknown: Strictness
    """What becomes of a key it does not know."""
    doubled: Strictness
    """What becomes of a key that the model's file sets too, unless override_model_config says otherwise."""
    environment: Strictness
    """What becomes of a variable M_KEY whose key it does not know."""
    needs_configuration: bool
    """Whether a launch must name a configuration file."""

    def __str__(self) -> str:
        return self.name if "." in self.name else f"{self.name} ({self.day})"

    def has(self, other: str) -> bool:
        """Whether it is that release or a later one."""
        return self.order >= order_of(other)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A module that starts a run."""

    module: str
    since: str
    until: str | None
    """The last release with it; None if the newest has it."""
    does: Stage

    def is_in(self, release: Release) -> bool:
        """Whether a release has it."""
        return release.has(self.since) and (self.until is None or release.order <= order_of(self.until))


@dataclass(frozen=True, slots=True)
class Meant:
    """The release a text stands for."""

    release: Release
    note: str | None = None
    """Said where another one was asked for."""


@cache
def history() -> Any:
    """The file as it is."""
    return json.loads((data.rules_folder() / "maxtext" / "releases.json").read_text(encoding="utf-8"))


@cache
def releases() -> tuple[Release, ...]:
    """Every release in the table, oldest first."""
    found: list[Release] = []
    strictness: dict[str, Any] = {}
    for order, row in enumerate(history()["releases"]):
        strictness |= row.get("strictness", {})
        found.append(
            Release(
                name=row["name"],
                day=date.fromisoformat(row["date"]),
                order=order,
                also=tuple(row.get("also", ())),
                unknown=strictness["unknown"],
                doubled=strictness["doubled"],
                environment=strictness["environment"],
                needs_configuration=strictness["configuration"] == "required",
            )
        )
    return tuple(found)


def newest() -> Release:
    """The release shardplan emits flags for unless told otherwise."""
    return releases()[-1]


@cache
def order_of(name: str) -> int:
    """Place of a release of the table in the history."""
    return next(release.order for release in releases() if release.name == name)


@cache
def entry_points() -> tuple[EntryPoint, ...]:
    """Every module that ever started a run."""
    return tuple(EntryPoint(**row) for row in history()["entry_points"])


@cache
def configurations() -> dict[str, dict[str, Any]]:
    """Configuration files that MaxText ships, by name, with what they set among the keys that are read."""
    return {row["name"]: row["sets"] for row in history()["configurations"]}


def release_of(text: str | None, mark: Mark | None = None) -> Meant:
    """The release a version, tag, commit or date stands for, or the nearest one; the newest for None.

    Raises InputError for what is none of these.
    """
    if text is None:
        return Meant(newest())
    asked = text.strip()
    for found in (_named(asked), _dated(asked), _versioned(asked), _committed(asked)):
        if found is not None:
            return found
    if asked.lower() in _TIP:
        return Meant(newest(), f"MaxText {asked} is taken for {newest()}, the newest release known here")
    names = [name for release in releases() for name in (release.name, *release.also)]
    hint = suggest(asked, names) or "expected a version such as 0.2.1, a tag, a commit or a date"
    raise InputError([Diagnostic("SP014", f"MaxText {asked[:80]!r} is not a release known here", mark, hint)])


def _named(asked: str) -> Meant | None:
    for release in releases():
        for name in (release.name, *release.also):
            is_pin = re.fullmatch(r"[0-9a-f]{7,}", name) is not None
            match = _COMMIT.fullmatch(asked) if is_pin else None
            if asked in {name, f"v{name}", f"maxtext=={name}"} or (match and _same_commit(match[1], name)):
                return Meant(release)
    return None


def _same_commit(one: str, other: str) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _dated(asked: str) -> Meant | None:
    if not _DATE.fullmatch(asked):
        return None
    try:
        day = date.fromisoformat(asked)
    except ValueError:
        return None
    release = min(releases(), key=lambda release: abs((release.day - day).days))
    return Meant(release, f"MaxText of {asked} is judged as {release}, the nearest release known here")


def _versioned(asked: str) -> Meant | None:
    match = _VERSION.fullmatch(asked)
    if match is None:
        return None
    wanted = _numbers(match[1])
    versions = [release for release in releases() if _VERSION.fullmatch(release.name)]
    later = [release for release in versions if _numbers(release.name) >= wanted]
    release = later[0] if later else versions[-1]
    return Meant(release, f"MaxText {match[1]} is not known here; judged as {release}, the nearest release")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split("."))


def _committed(asked: str) -> Meant | None:
    match = _COMMIT.fullmatch(asked)
    if match is None:
        return None
    digits = match[1][:_DIGITS]
    for line in (data.rules_folder() / "maxtext" / "commits.txt").read_text(encoding="ascii").splitlines():
        name, _, commits = line.partition(" ")
        if any(commits[i : i + _DIGITS] == digits for i in range(0, len(commits), _DIGITS)):
            release = releases()[order_of(name)]
            return Meant(release, f"commit {digits} is judged as {release}, the nearest release known here")
    note = f"commit {digits} is not in the history known here; judged as {newest()}, the newest release"
    return Meant(newest(), note)
