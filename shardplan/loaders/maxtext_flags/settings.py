"""Flags over MaxText's defaults: every key's value, who set it, and what is wrong with what was given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, InputError, InvalidShardingError, Mark, suggest
from shardplan.loaders.maxtext_flags.names import in_newest_words, model_in_newest_words, unknown_key
from shardplan.loaders.maxtext_flags.switches import check_switches
from shardplan.loaders.maxtext_flags.unmodelled import MISSING
from shardplan.maxtext.keys import accept, parse
from shardplan.maxtext.tables import known_anywhere, newest_keys, table

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from shardplan.maxtext.keys import Key
    from shardplan.maxtext.tables import Table

OWN_RULES = frozenset({"logical_axis_rules", "mesh_axes", "data_sharding", "override_logical_axis_rules"})
"""Keys by which a model file brings sharding rules of its own; priced as the default rules, and noted."""

EMPTY_IF_NULL = frozenset({"run_name", "dump_hlo_module_name", "dump_hlo_local_module_name"})
"""Text keys that MaxText lets be empty. Source: configs/pyconfig.py."""


@dataclass(frozen=True, slots=True)
class Base:
    """What is known of a launch before its flags."""

    release: str | None = None
    """Name of the release in the history; by default the newest."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    """What its configuration file sets."""
    also_known: Container[str] = frozenset()
    """Keys that its trainer knows beside the pre-trainer's."""


@dataclass(slots=True)
class Settings:
    """The resolved configuration of one launch by the keys of the newest release, with the findings of the resolution."""

    table: Table = field(default_factory=table)
    """Keys, defaults and models of the release it is for."""
    base: dict[str, Any] = field(default_factory=dict)
    """What its configuration file sets, beside MaxText's own defaults."""

    given: dict[str, Any] = field(default_factory=dict)
    """What the launch says, typed."""
    model: dict[str, Any] = field(default_factory=dict)
    """What `model_name` sets."""
    marks: dict[str, Mark] = field(default_factory=dict)
    source: str = "flags"
    echo: list[str] = field(default_factory=list)
    """What was resolved, for people: "ici_fsdp_parallelism=-1 -> 128"."""
    notes: list[str] = field(default_factory=list)
    """What is accepted but not priced, or has no effect."""
    drift: list[Diagnostic] = field(default_factory=list)
    """What the release would refuse and another one may not, without which the rest can still be estimated."""
    invalid: list[Diagnostic] = field(default_factory=list)
    """What MaxText would refuse."""
    unreadable: list[Diagnostic] = field(default_factory=list)
    """What cannot be modelled."""

    def __getitem__(self, key: str) -> Any:
        """Value of a key: given, else the model's, else the configuration file's, else the default."""
        for layer in (self.given, self.model, self.base, self.table.defaults):
            if key in layer:
                return layer[key]
        raise KeyError(key)

    @property
    def overridden(self) -> bool:
        """Whether the flags describe an architecture other than the one `model_name` stands for."""
        changed = (
            key
            for key, value in self.given.items()
            if effect_of(key) == "architecture" and value != self.model.get(key, self.table.defaults.get(key))
        )
        return self["model_name"] == "default" or any(changed)

    @property
    def architecture_keys(self) -> dict[str, Any]:
        """Every key that describes the model, with its value, as a MaxText model file would give it."""
        described = {name for name, key in table().keys.items() if key.effect == "architecture"}
        return {name: self[name] for name in sorted(described | self.model.keys())}

    def mark(self, key: str) -> Mark:
        """Where a key was given, or else just the source."""
        return self.marks.get(key, Mark(self.source))

    def refuse(self, code: str, key: str, message: str, hint: str | None = None) -> None:
        """Note that MaxText would refuse this."""
        self.invalid.append(Diagnostic(code, message, self.mark(key), hint))

    def cannot(self, key: str, message: str, hint: str | None = None) -> None:
        """Note that this cannot be modelled."""
        self.unreadable.append(Diagnostic("SP015", message, self.mark(key), hint))

    def raise_problems(self) -> None:
        """Raise everything found: InvalidShardingError if MaxText would refuse any of it, else InputError."""
        if self.invalid or (self.drift and self.unreadable):
            raise InvalidShardingError([*self.drift, *self.invalid, *self.unreadable])
        if self.unreadable:
            raise InputError(self.unreadable)


