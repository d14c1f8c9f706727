"""How far estimates go off on a chip nobody has measured: each measured chip left out in turn.

usage: python -m benchmarks.left_out

Prints the errors that constants `uncalibrated_band` in `rules/calibration/` rest on. Time: all runs of a chip are left out of the fit, and it
takes the median of what the other chips' own constants are. Memory: its compiler's traits are those of each other chip.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.calibrate import RUNS, Stack, all_constants, fit, free_constants
from benchmarks.compared import compiled_bytes, load_flags, read_corpus
from benchmarks.published import read_runs
from shardplan.cost.memory.total import memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from benchmarks.calibrate import Free
    from shardplan.spec import Case, Chip
    from shardplan.units import Floats

DATA = Path(__file__).parents[1] / "tests" / "data"
CORPUS = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl", "compiled_published.jsonl")
TIME_SHARE, MEMORY_SHARE = 0.9, 0.95
"""Share of a chip's errors that the band holds, as for the chips that are measured."""


def time_errors() -> dict[str, Floats]:
    """Relative errors of every chip's published runs with that chip left out of the fit."""
    stack, free = Stack.of(read_runs(RUNS)), free_constants()
    found = {}
    for chip in sorted(set(stack.chips)):
        mine = stack.chips == chip
        values = as_a_new_chip(chip, free, fit(stack, free, ~mine))
        found[chip] = (stack.predicted_s(free, values) / stack.measured_s - 1)[mine]
    return found


def as_a_new_chip(chip: str, free: Sequence[Free], values: Floats) -> Floats:
    """The values with those of one chip as they would be had it no runs: the others' median, or the common value."""
    guessed = values.copy()
    for i, one in enumerate(free):
        if one.chip == chip:
            others = [v for other, v in zip(free, values, strict=True) if other.name == one.name and other.chip != chip]
            guessed[i] = np.median(others) if others else all_constants()[one.name].value
    return guessed


def memory_errors(records: Sequence[Mapping[str, Any]]) -> dict[str, Floats]:
    """Relative errors of every chip's compiled points with the compiler's traits of each other chip."""
    loaded = [(*load_flags(record), compiled_bytes(record)) for record in records]
    chips: dict[str, Chip] = {case.cluster.chip.name: case.cluster.chip for case, _, _ in loaded}
    found: dict[str, list[float]] = {name: [] for name in chips}
    for case, candidates, compiled in loaded:
        mine = case.cluster.chip.name
        for name, other in chips.items():
            if name != mine:
                total = memory(_with_traits_of(case, other), candidates).total_bytes[0]
                found[mine].append(float(total) / compiled - 1)
    return {name: np.array(errors) for name, errors in found.items()}


def _with_traits_of(case: Case, other: Chip) -> Case:
    chip = case.cluster.chip.model_copy(update={"compiler": other.compiler})
    return case.model_copy(update={"cluster": case.cluster.model_copy(update={"chip": chip})})


def band(errors: Mapping[str, Floats], share: float) -> float:
    """The error that this share of a chip's stay within, for the worst chip."""
    return max(float(np.quantile(np.abs(of_chip), share)) for of_chip in errors.values())


def main() -> None:
    """Print both, chip by chip."""
    records = [record for name in CORPUS for record in read_corpus(DATA / name)]
    for what, errors, share in (
        ("time", time_errors(), TIME_SHARE),
        ("memory", memory_errors(records), MEMORY_SHARE),
    ):
        print(f"{what}: {share:.0%} of the worst chip's errors are below {band(errors, share):.3f}")
        for chip, found in errors.items():
            size = np.abs(found)
            print(
                f"  {chip:8} {len(size):4} errors, median {np.median(size):.3f}, {share:.0%} below "
                f"{np.quantile(size, share):.3f}, worst {size.max():.3f}, bias {np.median(found):+.3f}"
            )


if __name__ == "__main__":
    main()
