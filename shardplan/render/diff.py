"""The page of `diff`: both plans side by side, each change on its own, and the flags as a patch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shardplan.render.page import Column, Grid, Lines, Page, Text, texts
from shardplan.render.words import band_text, verdict_text
from shardplan.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.plan import ChangeOut, DiffOut, EffectOut, FlagOut, SideOut

EFFECTS = (
    Column("memory", right=True),
    Column("moved", right=True),
    Column("waits", right=True, under="moved"),
    Column("step time", right=True),
    Column("tokens/s/device", right=True, under="step time"),
)


def diff_page(result: DiffOut) -> Page:
    """What changed and what it does."""
    columns = (Column("change"), Column("old"), Column("new", under="old"), *EFFECTS, Column("then"))
    rows = [_change(change) for change in result.changes]
    if len(result.changes) > 1:
        total = texts(Text("all together", "strong"), "", "", *_effects(result.total), verdict_text(result.new.verdict))
        rows.append(total)
    changes = Grid("each change on its own, a device and step", columns, tuple(rows))
    title = f"{result.old.name} -> {result.new.name}: " + (
        f"{len(result.changes)} {'change' if len(result.changes) == 1 else 'changes'}"
        if result.changes
        else "the same plan"
    )
    problems = [
        f"{side.name}: {problem.code} {problem.message}"
        for side in (result.old, result.new)
        for problem in side.problems
    ]
    flags = Lines("flags", texts(*(line for flag in result.flags for line in flag_lines(flag))), verbatim=True)
    return Page(title, (_sides(result.old, result.new), changes, Lines("problems", texts(*problems)), flags))


def flag_lines(flag: FlagOut) -> list[str]:
    """A flag as the lines of a patch."""
    sides = (("-", flag.old), ("+", flag.new))
    return [f"{sign}{flag.key}={_written(value)}" for sign, value in sides if value is not None]


def _sides(old: SideOut, new: SideOut) -> Grid:
    """Both plans, one a row."""
    columns = (
        Column("plan"), Column("mesh"), Column("remat", under="mesh"), Column("batch", right=True),
        Column("HBM a device", right=True), Column("limit", right=True, under="HBM a device"), *EFFECTS[1:], Column("verdict"),
    )  # fmt: skip
    rows = tuple(
        texts(
            Text(which, "strong"),
            side.strategy,
            side.remat_policy,
            f"{side.global_batch:,}",
            format_bytes(side.memory_bytes),
            format_bytes(side.limit_bytes),
            format_bytes(side.communication_bytes),
            format_seconds(side.exposed_comm_s),
            f"{format_seconds(side.step_s)} {band_text(side.error_band, calibrated=side.calibrated)}",
            f"{side.tokens_per_s_per_device:,.0f}",
            verdict_text(side.verdict),
        )
        for which, side in (("old", old), ("new", new))
    )
    return Grid("", columns, rows)


def _change(change: ChangeOut) -> tuple[Text, ...]:
    verdict = verdict_text(change.alone.verdict)
    codes = " ".join(problem.code for problem in change.alone.problems)
    then = Text(f"{verdict.text} {codes}".strip(), verdict.tone)
    name = re.sub(r"\b(optimizer|runtime)\.", "", change.change).replace("_", " ")
    return texts(Text(name, "strong"), change.old, change.new, *_effects(change.effect), then)


def _effects(effect: EffectOut) -> tuple[str, ...]:
    return (
        _signed(effect.memory_bytes, format_bytes),
        _signed(effect.communication_bytes, format_bytes),
        _signed(effect.exposed_comm_s, format_seconds),
        _signed(effect.step_s, format_seconds),
        _signed(effect.tokens_per_s_per_device, lambda rate: f"{rate:,.0f}"),
    )


def _signed(value: float, written: Callable[[float], str]) -> str:
    """A difference with its sign; "=" where there is none."""
    return "=" if value == 0 else f"{'+' if value > 0 else '-'}{written(abs(value))}"


def _written(value: float | str | bool) -> str:  # noqa: FBT001 - any value of a flag
    return str(value).lower() if isinstance(value, bool) else str(value)
