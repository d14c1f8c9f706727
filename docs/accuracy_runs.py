"""Generated parts of the accuracy page that are about published runs, time and the network, for cog.

Each function returns one Markdown table; the numbers come from the functions that the tests of `tests/oracles` assert on.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ablations
import book_problems
import compiled_collectives
import measured_collectives
import numpy as np
from accuracy_blocks import table

from benchmarks import ranks
from benchmarks.accuracy import DATA
from benchmarks.calibrate import RUNS, Stack, all_constants, free_constants, left_out_errors, starting_values
from shardplan.accuracy import compare, read_corpus
from shardplan.cost.memory import memory
from shardplan.published import newest, read_runs
from shardplan.ranking import DOES_NOT_FIT, FITS, fit_classes
from shardplan.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.ranks import PlanRow, RankRow
    from shardplan.published import Run
    from shardplan.units import Floats

NOTES = Path(__file__).parent / "data" / "rank_notes.json"
SHOWN = 0.02
"""Parts of the step that two plans differ in by less than this share of it are not worth a word."""


# --- memory of published runs ---------------------------------------------------------------------------------------


def published_memory() -> str:
    """Published plans that our memory model does not call fitting, though they ran; the compiler's answer where we have it."""
    rows = []
    for run in newest(stack().runs):
        need, limit = memory(run.case, run.candidates), run.case.cluster.hbm_limit_bytes
        kind = int(fit_classes(run.case, need.total_bytes, need.error_band)[0])
        if kind != FITS:
            verdict = "does not fit" if kind == DOES_NOT_FIT else "at risk"
            ours = float(need.total_bytes[0])
            rows.append(
                (f"`{run.name}`", f"{ours / GIB:.1f}", f"{limit / GIB:.1f}", verdict, compiled().get(run.name, ""))
            )
    return table(("run", "predicted GiB", "limit GiB", "verdict", "compiled without its flags"), rows)


@cache
def compiled() -> dict[str, str]:
    """What the compiler needs for published plans, those we compiled."""
    found = {}
    for record in read_corpus(DATA / "compiled_published.jsonl"):
        point = compare(record)
        found[point.id] = f"{point.compiled_bytes / GIB:.1f} GiB{', refused' if point.refused else ''}"
    return found


# --- step time -----------------------------------------------------------------------------------------------------


@cache
def stack() -> Stack:
    """Every published run, priced up to the constants."""
    return Stack.of(read_runs(RUNS))


@cache
def shipped_s() -> Floats:
    """Predicted step time of every run."""
    return stack().predicted_s([], np.zeros(0))


@cache
def unseen() -> Floats:
    """Relative error of every run where the fit has not seen its model."""
    return left_out_errors(stack(), free_constants())


def runs() -> str:
    """The newest run of each configuration: measured and predicted step time."""
    shown = {run.name for run in newest(stack().runs)}
    rows = [
        (*_question(run), f"`{run.name}`", f"{run.step_time_s:.2f}", f"{seconds:.2f}",
         f"{seconds / run.step_time_s - 1:+.1%}", f"{error:+.1%}")
        for run, seconds, error in zip(stack().runs, shipped_s(), unseen(), strict=True)
        if run.name in shown
    ]  # fmt: skip
    header = (
        "model", "chips", "sequence", "batch a device", "matmuls", "run", "measured s", "predicted s", "error",
        "error, model unseen",
    )  # fmt: skip
    return table(header, rows, numbers=4)


def _question(run: Run) -> tuple[str, str, str, str, str]:
    """What was trained on what: model, chips, sequence, sequences a device and micro-step, precision of the matmuls."""
    cluster, workload = run.case.cluster, run.case.workload
    batch = float(run.candidates.per_device_batch[0])
    return (
        run.model,
        f"{cluster.chips} {cluster.chip.name}",
        f"{workload.sequence_length:,}",
        f"{batch:g}",
        workload.precision,
    )


def run_errors() -> str:
    """Errors of all published runs: before any fit, as shipped, by chip, and with the run's own model left out."""
    before = stack().predicted_s(free_constants(), starting_values(free_constants())) / stack().measured_s - 1
    shipped = shipped_s() / stack().measured_s - 1
    groups = {"before any fit": before, "as shipped": shipped}
    groups |= {f"as shipped, {chip}": shipped[stack().chips == chip] for chip in sorted(set(stack().chips))}
    groups |= {"own model left out of the fit": unseen()}
    return table(("errors of step time", "runs", "median", "90th percentile", "worst"), _error_rows(groups), numbers=4)


def _error_rows(groups: dict[str, Floats]) -> Iterator[tuple[str, ...]]:
    for label, errors in groups.items():
        size = np.abs(errors)
        yield label, str(len(size)), f"{np.median(size):.1%}", f"{np.quantile(size, 0.9):.1%}", f"{size.max():.1%}"


