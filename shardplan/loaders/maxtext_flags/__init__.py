"""MaxText launches in: a command line, or flags by key, to a Case with its plan.

Differs from MaxText only where it says so in `Launch.notes`.
"""

from __future__ import annotations

from shardplan.loaders.maxtext_flags.command import Command, parse_command
from shardplan.loaders.maxtext_flags.resolve import Launch, resolve
from shardplan.loaders.maxtext_flags.settings import Base, Settings, read_settings
from shardplan.loaders.maxtext_flags.start import Start

__all__ = ["Base", "Command", "Launch", "Settings", "Start", "parse_command", "read_settings", "resolve"]
