"""Buffers alive at each moment of a train step of small models, as `tests/data/alive.json` lists them for the tests.

usage: python -m benchmarks.alive [--write]

A number is how many of a buffer are alive where its formula counts them (`c`), else its MiB on a device. Prints what differs
from the file; after a deliberate change of the memory model `--write` renews it, and its diff says what moved.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan.cost.memory.total import memory
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import Architecture, Case, Optimizer, Runtime, Split, Workload
from shardplan.splits.enumeration import split_rows
from shardplan.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.cost.memory.setting import Part

PATH = Path(__file__).parents[1] / "tests" / "data" / "alive.json"

Alive = dict[str, dict[str, float]]


def read() -> dict[str, Any]:
    """The cases of the file by name: chip, topology, model, split and what is alive."""
    cases: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return cases


def alive(entry: dict[str, Any]) -> Alive:
    """Buffers of each moment, by name; those of the layers' whole backward pass are under `shared by` its first moment."""
    case = Case(
        architecture=Architecture.model_validate({"model_width": 2048, "vocab_size": 32768, **entry["model"]}),
        workload=Workload(sequence_length=4096, global_batch=96, optimizer=Optimizer(**entry.get("optimizer", {}))),
        cluster=resolve_cluster(entry["chip"], topology=entry["topology"], slices=entry.get("slices", 1)),
        runtime=Runtime(**entry.get("runtime", {})),
    )
    found: Alive = {}
    shared: Any = None
    for moment in memory(case, split_rows(case, Split(**entry["split"]))).moments:
        if moment.shared.parts and moment.shared.parts is not shared:
            shared = moment.shared.parts
            found[f"shared by {moment.name}"] = _counted(shared)
        found[moment.name] = _counted(moment.own) | {"holes": float(np.max(moment.holes))}
    return found


def _counted(parts: Iterable[Part]) -> dict[str, float]:
    total: dict[str, float] = {}
    for _, term in parts:
        size = float(np.max(term.value)) or float(np.min(term.value))
        if size:
            name = term.name.removesuffix("_bytes")
            number = float(np.max(term.letters["c"])) if "c" in term.letters else size / MIB
            total[name] = total.get(name, 0.0) + float(f"{number:.9g}")
    return total


def main() -> None:
    """Print what differs from the file, or renew it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true")
    chosen, cases = options.parse_args(), read()
    for name, entry in cases.items():
        now = alive(entry)
        for moment in now.keys() | entry.get("alive", {}).keys():
            if now.get(moment) != (before := entry.get("alive", {}).get(moment)):
                print(f"{name}, {moment}: {before} is now {now.get(moment)}")
        entry["alive"] = now
    if chosen.write:
        PATH.write_text(_text(cases), encoding="utf-8")


def _text(cases: dict[str, Any]) -> str:
    """JSON with one line a field, and one a moment."""
    lines = ["{"]
    for name, entry in cases.items():
        lines.append(f" {json.dumps(name)}: {{")
        lines += [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in entry.items() if key != "alive"]
        moments = [f"   {json.dumps(moment)}: {json.dumps(found)}" for moment, found in entry["alive"].items()]
        lines += ['  "alive": {', ",\n".join(moments), "  }", " },"]
    lines[-1] = " }"
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    main()