def constants() -> str:
    """The fitted constants."""
    found = all_constants()
    rows = [
        (f"`{one.name}`", one.chip or "all", f"{found[one.name].by_chip[one.chip] if one.chip else found[one.name].value:.3f}")
        for one in free_constants()
    ]  # fmt: skip
    return table(("constant", "chip", "value"), rows, numbers=1)


# --- ablations -----------------------------------------------------------------------------------------------------


def ablation_rows() -> str:
    """Every published comparison: seconds a token against the best of its group, measured and predicted."""
    return table(
        ("what changes", "run", "measured s", "measured cost", "predicted cost", "order"),
        (row for group in ablations.GROUPS for row in _group_rows(group)),
        numbers=4,
    )


def _group_rows(group: str) -> Iterator[tuple[str, ...]]:
    rows = [row for row in ablations.ROWS if row["group"] == group]
    costs = [ablations.predicted_cost(row) for row in rows]
    wrong = {id_ for pair in ablations.misordered(rows, costs) for id_ in pair}
    best = costs[int(np.argmin([row["cost"] for row in rows]))]
    for i, (row, cost) in enumerate(zip(rows, costs, strict=True)):
        is_tie = 0 < row["cost"] - 1 <= ablations.SAME
        yield (
            "" if i else f"{group}{' (third party)' if row['third_party'] else ''}", f"`{row['id']}`",
            f"{row['step_time_s']:.2f}" if row["step_time_s"] else "-", f"{row['cost']:.3f}", f"{cost / best:.3f}",
            "wrong" if row["id"] in wrong else "tie" if is_tie else "right",
        )  # fmt: skip


def third_party_errors() -> str:
    """Step times of third parties, which no fit saw."""
    rows = {row["id"]: row for row in ablations.ROWS if row["third_party"] and row["step_time_s"]}
    errors = np.array([ablations.predicted_s(row) / row["step_time_s"] - 1 for row in rows.values()])
    header = ("errors of step time", "runs", "median", "90th percentile", "worst")
    return table(header, _error_rows({"third parties, never fitted": errors}), numbers=4)


# --- network -------------------------------------------------------------------------------------------------------


def collectives() -> str:
    """Published microbenchmarks of single collectives."""
    rows = []
    for one in measured_collectives.MEASUREMENTS:
        predicted = measured_collectives.predicted_s(one)
        where = f"{one.chip} {one.topology}"
        measured, ours = f"{one.seconds * 1e6:,.1f}", f"{predicted * 1e6:,.1f}"
        rows.append((one.name, where, measured, ours, f"{predicted / one.seconds - 1:+.1%}", one.source))
    return table(("collective", "slice", "measured us", "predicted us", "error", "source"), rows)


def traffic() -> str:
    """Megabytes a device receives in a step of a compiled program, by mesh axis and kind."""
    rows = []
    for point in compiled_collectives.POINTS:
        where = f"{point.chip} {point.topology}"
        for (axis, kind), ours in compiled_collectives.predicted_megabytes(point).items():
            theirs = point.megabytes[axis, kind]
            numbers = (f"{theirs:,.0f}", f"{ours:,.0f}", f"{ours / theirs - 1:+.2%}")
            rows.append((point.name, point.model, where, axis, kind, *numbers))
    header = ("program", "model", "slice", "axis", "kind", "compiled MB", "predicted MB", "error")
    return table(header, rows, numbers=3)


# --- ranks ---------------------------------------------------------------------------------------------------------


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


# --- the scaling book ----------------------------------------------------------------------------------------------


def book() -> str:
    """Problems of the training chapters of the scaling book that a public function of ours answers."""
    rows = []
    for problem in _problems():
        if problem["id"] in book_problems.FORMULAS:
            theirs, ours = problem["expected"]["value"], book_problems.answer(problem["id"])
            rows.append((*_stated(problem), f"{ours:.4g}", f"{ours / theirs - 1:+.1%}", problem["notes"]))
    return table(("problem", "asked", "the book", "ours", "difference", "note"), rows)


def book_others() -> str:
    """Problems that are one multiplication, for which there is no function."""
    rows = [(*_stated(p), p["notes"]) for p in _problems() if p["id"] not in book_problems.FORMULAS]
    return table(("problem", "asked", "the book", "note"), rows)


def _problems() -> Sequence[dict[str, Any]]:
    chapters = sorted(id_ for id_ in book_problems.VECTORS if id_.startswith(("AT-", "TR-")))
    return [book_problems.VECTORS[id_] for id_ in chapters]


def _stated(problem: dict[str, Any]) -> tuple[str, str, str]:
    expected = problem["expected"]
    return problem["id"], problem["question_in_own_words"], f"{expected['value']:.4g} {expected['unit']}"
