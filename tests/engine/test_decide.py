"""Cases that ship, decided end to end: the plans Google published, the table's rows, and what is said when nothing fits."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from shardplan.data import model_configs_folder, names
from shardplan.engine.decide import check_split, decide
from shardplan.engine.explain import explain
from shardplan.errors import InputError
from shardplan.judge.profile import profile
from shardplan.loaders.load import load_case
from shardplan.spec import Split, Workload
from shardplan.splits.enumeration import split_rows
from shardplan.units import GIB

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut, LineOut, PlanOut
    from shardplan.spec import Case

CASES = names(model_configs_folder() / "cases")
FITTING = [name for name in CASES if "cannot" not in name]


@cache
def case_named(name: str) -> Case:
    """A shipped case."""
    return load_case(model_configs_folder() / "cases" / f"{name}.yaml")


@cache
def decided(name: str) -> PlanOut:
    """Its plans."""
    return decide(case_named(name))


@pytest.mark.parametrize(
    ("name", "published_s", "tolerance"),
    [
        pytest.param("llama3.1-70b-8k", 12.20, 0.15, id="tpu-recipes@edf6fa7-4x4x4"),
        pytest.param("llama3.1-70b-128k", 34.02, 0.20, id="tpu-recipes@82a737a-4x8x8"),
    ],
)
def test_step_times_are_those_google_publishes(name: str, published_s: float, tolerance: float) -> None:
    first = decided(name).plans[0]
    assert first.verdict == "fits"
    assert first.time.estimate_s == pytest.approx(published_s, rel=tolerance)


def test_short_dense_is_pure_fsdp() -> None:
    plan = decided("llama3.1-70b-8k")
    assert plan.plans[0].mesh.ici == {"fsdp": 128}
    assert plan.profile.table_row == "dense-short"
    assert any("agree" in note for note in plan.notes)


def test_long_dense_is_fsdp_with_the_smallest_context_degree_that_is_legal() -> None:
    plan = decided("llama3.1-70b-128k")
    assert set(plan.plans[0].mesh.ici) == {"fsdp", "context"}
    # 64 sequences on 512 devices: each sequence needs at least 8 of them, and all batch shards must be whole.
    assert plan.plans[0].mesh.ici["context"] == 8
    assert plan.profile.table_row == "dense-long"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("llama3.1-8b", "dense-short"),
        ("llama3.1-405b", "dense-short"),
        ("mixtral-8x7b", "moe-short"),
        ("qwen3-235b-a22b", "moe-short"),
        ("deepseek3-671b", "moe-short"),
        ("gpt-oss-120b", "moe-short"),
    ],
)
def test_the_table_row_is_the_workloads(name: str, row: str) -> None:
    assert decided(name).profile.table_row == row


def test_what_outgrows_a_slice_is_very_large() -> None:
    case = case_named("deepseek3-671b")
    small = case.cluster.model_copy(update={"topology": (2, 4, 4), "slices": 16})
    found = profile(case.model_copy(update={"cluster": small}))
    assert found.row == "moe-very-large"
    assert found.is_very_large


def test_long_experts_combine_two_rows_and_say_so() -> None:
    case = case_named("mixtral-8x7b")
    long = Workload(sequence_length=65536, global_batch=64)
    plan = decide(case.model_copy(update={"workload": long}), 1)
    assert plan.profile.table_row == "moe-long"
    assert "combined" in plan.profile.table_strategy


def test_where_the_cost_model_overrules_the_table_both_are_told_with_numbers() -> None:
    plan = decided("mixtral-8x7b")
    note = next(note for note in plan.notes if "decision table" in note)
    assert "FSDP + EP" in note
    assert plan.plans[0].strategy in note


@pytest.mark.parametrize("name", FITTING)
def test_shipped_cases_have_plans_that_add_up(name: str) -> None:
    plan, case = decided(name), case_named(name)
    assert [choice.rank for choice in plan.plans] == list(range(1, len(plan.plans) + 1))
    assert plan.considered >= plan.priced > 0
    assert set(plan.rejected) == set(plan.rejections)
    for choice in plan.plans:
        assert np.prod(list(choice.mesh.ici.values()) or [1]) == case.cluster.devices_per_slice
        assert np.prod(list(choice.mesh.dcn.values()) or [1]) == case.cluster.slices
        _adds_up(choice, case)


def _adds_up(choice: ChoiceOut, case: Case) -> None:
    memory, time = choice.memory, choice.time
    assert sum(memory.breakdown.values()) == pytest.approx(memory.total_bytes, rel=1e-6)
    assert memory.arguments_bytes + memory.temp_bytes == pytest.approx(memory.total_bytes)
    assert memory.temp_bytes == pytest.approx(memory.moments[memory.binding_moment])
    assert memory.total_bytes <= memory.limit_bytes * (1 + memory.error_band)
    assert sum(time.breakdown.values()) == pytest.approx(time.estimate_s, rel=1e-6)
    assert time.lower_s <= time.estimate_s <= time.upper_s
    assert choice.per_device_batch * case.cluster.devices * choice.gradient_accumulation == choice.global_batch
    assert all(c.exposed_s <= c.seconds * (1 + 1e-9) for c in choice.communication)
    assert 0 < choice.mfu < 1


@pytest.mark.parametrize("name", FITTING)
def test_the_first_plan_is_no_slower_than_the_tolerance_allows(name: str) -> None:
    plans = [p for p in decided(name).plans if p.verdict == decided(name).plans[0].verdict]
    fastest = min(p.time.estimate_s / p.global_batch for p in plans)
    assert plans[0].time.estimate_s / plans[0].global_batch <= fastest * 1.02 * 1.1 * (1 + 1e-9)


def test_nothing_fits_says_by_how_much_and_that_no_single_change_would_help() -> None:
    plan = decided("cannot-fit-405b-v5e")
    assert plan.plans == ()
    assert plan.closest is not None
    excess = plan.closest.memory.total_bytes - plan.closest.memory.limit_bytes
    assert f"{excess / GIB:.1f} GiB too much" in plan.problems[0].message
    assert plan.fixes == ()


def test_a_cluster_without_legal_splits_says_which_rules() -> None:
    case = case_named("llama3.1-8b")
    one = case.workload.model_copy(update={"global_batch": 1})
    bounds = dict.fromkeys(("max_context_parallelism", "max_tensor_parallelism", "max_pipeline_parallelism"), 1)
    limits = case.constraints.model_copy(update=bounds)
    plan = decide(case.model_copy(update={"workload": one, "constraints": limits}))
    assert plan.plans == ()
    assert plan.closest is None
    assert plan.problems
    assert plan.fixes == ()


@pytest.mark.parametrize("objective", ["step-time", "cost", "memory"])
def test_objectives_order_what_they_name(objective: str) -> None:
    plans = decide(case_named("llama3.1-8b"), 4, objective).plans  # type: ignore[arg-type]
    value = [p.memory.total_bytes if objective == "memory" else p.time.estimate_s for p in plans]
    assert value[0] <= min(value) * 1.02 * 1.1


# --- explain -------------------------------------------------------------------------------------------------------


def recomputed(line: LineOut) -> float:
    """The line's formula with its letters, evaluated anew."""
    scope = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")} | {
        "max": max,
        "min": min,
        "sum": sum,
    }
    return float(eval(line.formula, {"__builtins__": {}}, scope | line.letters))  # noqa: S307 - our own formulas


