"""What is asked about is what is answered: a case's own plan in every command, illegal ones without a price."""

from __future__ import annotations

from typing import Any

import pytest
from small_cases import DENSE_MODEL, case_of

from shardplan.engine.chosen import chosen
from shardplan.engine.decide import check_split, decide
from shardplan.engine.explain import explain
from shardplan.errors import InputError, InvalidShardingError
from shardplan.launch.planned import read_planned
from shardplan.loaders.load import parse_case
from shardplan.plan.choice import OWN_RANK
from shardplan.source import parse_yaml
from shardplan.spec import Case, Split
from shardplan.splits.enumeration import split_rows

OWN = Split(ici={"fsdp": 16, "tensor": 2}, per_device_batch=3, remat_policy="full")
CASE = case_of(DENSE_MODEL, batch=96)


def with_plan(**changes: Any) -> Case:
    return CASE.model_copy(update={"plan": OWN.model_copy(update=changes)})


def test_explain_takes_the_cases_own_plan_unless_a_rank_is_asked() -> None:
    assert explain(with_plan()).choice.mesh.ici == OWN.ici
    assert explain(with_plan()).choice.rank == OWN_RANK
    assert explain(with_plan(), 1).choice == explain(CASE).choice


def test_its_own_plan_is_judged_beside_the_ranked_ones() -> None:
    plan = decide(with_plan())
    assert plan.own is not None
    assert plan.own.choice is not None
    assert plan.plans == decide(CASE).plans
    ours, best = plan.own.choice, plan.plans[0]
    assert plan.own_distance == pytest.approx(ours.time.estimate_s / best.time.estimate_s - 1)
    assert decide(CASE).own is None


def test_the_best_plan_as_its_own_is_at_no_distance() -> None:
    first = chosen(CASE)
    assert first is not None
    assert decide(first.case.model_copy(update={"plan": first.split})).own_distance == pytest.approx(0)


@pytest.mark.parametrize("ici", [{"fsdp": 8, "tensor": 3}, {"fsdp": 64}, {}])
def test_a_mesh_of_another_size_is_not_priced(ici: dict[str, int]) -> None:
    case = with_plan(ici=ici)
    judged = check_split(case, split_rows(case, case.plan), "own")
    assert (judged.verdict, judged.choice) == ("invalid", None)
    assert "SP401" in {problem.code for problem in judged.problems}
    with pytest.raises(InvalidShardingError):
        chosen(case)
    own = decide(case).own
    assert own is not None
    assert own.choice is None


@pytest.mark.parametrize("batch", [0.001, 0.51])
def test_a_batch_of_no_whole_sequences_is_not_priced(batch: float) -> None:
    case = with_plan(per_device_batch=batch)
    judged = check_split(case, split_rows(case, case.plan), "own")
    assert (judged.verdict, judged.choice) == ("invalid", None)
    assert judged.problems


def test_a_rank_beyond_the_last_is_refused() -> None:
    with pytest.raises(InputError, match="no plan of rank 900"):
        chosen(CASE, 900)


TEXT = """
model: llama3.1-8b
workload: {sequence_length: 4096, global_batch: 64}
cluster: {chip: v5p, topology: 4x4x4}
plan: {ici: {fsdp: 64}, per_device_batch: %s, gradient_accumulation: %s}
"""


def test_a_plan_of_another_batch_than_asked_is_refused_in_its_place() -> None:
    with pytest.raises(InputError) as caught:
        parse_case(parse_yaml(TEXT % (2, 1), "case.yaml"))
    (found,) = caught.value.diagnostics
    assert found.mark is not None
    assert (found.mark.line, found.code) == (5, "SP015")
    assert "the plan makes 128 sequences a step" in found.message
    assert found.hint == "per_device_batch: 1 makes them"


@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (0.5, 2), (0.25, 4)])
def test_a_plan_that_makes_the_batch_is_taken(batch: float, steps: int) -> None:
    assert parse_case(parse_yaml(TEXT % (batch, steps), "case.yaml")).plan is not None


def test_a_rank_of_a_case_is_compared_as_it_was_answered(tmp_path: Any) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(
        "model: llama3.1-8b\nworkload: {sequence_length: 131072, global_batch: 8}\ncluster: {accelerator: v5p-128}\n"
    )
    planned = read_planned(f"{path}#1")
    first = chosen(parse_case(parse_yaml(path.read_text(), str(path))))
    assert first is not None
    assert (planned.case.runtime, planned.split) == (first.case.runtime, first.split)
