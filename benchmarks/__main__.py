"""Speed of whole processes: `recommend` on the largest case, `--help`; and candidates priced a second.

Prints the median of several runs with the targets beside them; ends with 1 if a target is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

CASE = Path(__file__).parents[1] / "model_configs" / "cases" / "deepseek3-671b-9216-chips.yaml"
RUNS = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """One command, several times."""

    wall_s: float
    """Median."""
    cpu_s: float
    """Median of user and system time."""
    peak_mib: float
    """Largest resident set."""
    output: str


def measure(arguments: list[str], runs: int = RUNS) -> Measured:
    """Whole processes of shardplan, after one that warms the disk cache."""
    walls, cpus, peaks, output = [], [], [], ""
    for run in range(runs + 1):
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "shardplan", *arguments], stdout=subprocess.PIPE, text=True)
        output = process.communicate()[0]
        wall = time.perf_counter() - started
        if run:
            walls.append(wall)
    for _ in range(runs):
        child = os.fork()
        if not child:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.execv(sys.executable, [sys.executable, "-m", "shardplan", *arguments])  # noqa: S606
        _, _, usage = os.wait4(child, 0)
        cpus.append(usage.ru_utime + usage.ru_stime)
        peaks.append(usage.ru_maxrss / 1024)
    return Measured(statistics.median(walls), statistics.median(cpus), max(peaks), output)


def main() -> int:
    """Print the table; 1 if a target is missed."""
    helped = measure(["--help"])
    largest = measure(["recommend", str(CASE), "-o", "json"])
    plan = json.loads(largest.output)
    rows = [
        ("--help, wall", helped.wall_s, 0.25, "s"),
        ("recommend, wall", largest.wall_s, 0.5, "s"),
        ("recommend, peak memory", largest.peak_mib, 300.0, "MiB"),
    ]
    print(f"{'what':<28}{'median':>10}{'target':>10}")
    for what, value, target, unit in rows:
        print(f"{what:<28}{value:>10.3g}{target:>10.3g} {unit}{'' if value < target else '  MISSED'}")
    print(f"recommend, CPU time: {largest.cpu_s:.2f} s; --help, CPU time: {helped.cpu_s:.2f} s")
    print(f"plans considered: {plan['considered']:,}; estimates made: {plan['priced']:,}")
    print(f"estimates a second of the whole process: {plan['priced'] / largest.wall_s:,.0f}")
    return int(any(value >= target for _, value, target, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
