"""Generated parts of the accuracy page about where the search ranks published plans, for cog.

The rows are those `make ranks` wrote to `docs/data/ranks.json`: a minute of searching. The notes beside them are written by hand.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from accuracy_blocks import table

from benchmarks import ranks
from shardplan.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.ranks import PlanRow, RankRow

NOTES = Path(__file__).parent / "data" / "rank_notes.json"
SHOWN = 0.02
"""Parts of the step that two plans differ in by less than this share of it are not worth a word."""


@cache
def rank_rows() -> tuple[RankRow, ...]:
    """The rows `make ranks` wrote last."""
    return tuple(ranks.read_rows())


def rank_table() -> str:
    """Where the search puts each published mesh, and what its own first plan would gain."""
    rows = [
        (
            f"`{row.run}`", row.published.strategy, row.rank or "-", row.first.strategy if row.first else "-",
            f"{row.measured_s:.2f}", f"{row.published.step_time_s:.2f}", f"{row.first.step_time_s:.2f}" if row.first else "-",
            f"{row.gain:+.1%}" if row.first else "-",
        )
        for row in rank_rows()
    ]  # fmt: skip
    header = (
        "run", "published mesh", "rank", "our rank 1", "measured s", "published plan, predicted s",
        "our rank 1, predicted s", "gain",
    )  # fmt: skip
    return table(header, rows, numbers=4)


def rank_summary() -> str:
    """How many published plans rank first or high."""
    return f"\n{ranks.summary(rank_rows())}.\n"


def rank_reasons() -> str:
    """Every published plan below rank 3 and every gain above a tenth: what the model sees, and who is probably wrong."""
    rows = [
        (f"`{row.run}`", f"{row.rank or 'not listed'}, {row.gain:+.0%}", _seen(row), rank_notes().get(key(row), ""))
        for row in rank_rows()
        if row.needs_reason
    ]
    return table(("run", "rank, gain", "what the model sees", "why, and who is probably wrong"), rows)


@cache
def rank_notes() -> dict[str, str]:
    """Written by hand, by configuration."""
    notes: dict[str, str] = json.loads(NOTES.read_text(encoding="utf-8"))
    return notes


def key(row: RankRow) -> str:
    """A configuration, whatever its revision and launcher."""
    return row.run.partition("@")[0].removesuffix("/xpk")


def _seen(row: RankRow) -> str:
    """Memory of the published plan where it is not called fitting, and the parts of the step that differ."""
    seen = [f"published plan {_memory(row.published)}"] if row.published.verdict != "fits" else []
    if row.published.rules:
        seen.append(f"refused by {', '.join(row.published.rules)}")
    if row.first:
        seen += _differences(row.published, row.first)
    return "; ".join(seen)


def _memory(plan: PlanRow) -> str:
    words = {"at_risk": "at risk", "does_not_fit": "too large"}
    return f"{words[plan.verdict]}: {plan.needed_bytes / GIB:.1f} of {plan.limit_bytes / GIB:.1f} GiB"


def _differences(published: PlanRow, first: PlanRow) -> Iterator[str]:
    """Parts of the step that ours changes most, largest first."""
    change = {part: first.parts_s[part] - seconds for part, seconds in published.parts_s.items()}
    for part, seconds in sorted(change.items(), key=lambda item: -abs(item[1])):
        if abs(seconds) > SHOWN * published.step_time_s:
            yield f"{part.removesuffix('_s').replace('_', ' ')} {published.parts_s[part]:.2f} to {first.parts_s[part]:.2f} s"
