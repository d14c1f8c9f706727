"""The page of `check`: one configuration in full, or many, one a row."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from shardplan.render.page import Column, Fields, Grid, Lines, Page, Text, texts
from shardplan.render.parts import fixes, memory_and_time, problems, rules_fired, traffic, verdict_per_axis
from shardplan.render.words import (
    VERDICTS,
    codes_text,
    launch_text,
    memory_text,
    mesh_text,
    remat_text,
    time_text,
    verdict_text,
)
from shardplan.units import format_bytes, format_fraction, format_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shardplan.plan import CheckOut

COLUMNS = (
    Column("id"),
    Column("verdict", under="id"),
    Column("HBM a device"),
    Column("limit", under="HBM a device"),
    Column("step time", right=True),
    Column("mesh"),
    Column("remat", under="mesh"),
    Column("problems"),
)
PLURALS = {"fits": "fit", "does_not_fit": "do not fit"}


def check_page(results: Sequence[CheckOut]) -> Page:
    """The verdict on one configuration in full, or on many in a table with a count by verdict."""
    return _one(results[0]) if len(results) == 1 else _many(results)


def _one(result: CheckOut) -> Page:
    words, tone = VERDICTS[result.verdict]
    choice = result.choice
    blocks: list[Fields | Grid | Lines] = [problems(result.problems), fixes(result.fixes), *_fixed(result)]
    if choice is not None:
        margin = choice.memory.limit_bytes - choice.memory.total_bytes
        room = f"{format_bytes(abs(margin))} {'free' if margin >= 0 else 'too much'}"
        plan = Fields(
            "",
            (
                (
                    "verdict",
                    texts(Text(f"{words}: {memory_text(choice.memory, result.verdict).text}, {room}", tone)),
                ),
                ("mesh", texts(Text(mesh_text(choice.mesh), "strong"))),
                ("remat", texts(remat_text(choice))),
                ("batch", texts(_batch(result))),
                (
                    "speed",
                    texts(
                        f"{choice.tokens_per_s_per_device:,.0f} tokens/s/device, MFU {format_fraction(choice.mfu)}, "
                        f"bound by {choice.bound_by}"
                    ),
                ),
            ),
        )
        blocks = [
            plan,
            *blocks,
            memory_and_time(choice, "memory and time"),
            traffic(choice),
            verdict_per_axis(choice),
            rules_fired(choice),
        ]
    title = f"{result.id}: {words}{launch_text(choice) if choice is not None else ''}"
    return Page(title, (*blocks, Lines("notes", texts(*result.notes))))


def _fixed(result: CheckOut) -> tuple[Lines, ...]:
    """The smallest change that makes it fit, and the launch with it."""
    patch = result.patch
    if patch is None:
        return ()
    outcome = (
        f"{format_bytes(patch.total_bytes)} of {format_bytes(patch.limit_bytes)}, {format_seconds(patch.estimate_s)} a step "
        f"of {patch.global_batch:,} sequences"
    )
    return (
        Lines(f"smallest change that fits: {outcome}", texts(*patch.patch), verbatim=True),
        Lines("the launch with it", texts(*patch.command.splitlines()), verbatim=True),
    )


def _batch(result: CheckOut) -> str:
    choice = result.choice
    assert choice is not None, "a batch needs a choice"
    accumulation = f", {choice.gradient_accumulation} micro-steps" if choice.gradient_accumulation > 1 else ""
    return f"{choice.per_device_batch:g} sequences a device{accumulation}, {choice.global_batch:,} a step"


def _many(results: Sequence[CheckOut]) -> Page:
    grid = Grid("", COLUMNS, tuple(row(result) for result in results))
    return Page(counted(Counter(result.verdict for result in results)), (grid, *changes(results)))


def counted(verdicts: Mapping[str, int]) -> str:
    """How many configurations there are of each verdict."""
    words = [
        f"{n:,} {VERDICTS[v][0] if n == 1 else PLURALS.get(v, VERDICTS[v][0])}" for v in VERDICTS if (n := verdicts[v])
    ]
    return f"{sum(verdicts.values()):,} configurations: {', '.join(words)}"


def changes(results: Sequence[CheckOut]) -> tuple[Lines, ...]:
    """The smallest changes that were found, each under its configuration."""
    return tuple(
        Lines(f"{r.id}: smallest change that fits", texts(*r.patch.patch), verbatim=True) for r in results if r.patch
    )


def row(result: CheckOut) -> tuple[Text, ...]:
    """One configuration among others, a cell a column."""
    codes = codes_text([problem.code for problem in result.problems])
    choice = result.choice
    if choice is None:
        return texts(Text(result.id, "strong"), verdict_text(result.verdict), "", "", "", "", "", codes)
    return texts(
        Text(result.id, "strong"),
        verdict_text(result.verdict),
        memory_text(choice.memory, result.verdict),
        format_bytes(choice.memory.limit_bytes),
        time_text(choice.time),
        mesh_text(choice.mesh),
        remat_text(choice),
        codes,
    )