def read_settings(
    flags: Mapping[str, Any], source: str, marks: Mapping[str, Mark] | None = None, base: Base | None = None
) -> Settings:
    """The settings of a mapping of key to value or to text; raises nothing, see `Settings.raise_problems`."""
    base = base or Base()
    settings = Settings(table=table(base.release), base=dict(base.sets), source=source, marks=dict(marks or {}))
    for name, raw in flags.items():
        _take(settings, str(name), raw, given_too=flags.keys(), allowed=base.also_known)
    _apply_model(settings)
    _check_effects(settings)
    check_switches(settings)
    return settings


def _take(settings: Settings, name: str, raw: Any, *, given_too: Collection[str], allowed: Container[str]) -> None:
    """Read one flag and keep it by the names of the newest release; a name given as such goes first."""
    release = settings.table.release
    key = settings.table.keys.get(name) or known_anywhere(name)
    if name not in settings.table.keys and name not in allowed:
        problem = unknown_key(settings.table, name, settings.mark(name))
        if release.unknown == "ignored":
            settings.notes.append(f"{problem.message}; this release ignores it with a warning")
            return
        settings.drift.append(problem)
    if key is None:
        return
    value = parse(raw) if isinstance(raw, str) else raw
    if name in EMPTY_IF_NULL and value is None:
        value = ""
    try:
        value = accept(key, value)
    except ValueError as error:
        _refuse_value(settings, name, key, raw, error)
        return
    for target, meant in in_newest_words(settings.table, name, value).items():
        if target == name or target not in given_too:
            settings.given[target] = meant
            settings.marks.setdefault(target, settings.mark(name))


def _refuse_value(settings: Settings, name: str, key: Key, raw: Any, error: ValueError) -> None:
    """Say what is wrong with a value: MaxText would refuse it, but for a shell variable, which is not known yet."""
    message = f"{name} is {str(raw)[:80]!r}; {error}"
    if "$" in str(raw):
        if key.effect == "inert":
            settings.notes.append(f"{name} is a shell variable that is not set here; it changes nothing in the plan")
        else:
            settings.cannot(name, message, "shell variables are not filled in here")
        return
    choices = settings.table.release.name
    past = name == "model_name" and str(raw) in newest_keys()["models"]
    hint = f"MaxText {choices} does not have this model yet" if past else _near(key, parse(str(raw)))
    settings.refuse("SP012", name, message, hint)


def _near(key: Key, value: Any) -> str | None:
    return suggest(value, [c for c in key.kind if c]) if isinstance(key.kind, tuple) else None


def _apply_model(settings: Settings) -> None:
    """Lay what the model name sets under the flags; what becomes of a flag that the model sets too depends on the release."""
    name, release = str(settings["model_name"]), settings.table.release
    settings.model = model_in_newest_words(settings.table, settings.table.models.get(name, {}))
    if settings["override_model_config"] or release.doubled == "accepted":
        return
    for key in settings.given.keys() & settings.model.keys():
        ours, theirs = settings.given[key], settings.model[key]
        if theirs != ours or release.doubled == "refused":
            message = f"{key}={_text(ours)}, but model_name={name} sets {_text(theirs)}"
            settings.refuse("SP015", key, message, _way_out(settings, key))


def _way_out(settings: Settings, key: str) -> str:
    if "override_model_config" in settings.table.keys:
        return "add override_model_config=true to override it"
    return f"leave {key} out"


def _check_effects(settings: Settings) -> None:
    """Sort what was given by what it means here."""
    own = sorted(OWN_RULES & settings.model.keys() - settings.given.keys())
    if settings["override_logical_axis_rules"] and own:
        name = settings["model_name"]
        settings.notes.append(f"model_name={name} brings its own {', '.join(own)}; priced with MaxText's default rules")
    for name in sorted({**settings.given, **settings.model, **settings.base}):
        key, value = known_anywhere(name), settings[name]
        if key is None:
            continue  # a model's file may hold what no configuration has
        default = settings.table.defaults.get(name, key.default)
        if name in own or value == default or (default is None and value in ("", [], {}, False, 0, -1)):
            continue
        if key.effect == "refused" and name not in own:
            by = "" if name in settings.given else f" (set by model_name={settings['model_name']})"
            lacks = f": {MISSING[name]}" if name in MISSING else ""
            settings.cannot(name, f"{name}={_text(value)}{by} cannot be modelled yet{lacks}")
        elif key.effect == "approximate":
            settings.notes.append(f"{name}={_text(value)} is accepted; memory and time are those of {_text(default)}")
        elif key.effect == "ignored":
            settings.notes.append(f"{name}={_text(value)} has no effect in MaxText")


def effect_of(name: str) -> str:
    """What a value other than the default of a key of any release means; `inert` for what is no key."""
    key = known_anywhere(name)
    return key.effect if key else "inert"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:80]
