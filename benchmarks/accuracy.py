"""Prints predicted beside compiled memory: every point, errors by dimension, and changes of one setting that are missed.

usage: python -m benchmarks.accuracy [--markdown] [CORPUS.jsonl ...]

`--markdown` prints the table of errors by dimension only, as the documentation shows it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.compared import DIMENSIONS, Errors, by_dimension, changes, compare, read_corpus
from shardplan.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.compared import Compared

DATA = Path(__file__).parents[1] / "tests" / "data"
FILES = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl")


def load(paths: Sequence[Path]) -> list[Compared]:
    """All points of some corpora."""
    return [compare(record) for path in paths for record in read_corpus(path)]


def point_lines(points: Sequence[Compared]) -> Iterator[str]:
    """One line a configuration: compiled, predicted, error, verdict, worst moment."""
    for point in sorted(points, key=lambda p: p.id):
        compiled = "refused" if point.refused else "compiled"
        yield (
            f"{point.id:48} {compiled:8} {format_bytes(point.compiled_bytes):>10} "
            f"predicted {format_bytes(point.total_bytes):>10} {point.error:+7.1%} {point.verdict:12} {point.moment}"
        )


def dimension_rows(points: Sequence[Compared]) -> Iterator[tuple[str, str, Errors]]:
    """Errors of all points, then of every group of every dimension."""
    yield "all", "", Errors.of(points)
    for name in DIMENSIONS:
        for label, errors in by_dimension(points, name).items():
            yield name, label, errors


def markdown_lines(points: Sequence[Compared]) -> Iterator[str]:
    """The same as a Markdown table."""
    yield "| dimension | group | points | median | 95th percentile | worst | bias |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name, label, e in dimension_rows(points):
        yield f"| {name} | {label} | {e.count} | {e.median:.1%} | {e.p95:.1%} | {e.worst:.1%} | {e.bias:+.1%} |"


def change_lines(points: Sequence[Compared]) -> Iterator[str]:
    """How many changes of one setting are right, and those that are not."""
    found = list(changes(points))
    yield f"{sum(change.met for change in found)} of {len(found)} changes of one setting are right; the others:"
    for change in found:
        if not change.met:
            yield (
                f"  {change.factor}: {change.first.id} to {change.second.id}: "
                f"compiled {change.compiled_bytes / 2**30:+.2f} GiB, off by {change.miss_bytes / 2**30:+.2f} GiB"
            )


def main() -> int:
    """Print the report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("corpora", nargs="*", type=Path, default=[DATA / name for name in FILES])
    options.add_argument("--markdown", action="store_true")
    chosen = options.parse_args()
    points = load(chosen.corpora)
    if chosen.markdown:
        print("\n".join(markdown_lines(points)))
        return 0
    print("\n".join(point_lines(points)))
    print()
    for name, label, e in dimension_rows(points):
        print(
            f"{name:10} {label[:34]:34} {e.count:4} points  median {e.median:5.1%}  p95 {e.p95:5.1%}  bias {e.bias:+5.1%}"
        )
    print()
    print("\n".join(change_lines(points)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
