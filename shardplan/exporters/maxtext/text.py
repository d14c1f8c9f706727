"""MaxText keys as text: one `key=value` a line, a yml, or a whole command line for a shell."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from shardplan.maxtext.releases import entry_points, release_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardplan.exporters.maxtext.keys import Value

CONFIGURATION = "MaxText/configs/base.yml"
"""Where releases that must be told find their defaults."""
TRIAL = ("dataset_type=synthetic", "enable_checkpointing=false")
"""What a trial of a plan needs beside it; a real run gives its own."""


def as_flags(flags: Mapping[str, Value]) -> str:
    """One `key=value` a line, quoted for a shell where it must be."""
    return "".join(f"{shlex.quote(f'{key}={written(value)}')}\n" for key, value in flags.items())


def as_yml(flags: Mapping[str, Value]) -> str:
    """A configuration file to pass to MaxText in place of its base.yml, which it extends."""
    lines = [f"{key}: {_yml(value)}\n" for key, value in flags.items()]
    return "base_config: base.yml\n" + "".join(lines)


def launcher(release: str | None = None) -> list[str]:
    """The words that start training with a release, by default the newest, up to the flags."""
    this = release_of(release).release
    module = next(
        entry.module
        for entry in reversed(entry_points())
        if entry.does == "train" and entry.module.endswith(".train") and entry.is_in(this)
    )
    return ["python3", "-m", module, *([CONFIGURATION] if this.needs_configuration else [])]


def as_command(
    flags: Mapping[str, Value], *, run_name: str, libtpu_init_args: Sequence[str] = (), maxtext: str | None = None
) -> str:
    """The launch for a shell, one flag a line; the output folder is left to the variable BASE_OUTPUT_DIRECTORY."""
    environment = f"LIBTPU_INIT_ARGS={shlex.quote(' '.join(libtpu_init_args))} " if libtpu_init_args else ""
    words = [
        f"{environment}{' '.join(launcher(maxtext))}",
        shlex.quote(f"run_name={slug(run_name)}"),
        'base_output_directory="${BASE_OUTPUT_DIRECTORY:?}"',
        *TRIAL,
        *(shlex.quote(f"{key}={written(value)}") for key, value in flags.items()),
    ]
    return " \\\n  ".join(words) + "\n"


def slug(name: str) -> str:
    """A name that is safe in paths, labels and shells: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-") or "run"


def written(value: Value) -> str:
    """A value as MaxText reads it back: booleans in lower case, floats without loss."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _yml(value: Value) -> str:
    text = written(value)
    plain = not isinstance(value, str) or re.fullmatch(r"[a-z_][a-z0-9_.-]*|\[[a-z,]*\]", text)
    # Guard: a bare word such as `none` or `on` is no text in YAML.
    risky = text in {"none", "null", "true", "false", "yes", "no", "on", "off"} and isinstance(value, str)
    return text if plain and not risky else "'" + text.replace("'", "''") + "'"
