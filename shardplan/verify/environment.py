"""The Python that has MaxText and libtpu: found, and asked for its versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from shardplan.errors import Diagnostic, InputError

VARIABLE = "SHARDPLAN_MAXTEXT_PYTHON"
NEEDED = ("maxtext", "jax", "libtpu")
_HINT = (
    "`make maxtext-env` builds one (Python 3.12, about two minutes); then pass --python .venv-maxtext/bin/python "
    f"or set {VARIABLE}"
)
_ASK = (
    "import importlib.metadata as m, json\n"
    "def version(name):\n"
    "    try: return m.version(name)\n"
    "    except m.PackageNotFoundError: return None\n"
    f"print(json.dumps({{name: version(name) for name in {NEEDED!r}}}))"
)


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python and the versions of what it compiles with."""

    python: str
    versions: dict[str, str]


def find_environment(python: str | None = None) -> Environment:
    """The Python given, or the variable's, or this one; InputError with the way to build one if it lacks MaxText."""
    chosen = python or os.environ.get(VARIABLE) or sys.executable
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Python, named by them
            [chosen, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True
        )
        versions = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, json.JSONDecodeError) as error:
        message = f"{chosen} cannot be run as a Python ({type(error).__name__})"
        raise InputError([Diagnostic("SP016", message, None, _HINT)]) from error
    if missing := [name for name in NEEDED if not versions.get(name)]:
        message = f"{Path(chosen).name} ({chosen}) has no {', '.join(missing)}: verify compiles with the real MaxText"
        raise InputError([Diagnostic("SP016", message, None, _HINT)])
    return Environment(chosen, versions)
