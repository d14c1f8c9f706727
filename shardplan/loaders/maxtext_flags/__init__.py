"""MaxText launches in: a command line, or flags by key, to a Case with its plan.

Differs from MaxText only where it says so in `Launch.notes`.
"""

from __future__ import annotations

from shardplan.loaders.maxtext_flags.command import Command, parse_command
from shardplan.loaders.maxtext_flags.resolve import Launch, resolve
from shardplan.loaders.maxtext_flags.settings import Settings, read_settings

__all__ = ["Command", "Launch", "Settings", "parse_command", "read_settings", "resolve"]
