"""The search by bounds gives the list that pricing everything gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_cases import DENSE_MODEL, GQA, MOE_MODEL, architecture, case_of

from shardplan.engine import search as searching
from shardplan.engine.decide import catalogue
from shardplan.engine.search import Found, Question, search, search_strategies
from shardplan.engine.variants import expand, variants_of
from shardplan.judge.profile import profile
from shardplan.spec import Case, Constraints, Optimizer, Runtime
from shardplan.splits.enumeration import enumerate_candidates

if TYPE_CHECKING:
    from shardplan.engine.ranking import Objective

BIG = architecture({"count": 24, "attention": GQA, "feed_forward": {"width": 24576}}, vocab_size=131072)
CASES = [
    pytest.param(case_of(DENSE_MODEL, "2x2x2", batch=64), id="dense"),
    pytest.param(case_of(MOE_MODEL, "2x2x2", batch=64), id="moe"),
    pytest.param(case_of(DENSE_MODEL, "2x2x1", slices=2, batch=32), id="two-slices"),
    pytest.param(case_of(BIG, "2x2x1", batch=256, tokens=16384), id="tight"),
]


def everything(question: Question) -> Found:
    """The outcome of pricing every variant of every split."""
    splits = enumerate_candidates(question.case).candidates
    variants = variants_of(question.case, splits)
    standing = searching._priced(question, expand(question.case, splits, variants), {})
    return Found(standing.candidates.take(standing.best(question.top)), None, 0, 0, {})


def question(case: Case, objective: Objective = "step-time", top: int = 3) -> Question:
    """The question as `decide` asks it."""
    return Question(case, profile(case), catalogue(), objective, top)


@pytest.mark.parametrize("objective", ["step-time", "memory"])
@pytest.mark.parametrize("case", CASES)
def test_bounds_change_nothing_but_the_time_it_takes(case: Case, objective: Objective) -> None:
    asked = question(case, objective)
    found, whole = search(asked), everything(asked)
    assert len(found.ranked) == len(whole.ranked) > 0
    for row in range(len(whole.ranked)):
        assert found.ranked.split_at(row) == whole.ranked.split_at(row)


@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_accounted_for(case: Case) -> None:
    found = search(question(case))
    splits = enumerate_candidates(case)
    variants = len(variants_of(case, splits.candidates)) * len(splits.candidates)
    assert found.considered == variants + sum(splits.rejected.values())
    assert sum(found.rejected.values()) <= found.considered


def test_nothing_fits_names_the_closest() -> None:
    heavy = case_of(BIG, "2x2x1", batch=8, tokens=4194304, constraints=Constraints(max_context_parallelism=1))
    found = search(question(heavy))
    assert not len(found.ranked)
    assert found.closest is not None
    assert len(found.closest) == 1
    assert found.rejected["SP201"] > 0


def test_no_legal_split_is_no_plan() -> None:
    impossible = Constraints(max_fsdp_parallelism=1, max_data_parallelism=1, max_tensor_parallelism=1,
                             max_context_parallelism=1, max_pipeline_parallelism=1)  # fmt: skip
    case = case_of(DENSE_MODEL, "2x2x2", batch=1, constraints=impossible)
    found = search(question(case))
    assert not len(found.ranked)
    assert found.closest is None
    assert sum(found.rejected.values()) == found.considered


def test_lighter_state_never_needs_more_memory() -> None:
    case = case_of(DENSE_MODEL, "2x2x2", batch=64)
    light = Optimizer(first_moment_dtype="bfloat16")
    lighter = case.model_copy(update={"workload": case.workload.model_copy(update={"optimizer": light})})
    splits = enumerate_candidates(case).candidates
    variants = variants_of(case, splits)
    before, after = (searching._leanest(c, splits, variants).bytes for c in (case, lighter))
    assert np.all(after <= before)


def test_the_leanest_variant_is_a_candidate_of_its_own() -> None:
    case = case_of(DENSE_MODEL, "2x2x2", batch=64)
    splits = enumerate_candidates(case).candidates
    lean = searching._leanest(case, splits, variants_of(case, splits))
    one = lean.variant(splits, 3)
    assert len(one) == 1
    assert one.split_at(0).ici == splits.split_at(3).ici
    assert one.num_vocab_tiling[0] == lean.tiling[3]


LONG = case_of(DENSE_MODEL, "2x2x2", batch=2, tokens=65536, runtime=Runtime(tokamax_splash=True))


def test_other_ways_of_attending_are_tried_where_context_parallelism_wins() -> None:
    plain = search(question(LONG))
    assert plain.ranked.degree("context")[0] > 1
    asked, best = search_strategies(question(LONG))
    assert searching._first_s(asked, best) <= searching._first_s(question(LONG), plain)
    assert best.ranked.degree("context")[0] > 1
    for strategy, balanced in (("ring", True), ("ulysses", False)):
        runtime = Runtime(tokamax_splash=True, context_strategy=strategy, context_load_balance=balanced)
        case = LONG.model_copy(update={"runtime": runtime})
        other = search(question(case))
        if len(other.ranked) and other.ranked.degree("context")[0] > 1:
            limit = searching._first_s(question(case), other) * 1.02
            assert searching._first_s(asked, best) <= limit * (1 + 1e-9)


def test_a_strategy_the_user_chose_is_kept() -> None:
    chosen = LONG.model_copy(update={"runtime": Runtime(tokamax_splash=True, context_strategy="all_gather")})
    asked, _ = search_strategies(question(chosen))
    assert asked.case is chosen


def test_without_context_parallelism_there_is_one_search() -> None:
    case = case_of(DENSE_MODEL, "2x2x2", batch=64)
    asked, _ = search_strategies(question(case))
    assert asked.case is case
