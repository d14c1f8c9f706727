"""Prints what the XLA TPU compiler keeps in memory at the worst moment of a train step, from its own buffer assignment.

usage: python -m benchmarks.buffers FOLDER [--top 40]                                a dump that is there already
       python -m benchmarks.buffers FOLDER --python PATH --points POINTS.jsonl ID    dump it first; PATH has MaxText and libtpu

`XLA_FLAGS=--xla_dump_to=FOLDER --xla_dump_hlo_as_text` works with the compile-only client: assignment, live ranges and the
final HLO are written before code generation, so dumping ends there, after a minute instead of five. Sizes are those of the
full compile to the byte on the points that were compiled both ways.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardplan.verify.runner import ORACLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ALLOCATION: Final = re.compile(r"^allocation \d+: size (\d+)(?:, color (\d+))?(.*)$")
VALUE: Final = re.compile(r"^ value: <\d+ (.+?)( \(phi\))? @\d+> \(size=(\d+),offset=(\d+)\): (.*)$")
LIVE: Final = re.compile(r"^    (.+):(\d+)-(\d+)$")
NAMED: Final = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = .*op_name=\"([^\"]*)\"")
SHAPE: Final = re.compile(r"(\w+)\[([\d,]*)\]")
NOISE: Final = re.compile(r"jit\(train_step\)/|closed_call/|rematted_computation/|while/body/|checkpoint/")
HOST_COLOR: Final = 5
"""What the compiler calls the host's memory in its assignment (VMEM is 1)."""
LAST_DUMP: Final = "after_optimizations_after_buffer_assignment"
AFTER_CPU_S: Final = 8.0
"""CPU seconds the compiler may still take after the last dump, to say that it is out of memory."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its place in the heap and the steps of the schedule during which it lives."""

    name: str
    is_phi: bool
    size: int
    offset: int
    shape: str
    first: int
    last: int

    @property
    def slot(self) -> tuple[int, int]:
        """What values that are updated in place share."""
        return self.offset, self.size


@dataclass(frozen=True, slots=True)
class Assignment:
    """The heap of temporaries, and how much there is of every kind of allocation. Bytes on a device."""

    arguments_bytes: int
    temp_bytes: int
    host_arguments_bytes: int
    host_temp_bytes: int
    values: tuple[Value, ...]
    """Of the heap of temporaries."""
    op_names: Mapping[str, str]
    """What JAX calls an instruction."""


