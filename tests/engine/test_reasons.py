"""Why a plan ranks lower, in words with the numbers of both."""

from __future__ import annotations

import pytest
from fixtures.results import choice_of
from small_cases import MOE_MODEL, case_of

from shardplan.engine.reasons import notes, why_lower
from shardplan.judge.profile import profile
from shardplan.plan import ChoiceOut, TimeOut


def plan(rank: int, strategy: str, seconds: float, verdict: str = "fits") -> ChoiceOut:
    """A plan of which only these matter."""
    base = choice_of(verdict=verdict)
    breakdown = {**dict.fromkeys(base.time.breakdown, 0.0), "compute_s": seconds}
    time = TimeOut(**{**base.time.model_dump(), "estimate_s": seconds, "breakdown": breakdown})
    return base.model_copy(update={"rank": rank, "strategy": strategy, "time": time})


@pytest.mark.parametrize(
    ("following", "words"),
    [
        (plan(2, "TP 8", 1.5), "takes 50.0% longer: 1.50 s against 1.00 s, most of it compute (+0.50 s)"),
        (plan(2, "TP 8", 1.01), "is within 2% (+1.0%)"),
        (
            plan(2, "EP 8", 0.95),
            "is 5.0% faster by estimate; but tensor, expert and pipeline parallelism must gain 10%",
        ),
        (plan(2, "TP 8", 0.5, "at_risk"), "is at risk, FSDP 8 fits"),
    ],
)
def test_the_reason_is_the_one_that_decided(following: ChoiceOut, words: str) -> None:
    assert words in why_lower(plan(1, "FSDP 8", 1.0), following)


def test_the_table_is_held_against_the_first_plan() -> None:
    seen = profile(case_of(MOE_MODEL))
    fsdp, both = plan(1, "FSDP 8", 1.0), plan(2, "FSDP 4 x EP 2", 1.3)
    assert seen.strategy == "FSDP + EP"
    assert any("cost model agree" in note for note in notes(seen, [both], "step-time"))
    overruled = list(notes(seen, [fsdp, both], "step-time"))[1]
    assert "says FSDP + EP; the cost model says FSDP 8" in overruled
    assert "takes 30.0% longer" in overruled
    assert "no plan of the table's kind is among the first 1" in list(notes(seen, [fsdp], "step-time"))[1]
    assert len(list(notes(seen, [], "step-time"))) == 1


def test_the_second_fsdp_axis_is_no_kind_of_its_own() -> None:
    seen = profile(case_of(MOE_MODEL))
    plans = [plan(1, "DP 2 x FSDP 4 x FSDP-T 2 x EP 2", 1.0)]
    assert any("agree" in note for note in notes(seen, plans, "step-time"))
