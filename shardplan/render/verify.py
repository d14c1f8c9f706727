"""The page of `verify`: predicted beside compiled, one plan a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.plan.choice import OWN_RANK, plan_name
from shardplan.render.page import Column, Grid, Lines, Page, Text, texts
from shardplan.units import format_bytes, format_fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.plan import VerifyOut

COLUMNS = (
    Column("rank", right=True),
    Column("mesh"),
    Column("remat", under="mesh"),
    Column("arguments predicted", right=True),
    Column("compiled", right=True, under="arguments predicted"),
    Column("temp predicted", right=True),
    Column("compiled temp", right=True, under="temp predicted"),
    Column("predicted / compiled", right=True),
    Column("the compiler says"),
)


def verify_page(results: Sequence[VerifyOut]) -> Page:
    """Predictions beside verdicts, and what was compiled with."""
    if not results:
        return Page("nothing fits, so there is no plan to verify", ())
    versions = ", ".join(f"{name} {version}" for name, version in results[0].versions.items())
    notes = [f"compiled with {versions}"]
    notes += [f"{plan_name(r.rank)}: {r.compiled.error}" for r in results if r.compiled.error]
    grid = Grid("", COLUMNS, tuple(_row(result) for result in results))
    return Page(f"{results[0].case}: {len(results)} compiled", (grid, Lines("notes", texts(*notes))))


def _row(result: VerifyOut) -> tuple[Text, ...]:
    compiled, predicted = result.compiled, result.predicted
    return texts(
        Text("own" if result.rank == OWN_RANK else str(result.rank), "strong"),
        result.strategy,
        result.remat_policy,
        format_bytes(predicted.arguments_bytes),
        _bytes(compiled.arguments_bytes),
        format_bytes(predicted.temp_bytes),
        _bytes(compiled.temp_bytes),
        f"{result.ratio:.3f}" if result.ratio else "-",
        _verdict(result),
    )


def _bytes(value: int | None) -> str:
    return "-" if value is None else format_bytes(value)


def _verdict(result: VerifyOut) -> Text:
    """What the compiler decided, and how long it took."""
    compiled = result.compiled
    took = "cached" if result.cached else f"{result.seconds:.0f} s"
    if compiled.oom:
        needed = f"needs {format_bytes(compiled.needed_bytes)} of" if compiled.needed_bytes else "more than"
        return Text(f"out of memory: {needed} {format_bytes(compiled.limit_bytes)} ({took})", "bad")
    if compiled.error:
        return Text(f"refused ({took})", "bad")
    used = ((compiled.arguments_bytes or 0) + (compiled.temp_bytes or 0)) / compiled.limit_bytes
    return Text(f"fits, {format_fraction(used)} of {format_bytes(compiled.limit_bytes)} ({took})", "good")
