"""The page of `recommend`: what was asked, the ranked plans, the first one in detail, what was rejected, what next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardplan.plan.choice import OWN_RANK, plan_name
from shardplan.render.page import Column, Fields, Grid, Lines, Page, Text, texts
from shardplan.render.parts import fixes, memory_and_time, problems, rules_fired, traffic, verdict_per_axis
from shardplan.render.words import (
    batch_text,
    count_text,
    launch_text,
    memory_text,
    mesh_text,
    remat_text,
    rules_text,
    time_text,
    torus_text,
    verdict_text,
    workload_text,
)
from shardplan.units import format_bytes, format_count, format_fraction

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut, PlanOut
    from shardplan.spec import Workload

COLUMNS = (
    Column("#", right=True),
    Column("mesh"),
    Column("remat", under="mesh"),
    Column("batch", under="mesh"),
    Column("HBM a device"),
    Column("verdict", under="HBM a device"),
    Column("step time", right=True),
    Column("tokens/s/device", right=True, under="step time"),
    Column("MFU", right=True),
    Column("bound by"),
    Column("rules", under="bound by"),
)


def recommend_page(plan: PlanOut, workload: Workload, case: str) -> Page:
    """The plan as a document; `workload` is what was asked for, `case` what the user would type again."""
    first = plan.plans[0] if plan.plans else None
    return Page(
        title=_headline(plan),
        blocks=(
            _asked(plan, workload),
            _ranked(plan),
            *(() if first is None else _first(first)),
            problems(plan.problems),
            *(() if plan.own is None or not plan.own.problems else (problems(plan.own.problems, "its own plan"),)),
            *(() if plan.closest is None else _closest(plan.closest)),
            fixes(plan.fixes),
            _rejected(plan),
            _next(plan, case),
        ),
    )


def _headline(plan: PlanOut) -> str:
    if not plan.plans:
        return f"{plan.case}: nothing fits"
    best = plan.plans[0]
    return f"{plan.case}: {mesh_text(best.mesh)}, {remat_text(best)}, {time_text(best.time)} a step{launch_text(best)}"


def _asked(plan: PlanOut, workload: Workload) -> Fields:
    profile, cluster = plan.profile, plan.cluster
    machine = (
        f"{cluster.chip}: {count_text(cluster.chips, 'chip')}, {count_text(cluster.devices, 'JAX device')}, "
        f"{count_text(cluster.slices, 'slice')} of {torus_text(cluster)}; "
        f"{format_bytes(cluster.hbm_limit_bytes)} usable a device"
    )
    kind = f"{profile.family}, {profile.context}" + (", very large" if profile.very_large else "")
    return Fields(
        "",
        (
            ("model", texts(_model(plan))),
            ("workload", texts(workload_text(workload))),
            ("cluster", texts(machine, *([Text(cluster.resolution, "dim")] if cluster.resolution else []))),
            ("profile", texts(kind, *(Text(why, "dim") for why in profile.why))),
            ("guide", texts(f"row {profile.table_row!r} of the decision table: {profile.table_strategy}")),
            *((("notes", texts(*plan.notes)),) if plan.notes else ()),
        ),
    )


def _model(plan: PlanOut) -> str:
    """The model's name, exact parameters, and whatever else the engine says of it."""
    facts = dict(plan.model)
    words = [str(facts.pop("name", ""))]
    if total := facts.pop("total_params", None):
        words.append(f"{total:,} parameters ({format_count(float(total))})")
        active = facts.pop("active_params", total)
        words += [f"{active:,} active a token ({format_count(float(active))})"] if active != total else []
    words += [
        f"{key.replace('_', ' ')} {value:,}" if isinstance(value, int) else f"{key.replace('_', ' ')} {value}"
        for key, value in facts.items()
    ]
    return ", ".join(word for word in words if word)


def _ranked(plan: PlanOut) -> Grid:
    devices = plan.cluster.devices
    title = f"plans by {plan.objective}; batch is per device x devices x accumulation = global"
    return Grid(title, COLUMNS, tuple(_row(choice, devices, plan.own_distance) for choice in _with_own(plan)))


def _with_own(plan: PlanOut) -> list[ChoiceOut]:
    """The ranked plans, and the case's own where its time puts it among them."""
    rows = list(plan.plans)
    own = plan.own.choice if plan.own else None
    if own is not None:
        faster = (i for i, other in enumerate(rows) if _per_sequence_s(other) > _per_sequence_s(own))
        rows.insert(next(faster, len(rows)), own)
    return rows


def _per_sequence_s(choice: ChoiceOut) -> float:
    return choice.time.estimate_s / choice.global_batch


def _row(choice: ChoiceOut, devices: int, own_distance: float | None) -> tuple[Text, ...]:
    is_own = choice.rank == OWN_RANK
    distance = f", {own_distance:+.1%}" if is_own and own_distance is not None else ""
    return texts(
        Text("own" if is_own else str(choice.rank), "strong"),
        Text(mesh_text(choice.mesh), "strong"),
        remat_text(choice),
        batch_text(choice, devices),
        memory_text(choice.memory, choice.verdict),
        verdict_text(choice.verdict),
        f"{time_text(choice.time)}{distance}",
        f"{choice.tokens_per_s_per_device:,.0f}",
        format_fraction(choice.mfu),
        choice.bound_by,
        rules_text(choice.rules),
    )


def _first(choice: ChoiceOut) -> tuple[Fields | Grid | Lines, ...]:
    return (
        memory_and_time(choice, plan_name(choice.rank)),
        traffic(choice),
        verdict_per_axis(choice),
        rules_fired(choice),
    )


def _closest(choice: ChoiceOut) -> tuple[Fields, ...]:
    """Of the plan that misses by least, what takes the memory."""
    details = memory_and_time(choice, "the closest plan")
    mesh = ("mesh", texts(Text(mesh_text(choice.mesh), "strong"), remat_text(choice)))
    return (replace(details, items=(mesh, *details.items)),)


def _rejected(plan: PlanOut) -> Grid:
    ordered = sorted(plan.rejected.items(), key=lambda item: -item[1])
    title = (
        f"rejected {sum(plan.rejected.values()):,} of {plan.considered:,} candidates, priced {plan.priced:,}; "
        "the bounds of the others are above the last plan listed"
    )
    columns = (Column("candidates", right=True), Column("code"), Column("reason"))
    rows = tuple(texts(f"{count:,}", code, plan.rejections.get(code, "").replace("-", " ")) for code, count in ordered)
    return Grid(title, columns, rows)


def _next(plan: PlanOut, case: str) -> Lines:
    if not plan.plans:
        return Lines("next", texts("shardplan rules SP201", "shardplan chips"), verbatim=True)
    commands = ("explain", "export maxtext", "verify") if plan.plans[0].launchable else ("explain", "export jax")
    steps = [f"shardplan {command} {case}" for command in commands]
    return Lines("next", texts(*steps), verbatim=True)
