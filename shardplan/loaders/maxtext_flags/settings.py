"""Flags over MaxText's defaults: every key's value, who set it, and what is wrong with what was given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, InputError, InvalidShardingError, Mark, suggest
from shardplan.loaders.maxtext_flags.switches import check_switches
from shardplan.maxtext.keys import Key, accept, parse, table

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_RULES = frozenset({"logical_axis_rules", "mesh_axes", "data_sharding", "override_logical_axis_rules"})
"""Keys by which a model file brings sharding rules of its own; priced as the default rules, and noted."""

EMPTY_IF_NULL = frozenset({"run_name", "dump_hlo_module_name", "dump_hlo_local_module_name"})
"""Text keys that MaxText lets be empty. Source: configs/pyconfig.py."""

_ABSENT = object()


@dataclass(slots=True)
class Settings:
    """The resolved configuration of one launch, with the findings of the resolution."""

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
    invalid: list[Diagnostic] = field(default_factory=list)
    """What MaxText would refuse."""
    unreadable: list[Diagnostic] = field(default_factory=list)
    """What cannot be modelled."""

    def __getitem__(self, key: str) -> Any:
        """Value of a key: given, else the model's, else the default."""
        value = self.given.get(key, self.model.get(key, _ABSENT))
        return table().keys[key].default if value is _ABSENT else value

    @property
    def overridden(self) -> bool:
        """Whether the flags describe an architecture other than the one `model_name` stands for."""
        keys = table().keys
        changed = (
            k
            for k in self.given
            if keys[k].effect == "architecture" and self.given[k] != self.model.get(k, keys[k].default)
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
        if self.invalid:
            raise InvalidShardingError([*self.invalid, *self.unreadable])
        if self.unreadable:
            raise InputError(self.unreadable)


def read_settings(flags: Mapping[str, Any], source: str, marks: Mapping[str, Mark] | None = None) -> Settings:
    """The settings of a mapping of key to value or to text; raises nothing, see `Settings.raise_problems`."""
    settings = Settings(source=source, marks=dict(marks or {}))
    keys = table().keys
    for name, raw in flags.items():
        if name not in keys:
            message = f"MaxText {table().release} has no key {str(name)[:80]!r}"
            settings.refuse("SP010", str(name), message, suggest(name, keys))
            continue
        value = parse(raw) if isinstance(raw, str) else raw
        if name in EMPTY_IF_NULL and value is None:
            value = ""
        try:
            settings.given[name] = accept(keys[name], value)
        except ValueError as error:
            hint = "shell variables are not filled in here" if "$" in str(raw) else _near(keys[name], value)
            settings.refuse("SP012", name, f"{name} is {str(raw)[:80]!r}; {error}", hint)
    _apply_model(settings)
    _check_effects(settings)
    check_switches(settings)
    return settings


def _near(key: Key, value: Any) -> str | None:
    return suggest(value, [c for c in key.kind if c]) if isinstance(key.kind, tuple) else None


def _apply_model(settings: Settings) -> None:
    """Lay what the model name sets under the flags; a flag that contradicts it needs override_model_config."""
    name = str(settings["model_name"])
    settings.model = table().models.get(name, {})
    if settings["override_model_config"]:
        return
    for key in settings.given.keys() & settings.model.keys():
        ours, theirs = settings.given[key], settings.model[key]
        if theirs != ours:
            message = f"{key}={_text(ours)}, but model_name={name} sets {_text(theirs)}"
            settings.refuse("SP015", key, message, "add override_model_config=true to override it")


def _check_effects(settings: Settings) -> None:
    """Sort what was given by what it means here."""
    keys = table().keys
    own = sorted(OWN_RULES & settings.model.keys() - settings.given.keys())
    if settings["override_logical_axis_rules"] and own:
        name = settings["model_name"]
        settings.notes.append(f"model_name={name} brings its own {', '.join(own)}; priced with MaxText's default rules")
    for name in sorted({**settings.given, **settings.model}):
        key, value = keys[name], settings[name]
        if name in own or value == key.default or (key.default is None and value in ("", [], {}, False, 0, -1)):
            continue
        if key.effect == "refused" and name not in own:
            by = "" if name in settings.given else f" (set by model_name={settings['model_name']})"
            settings.cannot(name, f"{name}={_text(value)}{by} cannot be modelled yet")
        elif key.effect == "approximate":
            settings.notes.append(
                f"{name}={_text(value)} is accepted; memory and time are those of {_text(key.default)}"
            )
        elif key.effect == "ignored":
            settings.notes.append(f"{name}={_text(value)} has no effect in MaxText")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:80]
