"""The page of `explain`: one plan, every number as formula, letters filled in, result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shardplan.plan.choice import plan_name
from shardplan.render.page import Column, Fields, Grid, Lines, Page, Text, texts
from shardplan.render.parts import memory_and_time, rules_fired, verdict_per_axis
from shardplan.render.words import launch_text, mesh_text, name_text, remat_text, verdict_text
from shardplan.units import format_bytes, format_count, format_flops, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.plan import ExplanationOut, LineOut

COLUMNS = (
    Column("what"),
    Column("formula"),
    Column("filled in", under="formula"),
    Column("source", under="formula"),
    Column("result", right=True),
)
EXACT_BELOW = 100_000
"""Whole numbers below this are written out; larger ones get three digits and a letter."""


def explain_page(explanation: ExplanationOut) -> Page:
    """The explanation as a document."""
    choice, profile = explanation.choice, explanation.profile
    kind = f"{profile.family}, {profile.context}" + (", very large" if profile.very_large else "")
    return Page(
        title=f"{explanation.case}, {plan_name(choice.rank)}: {mesh_text(choice.mesh)}{launch_text(choice)}",
        blocks=(
            Fields(
                "",
                (
                    ("profile", texts(kind, *(Text(why, "dim") for why in profile.why))),
                    ("guide", texts(f"row {profile.table_row!r}: {profile.table_strategy}")),
                    ("remat", texts(remat_text(choice))),
                    ("verdict", texts(verdict_text(choice.verdict), f"bound by {choice.bound_by}")),
                ),
            ),
            memory_and_time(choice, "memory and time"),
            _lines("memory, a device", explanation.memory),
            _lines("communication, a device and step", explanation.communication),
            _lines("time, a step", explanation.time),
            verdict_per_axis(choice),
            rules_fired(choice),
            Lines(
                "why the next plan ranks lower",
                texts(*([explanation.next_plan] if explanation.next_plan else [])),
            ),
            Lines("notes", texts(*explanation.notes)),
        ),
    )


def _lines(title: str, lines: tuple[LineOut, ...]) -> Grid:
    return Grid(title, COLUMNS, tuple(_row(line) for line in lines))


def _row(line: LineOut) -> tuple[Text, ...]:
    filled_in = filled(line.formula, line.letters)
    return texts(
        Text(name_text(line.name), "strong"),
        line.formula,
        "" if filled_in == line.formula else f"= {filled_in}",
        line.source or "",
        value_text(line),
    )


def value_text(line: LineOut) -> str:
    """The result in its unit."""
    if line.unit == "bytes":
        return format_bytes(line.value)
    if line.unit == "s":
        return format_seconds(line.value)
    if line.unit == "flops":
        return format_flops(line.value)
    return f"{number_text(line.value)} {line.unit}".strip()


def filled(formula: str, letters: Mapping[str, float]) -> str:
    """The formula with each letter replaced by its number."""
    if not letters:
        return formula
    names = sorted(letters, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(re.escape(name) for name in names)})(?!\w)")
    return pattern.sub(lambda found: number_text(letters[found[0]]), formula)


def number_text(value: float) -> str:
    """A number short enough for a formula, exact where it is a small whole number."""
    if value == round(value) and abs(value) < EXACT_BELOW:
        return f"{value:.0f}"
    return format_count(value) if abs(value) >= 1 else f"{value:.3g}"
