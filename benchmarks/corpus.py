"""Compiles the corpus of configurations again and says where the compiler's answer is no longer the committed one.

usage: python -m benchmarks.corpus --python PATH [--only TEXT] [--add POINTS.jsonl]

`--add` compiles new points (lines of `{"id", "topology", "slices", "flags"}`) and prints them as corpus lines instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardplan.verify.environment import find_environment
from shardplan.verify.runner import Compiled, compile_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[1] / "tests" / "data"
FILES = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl")


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a corpus file that hold a configuration."""
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if "flags" in record:
            yield record


def answer(record: dict[str, Any], compiled: Compiled, versions: dict[str, str]) -> dict[str, Any]:
    """A corpus line: the configuration with the compiler's answer."""
    line: dict[str, Any] = {key: record[key] for key in ("id", "topology", "slices", "flags") if key in record}
    line |= {"mesh": compiled.mesh, "versions": versions, "seconds": compiled.seconds}
    if compiled.arguments_bytes is not None:
        sizes = {"argument": compiled.arguments_bytes, "temp": compiled.temp_bytes, "peak_memory": compiled.peak_bytes}
        line["memory"] = {
            f"{name}_in_bytes" if "_" in name else f"{name}_size_in_bytes": v for name, v in sizes.items()
        }
    if compiled.out_of_memory:
        line["oom"] = {"needed_bytes": compiled.needed_bytes, "limit_bytes": compiled.limit_bytes}
    if compiled.error:
        line["error"] = compiled.error
    return line


def main() -> int:
    """Compile; 1 if an answer has changed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--python", required=True)
    options.add_argument("--only", default="", help="compile ids that contain this text")
    options.add_argument("--add", type=Path, help="compile these points and print them as corpus lines")
    chosen = options.parse_args()
    environment = find_environment(chosen.python)
    changed = 0
    for path in [chosen.add] if chosen.add else [DATA / name for name in FILES]:
        for record in records(path):
            if chosen.only not in record["id"]:
                continue
            slices = record.get("slices") or 1
            compiled = compile_flags(environment, record["flags"], record["topology"], slices=slices)
            if chosen.add:
                print(json.dumps(answer(record, compiled, environment.versions)), flush=True)
                continue
            memory = record.get("memory") or {}
            before = (memory.get("argument_size_in_bytes"), memory.get("temp_size_in_bytes"))
            after = (compiled.arguments_bytes, compiled.temp_bytes)
            same = before == after and bool(record.get("oom")) == compiled.out_of_memory
            changed += not same
            print(f"{'same' if same else 'CHANGED'}  {record['id']}  {before} -> {after}", flush=True)
    return int(changed > 0)


if __name__ == "__main__":
    sys.exit(main())
