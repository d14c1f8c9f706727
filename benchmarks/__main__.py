"""Speed of whole processes, as ratios to importing numpy measured beside them; rows a second; processor time of `scale`.

usage: python -m benchmarks [--runs 15] [--rows 20000]
Runs of all commands alternate, so that a busy machine slows each of them; medians are printed beside the targets, with the
machine. Ends with 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CASES = Path(__file__).parents[1] / "model_configs" / "cases"
DEEPSEEK, LLAMA = CASES / "deepseek3-671b-9216-chips.yaml", CASES / "llama3.1-70b-8k.yaml"
COMMAND = (
    "python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3.1-70b per_device_batch_size=2 "
    "max_target_length=8192 remat_policy=full ici_fsdp_parallelism=-1"
)
PAIRED: dict[str, tuple[Sequence[str], float]] = {
    "recommend DeepSeek-V3, 9,216 chips": (("recommend", str(DEEPSEEK)), 3.0),
    "recommend Llama 3.1 70B, 64 chips": (("recommend", str(LLAMA)), 2.5),
    "check -- one command": (("check", "--accelerator", "tpu7x-128", "--", *COMMAND.split()), 2.0),
    "--help": (("--help",), 1.0),
}
"""Arguments and the largest ratio to importing numpy."""
IMPORTS = {
    "numpy": "import numpy",
    "libraries": "import numpy, typer, yaml, pydantic; pydantic.BaseModel, pydantic.TypeAdapter",
}
"""What is imported to compare with; `libraries` is the floor of a command that reads a case."""
ROWS_A_SECOND = 300.0
SCALE_CPU_S = 5.0
GROWTH = 1.1
"""How much larger a process may be for all rows than for a tenth of them."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One process."""

    wall_s: float
    cpu_s: float
    """User and system time."""
    peak_mib: float
    """Largest resident set."""


def run(*arguments: str) -> Ran:
    """A process of this interpreter, its output thrown away."""
    started = time.perf_counter()
    child = os.fork()
    if not child:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606
    _, _, usage = os.wait4(child, 0)
    return Ran(time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def shardplan(*arguments: str) -> Ran:
    """A process of shardplan."""
    return run("-m", "shardplan", *arguments)


def ratios(runs: int) -> Iterable[tuple[str, float, float, str]]:
    """What, measured, target and unit of the commands paired with importing numpy."""
    walls: dict[str, list[float]] = {name: [] for name in (*IMPORTS, *PAIRED)}
    for number in range(runs + 1):
        for name, found in walls.items():
            ran = run("-c", IMPORTS[name]) if name in IMPORTS else shardplan(*PAIRED[name][0])
            if number:  # the first warms the disk cache
                found.append(ran.wall_s)
    base = statistics.median(walls.pop("numpy"))
    floor = statistics.median(walls.pop("libraries"))
    print(
        f"importing numpy: {base * 1000:.0f} ms; it and the other libraries of a run: {floor / base:.2f} times as long"
    )
    for name, found in walls.items():
        yield name, statistics.median(found) / base, PAIRED[name][1], "x numpy"


def drawn_rows(count: int) -> Iterable[str]:
    """JSON lines of launches that fit, each another one in mesh, batch, remat or length."""
    meshes = ({"ici_fsdp_parallelism": -1}, {"ici_fsdp_parallelism": -1, "ici_tensor_parallelism": 2})
    choices = itertools.product(
        (("llama3.1-8b", "tpu7x-64"), ("mixtral-8x7b", "v5p-256")),
        (1, 2),
        ("full", "save_out_proj"),
        (2048, 4096),
        meshes,
    )
    for number, ((model, topology), batch, remat, length, mesh) in zip(
        range(count), itertools.cycle(choices), strict=False
    ):
        flags = {
            "model_name": model,
            "per_device_batch_size": batch,
            "remat_policy": remat,
            "max_target_length": length,
        }
        yield json.dumps({"id": str(number), "topology": topology, "slices": 1, "flags": flags | mesh}) + "\n"


def streamed(rows: int) -> Iterable[tuple[str, float, float, str]]:
    """Rows a second of `check --from`, and how its memory grows with them."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for count in (rows // 10, rows):
            path = Path(folder) / f"{count}.jsonl"
            path.write_text("".join(drawn_rows(count)), encoding="utf-8")
            found.append(shardplan("check", "--from", str(path), "-o", "json"))
        few, many = found
    print(f"check --from {rows:,} rows: {many.peak_mib:.0f} MiB, {rows // 10:,} rows: {few.peak_mib:.0f} MiB")
    yield f"check --from {rows:,} rows", rows / many.wall_s, -ROWS_A_SECOND, "rows/s"
    yield "memory of it, to that of a tenth", many.peak_mib / few.peak_mib, GROWTH, "x"


def main() -> int:
    """Print the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rows", type=int, default=20_000)
    options = parser.parse_args()
    print(
        f"{platform.platform()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}, {platform.python_version()}"
    )
    scale = shardplan("scale", str(DEEPSEEK), "--chips", "64..9216")
    rows = [
        *ratios(options.runs),
        ("scale DeepSeek-V3 to 9,216 chips", scale.cpu_s, SCALE_CPU_S, "CPU s"),
        *streamed(options.rows),
    ]
    missed = 0
    print(f"{'what':<38}{'median':>10}{'target':>10}")
    for what, value, target, unit in rows:
        is_met = value >= -target if target < 0 else value <= target
        missed += not is_met
        bound = f"{'>' if target < 0 else '<'} {abs(target):g}"
        print(f"{what:<38}{value:>10.3g}{bound:>10} {unit}{'' if is_met else '  MISSED'}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
