"""Generated parts of the accuracy page that are about published runs, the network and the scaling book, for cog.

Each function returns one Markdown table; the numbers come from the functions that the tests of `tests/oracles` assert on.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import ablations
import book_problems
import compiled_collectives
import measured_collectives
import numpy as np
from accuracy_blocks import table

from benchmarks.accuracy import DATA
from benchmarks.calibrate import RUNS, Stack, all_constants, free_constants, left_out_errors, starting_values
from benchmarks.compared import compare, read_corpus
from benchmarks.published import newest, read_runs
from shardplan.cost.memory.total import memory
from shardplan.engine.ranking import DOES_NOT_FIT, FITS, fit_classes
from shardplan.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.published import Run
    from shardplan.units import Floats


# --- memory of published runs ---------------------------------------------------------------------------------------


@cache
def needs() -> tuple[tuple[Run, float, str], ...]:
    """The newest run of each configuration with the bytes it needs by our count, and our verdict."""
    found = []
    for run in newest(stack().runs):
        need = memory(run.case, run.candidates)
        kind = int(fit_classes(run.case, need.total_bytes, need.error_band)[0])
        found.append(
            (run, float(need.total_bytes[0]), {FITS: "fits", DOES_NOT_FIT: "does not fit"}.get(kind, "at risk"))
        )
    return tuple(found)


def published_verdicts() -> str:
    """What our memory model says of published plans, by chip."""
    counts = Counter((run.case.cluster.chip.name, verdict) for run, _, verdict in needs())
    chips = sorted({chip for chip, _ in counts})
    verdicts = ("fits", "at risk", "does not fit")
    return table(("chip", *verdicts), [(chip, *(counts[chip, v] for v in verdicts)) for chip in chips], numbers=3)


def published_memory() -> str:
    """Published plans that our memory model does not call fitting, though they ran; the compiler's answer where we have it."""
    rows = [
        (
            f"`{run.name}`", f"{need_bytes / GIB:.1f}", f"{run.case.cluster.hbm_limit_bytes / GIB:.1f}", verdict,
            compiled().get(run.name, ""),
        )
        for run, need_bytes, verdict in needs()
        if verdict != "fits"
    ]  # fmt: skip
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
