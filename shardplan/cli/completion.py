"""Completion of names in a shell; looks at file names only, so that it is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan import data

if TYPE_CHECKING:
    from pathlib import Path


def chip_names(incomplete: str) -> list[str]:
    """Chips that begin so."""
    return _beginning(data.rules_folder() / "hardware", incomplete)


def model_names(incomplete: str) -> list[str]:
    """Model presets that begin so."""
    return _beginning(data.model_configs_folder(), incomplete)


def _beginning(folder: Path, incomplete: str) -> list[str]:
    return [name for name in data.names(folder) if name.startswith(incomplete.lower())]
