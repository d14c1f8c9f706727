"""The search: every split is bounded, the promising ones are priced in every variant, the best are ranked.

A split's variants (remat policies x vocabulary tilings) differ in memory and time. Each split gets two bounds first: the
memory of its leanest variants and the time of its fastest ones. Splits whose leanest variants do not fit are ruled out;
the others are priced in full in the order of their time bound, until no split left can enter the list. The result is
that of pricing everything; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.catalogue.thresholds import threshold
from shardplan.cost.estimate import estimate, step_time_of
from shardplan.cost.memory.total import memory
from shardplan.engine.ranking import DOES_NOT_FIT, FITS, Standing, fit_classes, score, simplicity_keys
from shardplan.engine.variants import Variants, expand, variants_of
from shardplan.judge.facts import observe
from shardplan.judge.judge import judge
from shardplan.splits.enumeration import enumerate_candidates

if TYPE_CHECKING:
    from shardplan.catalogue.rules import Catalogue
    from shardplan.engine.ranking import Objective
    from shardplan.judge.profile import Profile
    from shardplan.spec import Case, RematPolicy
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

SPLITS_A_ROUND = 48
"""Splits priced in all variants before the stopping rule is looked at again."""
BOUND_SLACK = 0.97
"""Safety factor on the time bound: variants between the two extreme remat policies may be a little faster than both."""
NO_ROOM = "SP201"
"""Rule that forbids a plan that does not fit."""


@dataclass(frozen=True, slots=True)
class Found:
    """Outcome of a search."""

    ranked: Candidates
    """The best plans, best first; empty if nothing fits."""
    closest: Candidates | None
    """The split that misses the limit by least, if nothing fits."""
    considered: int
    """Variants of all splits, legal or not."""
    priced: int
    """Estimates made: bounds and full prices."""
    rejected: dict[str, int]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the best plans for a case, by an objective, under the rules."""

    case: Case
    profile: Profile
    catalogue: Catalogue
    objective: Objective
    top: int


def search(question: Question) -> Found:
    """The best plans, at most `top`, each another mesh."""
    case = question.case
    enumeration = enumerate_candidates(case)
    splits, tally = enumeration.candidates, dict(enumeration.rejected)
    if not len(splits):
        return Found(splits, None, sum(tally.values()), 0, tally)
    variants = variants_of(case, splits)
    considered = sum(tally.values()) + len(variants) * len(splits)
    leanest = _leanest(case, splits, variants, until_it_fits=question.objective != "memory")
    possible = fit_classes(case, leanest.bytes, leanest.error_band) != DOES_NOT_FIT
    if not possible.all():
        tally[NO_ROOM] = len(variants) * int((~possible).sum())
    if not possible.any():
        closest = leanest.variant(splits, int(np.argmin(leanest.bytes)))
        return Found(splits.take(possible), closest, considered, len(splits), tally)
    splits = splits.take(possible)
    bound = leanest.bytes[possible] if question.objective == "memory" else _fastest(case, splits, variants)
    order = np.argsort(bound, kind="stable")
    standing, best, priced = None, order[:0], len(possible) + 2 * len(splits)
    for start in range(0, len(order), SPLITS_A_ROUND):
        fresh = expand(case, splits.take(order[start : start + SPLITS_A_ROUND]), variants)
        priced += len(fresh)
        entered = _priced(question, fresh, tally)
        standing = entered if standing is None else standing.joined(entered)
        best = standing.best(question.top)
        rest = order[start + SPLITS_A_ROUND :]
        if len(best) == question.top and len(rest) and bound[rest[0]] > standing.reach(best):
            break
    assert standing is not None
    return Found(standing.candidates.take(best), None, considered, priced, {k: n for k, n in tally.items() if n})


# --- bounds --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Leanest:
    """Per split the variant with the least memory: its bytes, their error band, its policy and tiling, `(n,)`."""

    bytes: Floats
    error_band: Floats
    policies: tuple[RematPolicy, ...]
    policy: Ints
    tiling: Ints

    def variant(self, splits: Candidates, row: int) -> Candidates:
        """The leanest variant of one split, as a candidate of its own."""
        one = np.array([row])
        return replace(
            splits.take(one),
            remat_policies=(self.policies[self.policy[row]],),
            num_vocab_tiling=self.tiling[one],
        )


