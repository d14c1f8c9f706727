"""The accuracy page: every table has rows, and its numbers are what the functions say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import ablations
import accuracy_blocks
import accuracy_ranks
import accuracy_runs
import book_problems
import compiled_collectives
import measured_collectives
import numpy as np
import pytest
from places import ROOT

from benchmarks import ranks
from benchmarks.compared import DIMENSIONS, Errors
from benchmarks.published import newest, read_runs
from shardplan.cost.estimate import step_time_of

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PAGE = (DOCS / "accuracy.md").read_text(encoding="utf-8")
MODULES = {"memory": accuracy_blocks, "ranks": accuracy_ranks, "runs": accuracy_runs}
CALLS = re.findall(r"cog\.out\((\w+)\.(\w+)\(\)\)", PAGE)


def block(module: str, name: str) -> str:
    function: Callable[[], str] = getattr(MODULES[module], name)
    return function()


def cells(text: str) -> list[list[str]]:
    """Rows of a table, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize(("module", "name"), CALLS)
def test_every_block_of_the_page_is_what_its_function_says(module: str, name: str) -> None:
    text = block(module, name)
    if name not in {"rank_summary", "rank_reasons", "memory_missed", "published_memory"}:
        assert cells(text)
    assert text.strip() in PAGE, "run make format"
    assert "nan" not in text.split()


@pytest.mark.parametrize(
    "text",
    [
        accuracy_blocks.memory_totals, accuracy_blocks.memory_worst, accuracy_runs.run_errors, accuracy_runs.runs,
        accuracy_runs.ablation_rows, accuracy_runs.collectives, accuracy_runs.traffic, accuracy_ranks.rank_table,
        accuracy_ranks.rank_reasons, accuracy_runs.book, accuracy_runs.book_others,
    ],
)  # fmt: skip
def test_rows_of_a_table_are_as_wide_as_its_header(text: Callable[[], str]) -> None:
    lines = [line for line in text().splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


def test_the_first_line_on_memory_is_about_every_point() -> None:
    errors = Errors.of(accuracy_blocks.points())
    row = cells(accuracy_blocks.memory_totals())[0]
    assert row[1:4] == [str(errors.count), f"{errors.median:.1%}", f"{errors.p95:.1%}"]


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_groups_of_a_dimension_hold_every_point(dimension: str) -> None:
    rows = cells(accuracy_blocks.memory_by(dimension))
    assert sum(int(row[1]) for row in rows) == len(accuracy_blocks.points())


def test_verdicts_hold_every_point() -> None:
    rows = cells(accuracy_blocks.memory_verdicts())
    assert sum(int(cell) for row in rows for cell in row[1:]) == len(accuracy_blocks.points())


def test_the_worst_points_come_with_a_reason_or_say_there_is_none() -> None:
    rows = cells(accuracy_blocks.memory_worst())
    assert len(rows) == accuracy_blocks.WORST
    assert [row[4] for row in rows] == [f"{point.error:+.1%}" for point in accuracy_blocks.worst()]
    assert all(row[-1] for row in rows)


def test_differences_that_are_missed_are_those_not_right() -> None:
    rows = cells(accuracy_blocks.memory_changes())
    assert len(cells(accuracy_blocks.memory_missed())) == int(rows[-1][2]) - int(rows[-1][1])


def test_every_published_plan_has_a_verdict() -> None:
    rows = cells(accuracy_runs.published_verdicts())
    assert sum(int(cell) for row in rows for cell in row[1:]) == len(newest(read_runs(accuracy_runs.RUNS)))
    assert sum(int(cell) for row in rows for cell in row[2:]) == len(cells(accuracy_runs.published_memory()))


def test_step_times_are_those_of_the_model() -> None:
    shown = {row[5].strip("`"): row for row in cells(accuracy_runs.runs())}
    for run in newest(read_runs(accuracy_runs.RUNS)):
        assert float(shown[run.name][6]) == pytest.approx(run.step_time_s, abs=0.006)
        assert float(shown[run.name][7]) == pytest.approx(float(step_time_of(run.case, run.candidates)[0]), rel=0.006)


def test_errors_without_a_runs_own_model_are_larger_than_with_it() -> None:
    shipped = np.abs(accuracy_runs.shipped_s() / accuracy_runs.stack().measured_s - 1)
    assert np.median(np.abs(accuracy_runs.unseen())) > np.median(shipped)


def test_every_published_comparison_is_listed_in_the_measured_order() -> None:
    rows = cells(accuracy_runs.ablation_rows())
    assert len(rows) == len(ablations.ROWS)
    assert {row[-1] for row in rows} <= {"right", "tie"}


def test_every_measured_collective_and_program_is_listed() -> None:
    assert len(cells(accuracy_runs.collectives())) == len(measured_collectives.MEASUREMENTS)
    assert len(cells(accuracy_runs.traffic())) == sum(len(point.megabytes) for point in compiled_collectives.POINTS)


def test_ranks_are_of_the_newest_run_of_each_configuration() -> None:
    assert [row.run for row in accuracy_ranks.rank_rows()] == [run.name for run in newest(read_runs(ranks.RUNS))]


def test_published_plans_in_the_committed_ranks_are_priced_as_now() -> None:
    runs = {run.name: run for run in read_runs(ranks.RUNS)}
    for row in accuracy_ranks.rank_rows():
        run = runs[row.run]
        seconds = float(step_time_of(run.case, run.candidates)[0])
        assert row.published.step_time_s == pytest.approx(seconds, rel=0.01), "run make ranks"


def test_a_search_repeated_gives_the_committed_row() -> None:
    name = "docs/tiering/llama3.1-8b-v6e256"
    (run,) = [run for run in read_runs(ranks.RUNS) if run.name == name]
    (row,) = [row for row in accuracy_ranks.rank_rows() if row.run == name]
    again = ranks.rank_row(run)
    assert again.rank == row.rank
    assert again.gain == pytest.approx(row.gain, abs=0.01), "run make ranks"


def test_every_low_rank_and_every_gain_has_an_explanation() -> None:
    wanted = {accuracy_ranks.key(row) for row in accuracy_ranks.rank_rows() if row.needs_reason}
    assert wanted <= set(accuracy_ranks.rank_notes())


def test_every_problem_on_training_is_in_one_of_the_tables() -> None:
    listed = [row[0] for row in [*cells(accuracy_runs.book()), *cells(accuracy_runs.book_others())]]
    assert sorted(listed) == sorted(id_ for id_ in book_problems.VECTORS if id_.startswith(("AT-", "TR-")))
