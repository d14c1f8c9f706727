"""Files to documents: every way a file can disappoint becomes an InputError that names it."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from shardplan.errors import Mark, suggest
from shardplan.source.document import Document, fail
from shardplan.source.json_text import parse_json
from shardplan.source.yaml_text import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

MAX_FILE_BYTES: Final = 4 * 2**20
"""A YAML or JSON file beyond this is refused, and so is a line of JSON lines."""
CHUNK_BYTES: Final = 2**16
"""Lines are read in pieces of this size, or of what there is."""
STDIN: Final = "-"
"""Stands for standard input where a file is asked for."""


def read_document(path: str | Path) -> Document:
    """The document of a file: JSON if its name ends in .json, else YAML."""
    text = read_text(path)
    return parse_json(text, str(path)) if str(path).lower().endswith(".json") else parse_yaml(text, str(path))


def read_text(path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> str:
    """The UTF-8 text of a file; raises InputError if there is none, or too much of it: never a part of it."""
    name = str(path)
    with _reasons(name), Path(path).open("rb") as file:
        raw = file.read(max_bytes + 1)
    if len(raw) > max_bytes:
        fail("SP003", f"larger than {max_bytes / 2**20:g} MiB", Mark(name), "hand it over in parts")
    return decode(raw, name)


def line_batches(path: str, max_line_bytes: int = MAX_FILE_BYTES) -> Iterator[list[tuple[int, bytes]]]:
    """The lines of a file with their numbers, as many at once as there are; `-` reads standard input, as it comes.

    Memory does not grow with the file. Raises InputError where it cannot be read, and at a line that is too long.
    """
    with _opened(path) as (file, name):
        number, rest = 1, b""
        while chunk := file.read1(CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > max_line_bytes:
                fail("SP003", f"a line larger than {max_line_bytes / 2**20:g} MiB", Mark(name, number + len(lines)))
            yield list(enumerate(lines, number))
            number += len(lines)
        yield [(number, rest)]


@contextmanager
def _opened(path: str) -> Iterator[tuple[BufferedReader, str]]:
    """A file, or standard input for `-`, to read bytes from, and its name in messages."""
    if path != STDIN:
        with _reasons(path), Path(path).open("rb") as file:
            yield file, path
    elif sys.stdin is None:
        fail("SP001", "it is closed", Mark("stdin"))
    else:
        yield cast("BufferedReader", sys.stdin.buffer), "stdin"


@contextmanager
def _reasons(path: str) -> Iterator[None]:
    """What the system says of a file that cannot be read, as an InputError."""
    try:
        yield
    except FileNotFoundError:
        fail("SP001", "no such file", Mark(path), _similar(Path(path)))
    except IsADirectoryError:
        fail("SP001", "is a folder, not a file", Mark(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        fail("SP001", f"cannot be read: {reason}", Mark(path[:200]))


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