def _leanest(case: Case, splits: Candidates, variants: Variants, *, until_it_fits: bool = False) -> _Leanest:
    """The least memory of each split: of the policies that keep least on the device, with the most vocabulary tiling.

    With `until_it_fits`, leaner policies are not looked for once one fits.
    """
    policies = variants.policies
    least = min(len(p.device) for p in policies)
    lean = [p for p in policies if len(p.device) == least and p.offload <= {"decoder_layer_input"}] or list(policies)
    tokens = splits.per_device_batch * case.workload.sequence_length
    tiling = np.ones(len(splits), dtype=np.int64)
    for option in sorted(variants.tilings):
        tiling = np.where(tokens % option == 0, option, tiling)
    need, band = np.full(len(splits), np.inf), np.zeros(len(splits))
    which = np.zeros(len(splits), dtype=np.int64)
    left = np.arange(len(splits))
    for place, policy in enumerate(lean):
        got = memory(case, replace(splits.take(left), remat_policies=(policy,), num_vocab_tiling=tiling[left]))
        better = got.total_bytes < need[left]
        rows = left[better]
        need[rows], band[rows], which[rows] = got.total_bytes[better], got.error_band[better], place
        if until_it_fits:
            left = left[fit_classes(case, need[left], band[left]) != FITS]
    return _Leanest(need, band, tuple(lean), which, tiling)


def _fastest(case: Case, splits: Candidates, variants: Variants) -> Floats:
    """A lower bound of what any variant of each split scores by step time, `(n,)`."""
    policies = variants.policies
    chosen = (min(policies, key=lambda p: len(p.tensors)), max(policies, key=lambda p: len(p.device)))
    times = [step_time_of(case, replace(splits, remat_policies=(policy,))) for policy in chosen]
    return score("step-time", splits, np.min(times, axis=0) * BOUND_SLACK, np.zeros(len(splits)))


# --- pricing in full -----------------------------------------------------------------------------------------------


def _priced(question: Question, fresh: Candidates, tally: dict[str, int]) -> Standing:
    """Candidates priced, judged and cut to the legal and fitting ones; the others are tallied by rule."""
    case = question.case
    estimates = estimate(case, fresh)
    verdicts = judge(observe(case, question.profile, fresh, estimates), question.catalogue)
    keep = ~verdicts.forbidden
    for code, count in verdicts.tally().items():
        tally[code] = tally.get(code, 0) + count
    total, kept = estimates.memory.total_bytes, fresh.take(keep)
    scores = score(question.objective, fresh, estimates.time.estimate_s, total)
    classes = fit_classes(case, total, estimates.memory.error_band)
    simplicity = simplicity_keys(kept, verdicts.demotions[keep], verdicts.preferred[keep])
    return Standing(kept, scores[keep], classes[keep], -total[keep], simplicity)


# --- how attention sees the other context shards --------------------------------------------------------------------


def search_strategies(question: Question) -> tuple[Question, Found]:
    """The search, and again with ring and Ulysses attention where context parallelism won and the case leaves it open.

    Returns the question as it was answered best: its case says the strategy.
    """
    found = search(question)
    runtime = question.case.runtime
    open_choice = "context_strategy" not in runtime.model_fields_set and question.objective != "memory"
    if not open_choice or not len(found.ranked) or found.ranked.degree("context")[0] == 1:
        return question, found
    best, best_s = (question, found), _first_s(question, found) / (1 + threshold("ranking_tolerance"))
    for strategy, balanced in (("ring", runtime.context_load_balance), ("ulysses", False)):
        changes = {"context_strategy": strategy, "context_load_balance": balanced}
        case = question.case.model_copy(update={"runtime": runtime.model_copy(update=changes)})
        other = replace(question, case=case)
        answer = search(other)
        if len(answer.ranked) and answer.ranked.degree("context")[0] > 1 and _first_s(other, answer) < best_s:
            best, best_s = (other, answer), _first_s(other, answer)
    return best


def _first_s(question: Question, found: Found) -> float:
    """Seconds a sequence of the first plan."""
    first = found.ranked.take(np.array([0]))
    return float(step_time_of(question.case, first)[0] / first.global_batch[0])
