"""The command line. Each module beside this one is one command: parse, call, render, exit code; no logic.

Heavy imports (pydantic, numpy, rich, yaml) happen inside the commands, so that `--help` and completion stay quick.
"""

from __future__ import annotations

from shardplan.cli.run import main

__all__ = ["main"]
