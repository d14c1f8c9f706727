"""Blocks that several pages share: memory and time, communication, intensity, rules, problems, fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.render.page import Column, Fields, Grid, Text, texts
from shardplan.render.words import SEVERITIES, band_text, by_severity, name_text, shares, time_text
from shardplan.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut, FixOut, IntensityOut, ProblemOut

UNITS = {"tokens": "tokens a device", "flops_per_byte": "FLOPs a byte", "width": "width"}


def memory_and_time(choice: ChoiceOut, title: str) -> Fields:
    """Where the bytes of one device and the seconds of one step go, largest first."""
    memory, time = choice.memory, choice.time
    bytes_by_kind = shares(memory.breakdown, memory.total_bytes)
    seconds_by_kind = shares(time.breakdown, time.estimate_s)
    money = [f"{time.days:,.0f} days for all tokens"] if time.days is not None else []
    money += [f"{time.usd:,.0f} USD"] if time.usd is not None else []
    items = (
        (
            "memory",
            texts(
                f"{format_bytes(memory.total_bytes)} of {format_bytes(memory.limit_bytes)} "
                f"{band_text(memory.error_band, calibrated=memory.calibrated)}: "
                f"arguments {format_bytes(memory.arguments_bytes)} + temporaries {format_bytes(memory.temp_bytes)}; "
                f"worst moment {name_text(memory.binding_moment)}",
                Text(", ".join(f"{name} {format_bytes(value)}" for name, value, _ in bytes_by_kind), "dim"),
                *([f"host {format_bytes(memory.host_bytes)} a device"] if memory.host_bytes else []),
            ),
        ),
        (
            "time",
            texts(
                f"{time_text(time)}, bounds {format_seconds(time.lower_s)} to {format_seconds(time.upper_s)}",
                Text(", ".join(f"{name} {format_seconds(value)}" for name, value, _ in seconds_by_kind), "dim"),
                *money,
            ),
        ),
    )
    return Fields(title, items)


def traffic(choice: ChoiceOut) -> Grid:
    """Communication by axis: bytes of one device and seconds of one step, hidden and exposed."""
    columns = (
        Column("axis"),
        Column("network"),
        Column("collective"),
        Column("of", under="collective"),
        Column("bytes", right=True),
        Column("times", right=True),
        Column("seconds", right=True),
        Column("hidden", right=True),
        Column("exposed", right=True),
    )
    rows = tuple(
        texts(
            c.axis,
            c.network,
            c.kind.replace("_", "-"),
            c.purpose,
            format_bytes(c.bytes),
            f"{c.count:,.0f}",
            format_seconds(c.seconds),
            format_seconds(max(0.0, c.seconds - c.exposed_s)),
            Text(format_seconds(c.exposed_s), "warn" if c.exposed_s > 0 else ""),
        )
        for c in choice.communication
    )
    return Grid("communication, a device and step", columns, rows)


def verdict_per_axis(choice: ChoiceOut) -> Grid:
    """Arithmetic intensity by axis: what the plan has against what the chip needs to stay compute-bound."""
    columns = (
        Column("axis"),
        Column("ours", right=True),
        Column("needed", right=True),
        Column("unit"),
        Column("verdict"),
        Column("rule"),
    )
    return Grid("intensity", columns, tuple(_intensity(row) for row in choice.intensity))


def _intensity(row: IntensityOut) -> tuple[Text, ...]:
    verdict = Text("compute-bound", "good") if row.ok else Text("communication-bound", "warn")
    return texts(row.axis, f"{row.ours:,.0f}", f"{row.needed:,.0f}", UNITS[row.unit], verdict, row.rule)


def rules_fired(choice: ChoiceOut) -> Grid:
    """The rules that fired, with their numbers."""
    columns = (Column("code"), Column("severity"), Column("why"))
    rows = tuple(
        texts(Text(r.code, "strong"), Text(r.severity, SEVERITIES[r.severity]), r.explanation)
        for r in by_severity(choice.rules)
    )
    return Grid("rules that fired", columns, rows)


def problems(found: tuple[ProblemOut, ...], title: str = "problems") -> Grid:
    """What stands in the way, with the ways out."""
    columns = (Column("code"), Column("problem"), Column("hint", under="problem"))
    return Grid(title, columns, tuple(texts(Text(p.code, "bad"), _placed(p), p.hint or "") for p in found))


def _placed(problem: ProblemOut) -> str:
    """What is wrong, after the file and line it is in."""
    return f"{problem.place}: {problem.message}" if problem.place else problem.message


def fixes(found: tuple[FixOut, ...]) -> Grid:
    """Changes that help, cheapest first, each with what it saves and costs."""
    columns = (
        Column("change"),
        Column("flags", under="change"),
        Column("saves", right=True),
        Column("costs", right=True),
        Column("then"),
    )
    rows = tuple(
        texts(
            Text(fix.change, "strong"),
            flags_text(fix.flags),
            format_bytes(fix.saves_bytes),
            f"{format_seconds(fix.costs_s)} a step",
            Text("fits", "good") if fix.fits else Text("still does not fit", "bad"),
        )
        for fix in found
    )
    return Grid("changes that would help, cheapest first", columns, rows)


def flags_text(flags: dict[str, int | float | str | bool]) -> str:
    """Flags as MaxText's command line takes them."""
    return " ".join(f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in flags.items())
