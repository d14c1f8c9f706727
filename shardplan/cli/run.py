"""Running the command line: every way it can end becomes one exit code and, where needed, a message on stderr."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from shardplan.cli.app import app
from shardplan.errors import ExitCode, ShardplanError

if TYPE_CHECKING:
    from collections.abc import Sequence

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What typer raises for unknown commands and options, missing arguments and bad values."""

DEBUG = "SHARDPLAN_DEBUG"
"""Environment variable that lets the traceback of a bug through."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code of one run; `arguments` are those after the program's name, by default the process's own."""
    ours, command_line = split_command_line(list(sys.argv[1:] if arguments is None else arguments))
    try:
        code = app(ours, prog_name="shardplan", standalone_mode=False, obj={"command_line": command_line})
    except UsageError as error:
        error.show()  # type: ignore[attr-defined]  # a method of typer's own base class, which it does not export
        code = ExitCode.CANNOT_RUN
    except ShardplanError as error:
        from shardplan.cli.diagnostics import print_diagnostics

        print_diagnostics(error.diagnostics)
        code = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except SystemExit as end:
        # Guard: typer ends with 1 when the reader of its help has gone; 1 is our "no".
        code = ExitCode.YES if isinstance(end.__context__, BrokenPipeError) else end.code
    except Exception as error:
        if os.environ.get(DEBUG, "") not in {"", "0"}:
            raise
        from shardplan.cli.diagnostics import print_bug

        print_bug(error)
        code = ExitCode.BUG
    return int(code or 0)


def split_command_line(arguments: list[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """Our own arguments, and what follows `--` after `check`: a launch command of MaxText, verbatim, or None."""
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command != "check" or "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])
