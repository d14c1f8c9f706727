"""The keys and models of each MaxText release.

Those of the newest release are data, `rules/maxtext/keys.json`, written from an installed MaxText by
`benchmarks/maxtext_keys.py`; those of an older one are the same with the history undone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from shardplan import data
from shardplan.maxtext.keys import Key
from shardplan.maxtext.releases import history, newest, order_of, release_of, releases

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardplan.maxtext.releases import Release

_OF_RL: Final = Key("inert", "any", None)


@dataclass(frozen=True, slots=True)
class Table:
    """Every key of one MaxText release, and what each `model_name` sets."""

    release: Release
    keys: dict[str, Key]
    """By the names this release has for them."""
    models: dict[str, dict[str, Any]]
    means: dict[str, dict[str, Any]]
    """Names that stand for others of the newest release: by those, None for the same value, or the value by what is written."""
    defaults: dict[str, Any]
    """Of every key of the newest release, as this release behaves."""


@dataclass(frozen=True, slots=True)
class Past:
    """A key that the newest release has not."""

    key: Key
    means: dict[str, Any]
    instead: str | None
    """What to write where no key means the same."""
    source: str | None


@cache
def newest_keys() -> Any:
    """The keys and models of the newest release, as in the file."""
    return json.loads((data.rules_folder() / "maxtext" / "keys.json").read_text(encoding="utf-8"))


@cache
def past_keys() -> dict[str, Past]:
    """Every key that is gone, by name."""
    return {
        row["name"]: Past(_key(row["key"]), row.get("means", {}), row.get("instead"), row.get("source"))
        for row in history()["gone"]
    }


@cache
def table(release: str | None = None) -> Table:
    """The table of a release by its name in the history; by default of the newest."""
    this = newest() if release is None else releases()[order_of(release)]
    raw = newest_keys()
    keys = {name: _key(row) for name, row in raw["keys"].items()}
    models = raw["models"]
    if this is newest():
        return Table(this, keys, models, {}, {name: key.default for name, key in keys.items()})
    defaults, models = {name: key.default for name, key in keys.items()}, {m: dict(v) for m, v in models.items()}
    for row in reversed(history()["releases"][this.order + 1 :]):
        defaults |= row.get("was", {})
        for model, was in row.get("models_were", {}).items():
            _undo(models.get(model, {}), was)
        for model in row.get("models", ()):
            models.pop(model, None)
    known = {name for name, spans in lifetimes().items() if any(a <= this.order < b for a, b in spans)}
    here = {name: key if (key := keys.get(name)) else _past(name).key for name in known}
    means = {name: past.means for name in known - keys.keys() if (past := _past(name)).means}
    means |= {
        row["name"]: row["means"]
        for row in history()["meant"]
        if row["name"] in known and this.order <= order_of(row["until"])
    }
    for name, targets in means.items():
        defaults |= {
            target: here[name].default for target, value in targets.items() if value is None and target not in known
        }
    here = {name: replace(key, default=defaults.get(name, key.default)) for name, key in here.items()}
    if "model_name" in here:
        here["model_name"] = replace(here["model_name"], kind=_models_known(here["model_name"].kind, models))
    return Table(this, here, models, means, defaults)


def _past(name: str) -> Past:
    return past_keys().get(name, Past(_OF_RL, {}, "only the RL trainer knows it", None))


def _key(row: Sequence[Any]) -> Key:
    effect, kind, default = row
    return Key(effect, tuple(kind) if isinstance(kind, list) else kind, default)


def _undo(model: dict[str, Any], was: Mapping[str, Any]) -> None:
    """A model's file as it was before a release; None for what it did not set."""
    for name, value in was.items():
        if value is None:
            model.pop(name, None)
        else:
            model[name] = value


def _models_known(kind: str | tuple[Any, ...], models: Mapping[str, Any]) -> tuple[Any, ...]:
    """Choices of `model_name`: those without a file of their own, and those whose file is there."""
    files = newest_keys()["models"]
    return tuple(name for name in kind if name not in files or name in models)


@cache
def axes_of(maxtext: str | None) -> frozenset[str]:
    """Mesh axes that a release has a degree for, by what the user calls the release."""
    keys = table(release_of(maxtext).release.name).keys
    return frozenset(key[4:-12] for key in keys if key.startswith("ici_") and key.endswith("_parallelism"))


def first_with_model(name: str) -> Release:
    """The release a model's file came with."""
    rows = history()["releases"]
    return releases()[next((order for order, row in enumerate(rows) if name in row.get("models", ())), 0)]


@cache
def lifetimes() -> dict[str, list[tuple[int, int]]]:
    """By key, the releases that the pre-trainer knows it in: the first, and the first without."""
    end, found = len(releases()), dict[str, list[tuple[int, int]]]()
    for order, row in enumerate(history()["releases"]):
        for name in row.get("came", ()):
            found.setdefault(name, []).append((order, end))
        for name in row.get("went", ()):
            found[name][-1] = (found[name][-1][0], order)
    return found


@cache
def known_anywhere(name: str) -> Key | None:
    """A key of any release, the newest first; None if there never was one of that name."""
    row = newest_keys()["keys"].get(name)
    if row is not None:
        return _key(row)
    return (
        past_keys()[name].key
        if name in past_keys()
        else _OF_RL
        if name in lifetimes() or name in keys_of_rl()
        else None
    )


def older_value(release: Release, key: str, value: Any) -> Any:
    """A key's value by the name a release has for it."""
    for row in history()["values"]:
        if (row["key"], row["value"]) == (key, value) and release.order <= order_of(row["until"]):
            return row["was"]
    return value


@cache
def keys_of_rl() -> frozenset[str]:
    """Keys that only the RL trainer's configuration has by the newest release."""
    return frozenset(name for row in history()["releases"] for name in row.get("rl", ()))
