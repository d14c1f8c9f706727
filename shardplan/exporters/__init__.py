"""Programs that a plan is written for: one module or package each, found by folder, which knows no loader.

An exporter is a module with the names of `Exporter`. A new file in this folder is a new command `shardplan export`, and is
held to what every exporter promises (tests/exporters/test_conformance.py).
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job
    from shardplan.exporters.placeholder import Placeholder

_SHARED = frozenset({"launch", "placeholder"})
"""Modules of the folder that write for no program."""


class Exporter(Protocol):
    """What a module must have to be an exporter."""

    SUMMARY: str
    """One line, for the list of commands."""
    ABOUT: str
    """The command's help, examples included."""
    PLACEHOLDERS: tuple[Placeholder, ...]
    """What it asks of the user beside the plan."""
    FOR_MAXTEXT: bool
    """Whether what it writes launches MaxText: a model that MaxText lacks is then refused before the search."""

    def export(self, job: Job) -> str:
        """The plan as text."""


def exporter_names() -> list[str]:
    """The exporters in this folder, sorted."""
    return sorted(module.name for module in iter_modules(__path__) if module.name not in _SHARED)


def load_exporter(name: str) -> Exporter:
    """The exporter of that name."""
    found: Exporter = import_module(f"{__name__}.{name}")
    return found
