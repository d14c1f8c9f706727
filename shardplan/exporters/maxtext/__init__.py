"""MaxText configuration out: keys of one split, and their renderings."""

from __future__ import annotations

from shardplan.exporters.maxtext.flags import Value, flags, flags_if_any
from shardplan.exporters.maxtext.model import model_flags
from shardplan.exporters.maxtext.text import as_command, as_flags, as_yml, written

__all__ = ["Value", "as_command", "as_flags", "as_yml", "flags", "flags_if_any", "model_flags", "written"]