@pytest.mark.parametrize("name", ["llama3.1-70b-8k", "deepseek3-671b", "llama3.1-70b-4-slices-v6e"])
def test_every_line_is_its_formula_with_letters_filled_in(name: str) -> None:
    page = explain(case_named(name))
    for line in (*page.memory, *page.communication, *page.time):
        assert recomputed(line) == pytest.approx(line.value, rel=1e-6), line.name
        assert line.source, line.name
    assert page.memory
    assert page.communication
    assert page.time


def test_the_next_plan_is_compared() -> None:
    assert "rank 2" in explain(case_named("llama3.1-70b-8k")).next_plan


def test_a_rank_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="no plan of rank 900"):
        explain(case_named("llama3.1-8b"), 900)


# --- check ---------------------------------------------------------------------------------------------------------


def test_check_agrees_with_recommend_on_its_own_plan() -> None:
    case, first = case_named("llama3.1-70b-8k"), decided("llama3.1-70b-8k").plans[0]
    split = Split(
        ici=first.mesh.ici, per_device_batch=first.per_device_batch, remat_policy=first.remat_policy,
        remat_tensors=first.remat_tensors,  # type: ignore[arg-type]
    )  # fmt: skip
    result = check_split(case, split_rows(case, split), "own")
    assert result.verdict == "fits"
    assert result.choice is not None
    assert result.choice.memory.total_bytes == first.memory.total_bytes
    assert result.choice.time.estimate_s == first.time.estimate_s


def test_what_does_not_fit_comes_with_fixes_that_do() -> None:
    case = case_named("llama3.1-70b-8k")
    split = Split(ici={"fsdp": 128}, per_device_batch=2, remat_policy="minimal")
    result = check_split(case, split_rows(case, split), "big")
    assert result.verdict == "does_not_fit"
    assert result.problems[0].code == "SP201"
    assert result.fixes[0].fits
    assert all(fix.saves_bytes > 0 for fix in result.fixes)
    costs = [fix.costs_s for fix in result.fixes if fix.fits]
    assert costs == sorted(costs)


def test_an_illegal_split_is_invalid_with_every_problem() -> None:
    case = case_named("llama3.1-70b-8k")
    split = Split(ici={"fsdp": 4, "tensor": 32}, per_device_batch=1.5)
    result = check_split(case, split_rows(case, split), "odd")
    assert result.verdict == "invalid"
    assert "SP520" in {problem.code for problem in result.problems}