def dump(python: str, record: Mapping[str, Any], folder: Path) -> None:
    """Have the compiler write its assignment of a configuration into a folder, and end it before it generates code."""
    request = {"flags": record["flags"], "topology": record["topology"], "slices": record.get("slices") or 1}
    flags = f"--xla_dump_to={folder.absolute()} --xla_dump_hlo_as_text"
    process = subprocess.Popen(
        [python, str(ORACLE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XLA_FLAGS": flags},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    written_s = None
    while process.poll() is None:
        time.sleep(1)
        if any(folder.glob(f"*train_step*{LAST_DUMP}.txt")):
            used_s = _cpu_s(process.pid)
            written_s = used_s if written_s is None else written_s
            if used_s - written_s > AFTER_CPU_S:
                process.kill()
    process.wait()


def _cpu_s(pid: int) -> float:
    """CPU seconds a process has used; infinity once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return float("inf")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_dump(folder: Path) -> Assignment:
    """The assignment in a dump of `dump`, or of any run with the same flags; files may be compressed with gzip."""
    totals: dict[tuple[str, bool], int] = defaultdict(int)
    found: list[tuple[str, bool, int, int, str]] = []
    in_heap = False
    for line in _lines(folder, "after_optimizations-buffer-assignment"):
        if allocation := ALLOCATION.match(line):
            size, color, rest = int(allocation[1]), int(allocation[2] or 0), allocation[3]
            kind = "temp" if "preallocated-temp" in rest else "argument" if "parameter" in rest else "other"
            in_heap = kind == "temp" and color == 0
            if color in {0, HOST_COLOR}:
                totals[kind, color == HOST_COLOR] += size
        elif in_heap and (value := VALUE.match(line)):
            found.append((value[1], bool(value[2]), int(value[3]), int(value[4]), value[5]))
    ranges = {
        m[1]: (int(m[2]), int(m[3]))
        for line in _lines(folder, "after_optimizations-live-range")
        if (m := LIVE.match(line))
    }
    values = []
    for name, is_phi, size, offset, shape in found:
        key = name if name.endswith("}") else name + "{}"
        if key in ranges:
            values.append(Value(name, is_phi, size, offset, shape, *ranges[key]))
    names = {m[1]: m[2] for line in _lines(folder, "after_optimizations") if (m := NAMED.match(line))}
    host = (totals["argument", True], totals["temp", True])
    return Assignment(totals["argument", False], totals["temp", False], *host, tuple(values), names)


def _lines(folder: Path, kind: str) -> Iterator[str]:
    """Lines of the dump of the train step of a kind."""
    (path,) = (p for p in folder.iterdir() if re.search(rf"train_step.*\.{kind}\.txt(\.gz)?$", p.name))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            yield line.rstrip("\n")


def peak(values: Iterable[Value]) -> tuple[int, int]:
    """The step of the schedule with the most bytes of heap in use, and those bytes."""
    changes: dict[int, list[tuple[tuple[int, int], int]]] = defaultdict(list)
    for value in values:
        changes[value.first].append((value.slot, 1))
        changes[value.last + 1].append((value.slot, -1))
    users: dict[tuple[int, int], int] = defaultdict(int)
    now, best, when = 0, 0, 0
    for step in sorted(changes):
        for slot, change in changes[step]:
            before = users[slot]
            users[slot] += change
            now += slot[1] * ((users[slot] > 0) - (before > 0))
        if now > best:
            best, when = now, step
    return when, best


def alive(assignment: Assignment, step: int) -> list[tuple[int, str, str]]:
    """Slots in use at a step, largest first: bytes, shape, and what JAX calls what is in it."""
    slots: dict[tuple[int, int], list[Value]] = defaultdict(list)
    for value in assignment.values:
        slots[value.slot].append(value)
    found = []
    for (_, size), values in slots.items():
        here = [value for value in values if value.first <= step <= value.last]
        if here:
            shape = next((v.shape for v in here if not v.is_phi), here[0].shape)
            found.append((size, shape, _origin(assignment, values, step)))
    return sorted(found, reverse=True)


def _origin(assignment: Assignment, values: list[Value], step: int) -> str:
    """The operation that last wrote into a slot before a step, or the first to do so after it (a loop's phi)."""
    producers = [value for value in values if assignment.op_names.get(_instruction(value))]
    before = [value for value in producers if value.first <= step <= value.last] or [
        value for value in producers if value.first <= step
    ]
    if not producers:
        return values[0].name
    chosen = max(before, key=lambda value: value.first) if before else min(producers, key=lambda value: value.first)
    return f"{NOISE.sub('', assignment.op_names[_instruction(chosen)])}  [{chosen.name}]"


def _instruction(value: Value) -> str:
    return value.name.partition("{")[0]


def shape_key(shape: str) -> str:
    """A shape without its layout, dimensions of one left out and the others in order of size, so that transposes agree."""
    found = SHAPE.match(shape)
    if not found:
        return shape
    dims = sorted((int(d) for d in found[2].split(",") if d and d != "1"), reverse=True)
    return f"{found[1]}[{','.join(map(str, dims))}]"


def page(assignment: Assignment, top: int, *, each: bool = False) -> Iterator[str]:
    """The report, in lines: buffers of one shape together, or each apart."""
    step, used = peak(assignment.values)
    yield (
        f"arguments {assignment.arguments_bytes:,} + temporaries {assignment.temp_bytes:,} bytes; on the host "
        f"{assignment.host_arguments_bytes:,} + {assignment.host_temp_bytes:,}"
    )
    yield f"at the peak (step {step}) {used:,} bytes are in use; {assignment.temp_bytes - used:+,} are holes in the heap"
    groups: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, (size, shape, origin) in enumerate(alive(assignment, step)):
        groups[f"{shape} #{number}" if each else shape_key(shape)].append((size, origin))
    total = 0
    for shape, members in sorted(groups.items(), key=lambda item: -sum(size for size, _ in item[1]))[:top]:
        size = sum(size for size, _ in members)
        total += size
        origins = Counter(re.sub(r"  \[.*|[.\d]+$", "", origin)[-60:] for _, origin in members)
        what = "; ".join(f"{count} {origin}" for origin, count in origins.most_common(4))
        yield f"{size / 2**20:9.0f} MiB {total / 2**30:6.2f} GiB {len(members):3} x {shape[:60]:30} {what}"


def main() -> int:
    """Dump if asked, and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--top", type=int, default=40)
    options.add_argument("--each", action="store_true", help="every buffer on a line of its own")
    options.add_argument("--python", help="compile with this Python first")
    options.add_argument("--points", nargs=2, metavar=("POINTS", "ID"), help="the configuration to compile")
    chosen = options.parse_args()
    if chosen.points:
        path, name = chosen.points
        record = next(r for line in Path(path).read_text().splitlines() if (r := json.loads(line)).get("id") == name)
        dump(chosen.python, record, chosen.folder)
    print("\n".join(page(read_dump(chosen.folder), chosen.top, each=chosen.each)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
