"""How a launch starts MaxText: whether its release has that entry point, and what its configuration file sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from shardplan.errors import Diagnostic
from shardplan.loaders.maxtext_flags.unmodelled import MISSING_STAGES
from shardplan.maxtext.releases import configurations, entry_points, order_of, releases
from shardplan.maxtext.tables import keys_of_rl

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from shardplan.loaders.maxtext_flags.command import Command
    from shardplan.maxtext.releases import EntryPoint, Release, Stage

_OWN_FILES: Final[dict[Stage, str]] = {"sft": "sft.yml", "sft_tunix": "sft.yml", "dpo": "dpo.yml", "rl": "rl.yml"}
"""What a trainer reads where no file is named."""
_FINE_TUNING: Final = "supervised fine-tuning is judged as training: the same step on other data"
_TUNIX: Final = "the trainer's loop is Tunix's; memory and time are those of MaxText's own step"


@dataclass(frozen=True, slots=True)
class Start:
    """What the program and the configuration file of a launch say."""

    sets: dict[str, Any] = field(default_factory=dict)
    """Keys the configuration file sets."""
    also_known: AbstractSet[str] = frozenset()
    """Keys the program knows beside the pre-trainer's."""
    drift: tuple[Diagnostic, ...] = ()
    unreadable: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, command: Command, release: Release) -> Start:
        """The start of a command line under a release."""
        program, mark = command.program, command.program_mark
        does: Stage = program.does if program else "train"
        drift = []
        if program and not program.is_in(release):
            drift.append(
                Diagnostic("SP010", f"MaxText {release} {_absent(program, release)}", mark, _instead(does, release))
            )
        if mark and command.configuration is None and release.needs_configuration:
            message = f"MaxText {release} needs a configuration file before the flags"
            drift.append(Diagnostic("SP011", message, mark, "name MaxText's configs/base.yml first"))
        missing = MISSING_STAGES.get(does)
        notes = [_FINE_TUNING] * (does in {"sft", "sft_tunix"}) + [_TUNIX] * (does == "sft_tunix")
        return cls(
            sets=configurations().get(command.configuration or _OWN_FILES.get(does, "base.yml"), {}),
            also_known=keys_of_rl() if does == "rl" else frozenset(),
            drift=tuple(drift),
            unreadable=(Diagnostic("SP015", f"{missing}; that cannot be planned yet", mark),) if missing else (),
            notes=tuple(notes),
        )


def _absent(program: EntryPoint, release: Release) -> str:
    if not release.has(program.since):
        return f"does not have {program.module} yet: it came with {releases()[order_of(program.since)]}"
    assert program.until is not None, "what never went is there"
    return f"no longer has {program.module}: the last with it was {releases()[order_of(program.until)]}"


def _instead(does: Stage, release: Release) -> str | None:
    """What does the same in that release."""
    there = [entry.module for entry in entry_points() if entry.does == does and entry.is_in(release)]
    return f"use {there[0]}" if there else None
