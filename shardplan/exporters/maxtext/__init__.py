"""MaxText configuration out: keys of one split, and their renderings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from shardplan.exporters.placeholder import Placeholder

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job
    from shardplan.exporters.maxtext.keys import Value, flags, flags_and_lost, flags_if_any
    from shardplan.exporters.maxtext.model import lacking, model_flags
    from shardplan.exporters.maxtext.text import as_command, as_flags, as_yml, launcher, written

_HOMES: Final = {
    **dict.fromkeys(("Value", "flags", "flags_and_lost", "flags_if_any"), "keys"),
    **dict.fromkeys(("lacking", "model_flags"), "model"),
    **dict.fromkeys(("as_command", "as_flags", "as_yml", "launcher", "written"), "text"),
}
"""Modules of what is imported when it is used: help reads only the words below."""

__all__ = [
    "Value",
    "as_command",
    "as_flags",
    "as_yml",
    "export",
    "flags",
    "flags_and_lost",
    "flags_if_any",
    "lacking",
    "launcher",
    "model_flags",
    "written",
]

SUMMARY: Final = "Flags, a .yml or a command for MaxText."
ABOUT: Final = """Print the mesh, batch, remat, precision and kernel flags of a plan, as MaxText takes them.

\b
Examples:
  shardplan export maxtext case.yaml
  shardplan export maxtext case.yaml --rank 2 --format yml > plan.yml
  python3 -m maxtext.trainers.pre_train.train base.yml $(shardplan export maxtext case.yaml)
"""
FORMAT: Final = Placeholder(
    "format", "FORMAT", "Key=value flags, a .yml for base_config, or the whole command", ("flags", "yml", "command")
)
PLACEHOLDERS: Final = (FORMAT,)
FOR_MAXTEXT: Final = True


def export(job: Job) -> str:
    """The plan's keys in the format that was asked for."""
    from shardplan.exporters.maxtext.text import as_command, as_flags, as_yml

    found, wanted = job.choice.maxtext_flags, job.given.get(FORMAT, FORMAT.choices[0])
    if wanted == "command":
        arguments, release = job.choice.libtpu_init_args, job.choice.maxtext_release
        return as_command(found, run_name=job.name, libtpu_init_args=arguments, maxtext=release)
    return as_yml(found) if wanted == "yml" else as_flags(found)


def __getattr__(name: str) -> Any:
    """A name from the module that has it."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
