"""Files to documents: every way a file can disappoint becomes an InputError that names it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from shardplan.errors import Mark, suggest
from shardplan.source.document import Document, fail
from shardplan.source.json_text import parse_json
from shardplan.source.yaml_text import parse_yaml

MAX_FILE_BYTES: Final = 4 * 2**20
"""A YAML or JSON file beyond this is refused."""


def read_document(path: str | Path) -> Document:
    """The document of a file: JSON if its name ends in .json, else YAML."""
    text = read_text(path)
    return parse_json(text, str(path)) if str(path).lower().endswith(".json") else parse_yaml(text, str(path))


def read_text(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The UTF-8 text of a file; raises InputError if there is none, or too much of it."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            raw = file.read(max_bytes + 1)
    except FileNotFoundError:
        fail("SP001", "no such file", Mark(name), _similar(Path(path)))
    except IsADirectoryError:
        fail("SP001", "is a folder, not a file", Mark(name))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        fail("SP001", f"cannot be read: {reason}", Mark(name[:200]))
    return _whole(raw, name, max_bytes)


def read_stdin(max_bytes: int = MAX_FILE_BYTES) -> str:
    """The UTF-8 text of standard input to its end; raises InputError if it is closed, or holds too much: never a part of it."""
    if sys.stdin is None:
        fail("SP001", "it is closed", Mark("stdin"))
    return _whole(sys.stdin.buffer.read(max_bytes + 1), "stdin", max_bytes)


def _whole(raw: bytes, name: str, max_bytes: int) -> str:
    if len(raw) > max_bytes:
        fail("SP003", f"larger than {max_bytes / 2**20:g} MiB", Mark(name), "hand it over in parts")
    return decode(raw, name)


def decode(raw: bytes, name: str) -> str:
    """Bytes as UTF-8 text; raises InputError at the first byte that is none."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        hint = "is this a binary file?" if b"\0" in raw else "save it as UTF-8"
        fail("SP002", f"byte 0x{raw[error.start]:02X} is not UTF-8", Mark(name, line, column), hint)


def _similar(path: Path) -> str | None:
    """A file of the same folder, or else a folder of the path, that the user may have meant."""
    try:
        if not path.parent.is_dir():
            return f"there is no folder {path.parent}"
        siblings = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        return None
    return suggest(path.name, siblings)
