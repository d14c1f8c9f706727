"""Decides, checks and explains: the pipeline from a case to printed records, composed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shardplan import __version__
from shardplan.catalogue.rules import Catalogue, load_catalogue
from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.data import rules_folder
from shardplan.engine.fixes import bigger_cases, fixes_for
from shardplan.engine.priced import Priced
from shardplan.engine.reasons import notes, release_notes
from shardplan.engine.search import Found, Question, search, search_strategies
from shardplan.judge.facts import KINDS, names_known_by, observe
from shardplan.judge.judge import judge
from shardplan.judge.profile import Profile, profile
from shardplan.machine.chips import resolution, wraps
from shardplan.maxtext.releases import release_of
from shardplan.plan import (
    CheckOut,
    ChoiceOut,
    ClusterOut,
    FixOut,
    PlanOut,
    ProblemOut,
    ProfileOut,
)
from shardplan.plan.choice import OWN_RANK
from shardplan.splits.enumeration import split_rows
from shardplan.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from shardplan.catalogue.rules import Rule
    from shardplan.engine.ranking import Objective
    from shardplan.judge.judge import Verdicts
    from shardplan.spec import Case, Split
    from shardplan.splits.candidates import Candidates


@cache
def catalogue() -> Catalogue:
    """The shipped rules, checked against the facts they name."""
    return load_catalogue(rules_folder(), KINDS)


def decide(case: Case, top: int = 5, objective: Objective = "step-time") -> PlanOut:
    """The ranked plans of a case; none if nothing fits, with what would."""
    asked, found = search_strategies(question(case, objective, top))
    own = _own(case)
    case, seen, rules = asked.case, asked.profile, asked.catalogue
    priced = Priced.of(case, seen, rules, found.ranked) if len(found.ranked) else None
    plans = tuple(priced.choice(row, row + 1) for row in range(len(found.ranked))) if priced else ()
    closest = _closest(case, seen, found)
    return PlanOut(
        shardplan_version=__version__,
        case=case.name,
        model={
            "name": case.architecture.name,
            "total_params": total_parameters(case.architecture),
            "active_params": active_parameters(case.architecture),
            "layers": case.architecture.n_layers,
        },
        profile=profile_out(seen),
        cluster=cluster_out(case),
        objective=objective,
        plans=plans,
        own=own,
        own_distance=_distance(own, plans),
        considered=found.considered,
        priced=found.priced,
        rejected=dict(sorted(found.rejected.items())),
        rejections={code: rules.rule(code).entry.name for code in sorted(found.rejected)},
        closest=closest,
        problems=() if plans else tuple(_problems(found, closest)),
        fixes=() if plans else tuple(_ways_out(case, closest, objective)),
        notes=(*case.architecture.notes, *release_notes(case), *notes(seen, plans, objective)),
    )


def question(case: Case, objective: Objective, top: int) -> Question:
    """What a case asks, with its profile and the shipped rules."""
    return Question(case, profile(case), catalogue(), objective, top)


def check_split(case: Case, split: Candidates, name: str) -> CheckOut:
    """The verdict on one configuration (the only candidate), with everything that stands in its way and ways out."""
    return with_fixes(judge_split(case, split, name), case, split.split_at(0))


def with_fixes(result: CheckOut, case: Case, split: Split) -> CheckOut:
    """A verdict with the ways out, where the split does not fit."""
    if result.verdict in {"fits", "invalid"}:
        return result
    return result.model_copy(update={"fixes": fixes_for(case, split)})


def judge_split(case: Case, split: Candidates, name: str) -> CheckOut:
    """The verdict on one configuration (the only candidate), with everything that stands in its way."""
    return judge_splits(case, split, [name])[0]


def judge_splits(case: Case, splits: Candidates, names: Sequence[str]) -> list[CheckOut]:
    """The verdict on each of some configurations of one case, all priced at once.

    A split that is no step on this machine (another number of devices, or no whole sequence) is refused without a price.
    """
    facts = observe(case, None, splits)
    is_step = facts["mesh_devices"] == case.cluster.devices_per_slice
    is_step &= facts["mesh_slices"] == case.cluster.slices
    is_step = np.broadcast_to(is_step & facts["rows_are_whole"], len(names))
    steps = np.flatnonzero(is_step)
    priced = Priced.of(case, profile(case), catalogue(), splits.take(steps)) if len(steps) else None
    refused = None if is_step.all() else judge(facts, _refusing())
    about: dict[str, Any] = {
        "notes": (*case.architecture.notes, *release_notes(case)),
        "release": release_of(case.runtime.maxtext).release.name,
    }
    results, place = [], np.cumsum(is_step) - 1
    for row, name in enumerate(names):
        if priced is not None and is_step[row]:
            results.append(_judged(priced, int(place[row]), name, about))
        else:
            assert refused is not None, "what is not priced is refused"
            problems = _forbidding(refused, row)
            results.append(CheckOut(id=name, verdict="invalid", problems=problems, choice=None, **about))
    return results


def _judged(priced: Priced, row: int, name: str, about: Mapping[str, Any]) -> CheckOut:
    """The verdict on a configuration that has a price."""
    verdict = priced.verdict(row)
    if any(rule.effect == "forbid" and rule.family != "memory" for rule in priced.verdicts.firing(row)):
        verdict = "invalid"
    choice = priced.choice(row, 1).model_copy(update={"verdict": verdict})
    return CheckOut(id=name, verdict=verdict, problems=_forbidding(priced.verdicts, row), choice=choice, **about)


def _refusing() -> list[Rule]:
    """The rules that can refuse a split without a price."""
    known = names_known_by("split")
    return [rule for rule in catalogue() if rule.effect == "forbid" and rule.predicate.names <= known]


def _forbidding(verdicts: Verdicts, row: int) -> tuple[ProblemOut, ...]:
    """What forbids one candidate."""
    facts = verdicts.facts.at(row)
    return tuple(
        ProblemOut(code=rule.code, message=rule.message(facts), hint=rule.hint(facts))
        for rule in verdicts.firing(row)
        if rule.effect == "forbid"
    )


# --- parts of the records ------------------------------------------------------------------------------------------


def profile_out(seen: Profile) -> ProfileOut:
    """The profile as a record."""
    return ProfileOut(
        family=seen.family,
        context=seen.context,
        very_large=seen.is_very_large,
        table_row=seen.row,
        table_strategy=seen.strategy,
        why=seen.why,
    )


def cluster_out(case: Case) -> ClusterOut:
    """The cluster as a record."""
    cluster = case.cluster
    return ClusterOut(
        chip=cluster.chip.name,
        topology=cluster.topology,
        chips=cluster.chips,
        devices=cluster.devices,
        slices=cluster.slices,
        hbm_limit_bytes=cluster.hbm_limit_bytes,
        wraps=wraps(cluster),
        resolution=resolution(cluster),
    )


# --- the case's own plan -------------------------------------------------------------------------------------------


def _own(case: Case) -> CheckOut | None:
    """The verdict on the case's own plan, if it has one."""
    if case.plan is None:
        return None
    judged = judge_split(case, split_rows(case, case.plan), case.name)
    choice = judged.choice and judged.choice.model_copy(update={"rank": OWN_RANK})
    return judged.model_copy(update={"choice": choice})


def _distance(own: CheckOut | None, plans: tuple[ChoiceOut, ...]) -> float | None:
    """How much longer the case's own plan takes a sequence than the first, as a share."""
    if own is None or own.choice is None or not plans:
        return None
    ours, best = own.choice, plans[0]
    return (ours.time.estimate_s / ours.global_batch) / (best.time.estimate_s / best.global_batch) - 1


# --- when nothing fits ---------------------------------------------------------------------------------------------


def _closest(case: Case, seen: Profile, found: Found) -> ChoiceOut | None:
    """The plan that misses by least."""
    if found.closest is None:
        return None
    return Priced.of(case, seen, catalogue(), found.closest).choice(0, 1)


def _problems(found: Found, closest: ChoiceOut | None) -> Iterator[ProblemOut]:
    """Why there is no plan."""
    if closest:
        memory = closest.memory
        yield ProblemOut(
            code="SP201",
            message=(
                f"nothing fits: the closest plan ({closest.strategy}, {closest.remat_policy}) needs "
                f"{format_bytes(memory.total_bytes)}, a device has {format_bytes(memory.limit_bytes)}: "
                f"{format_bytes(memory.total_bytes - memory.limit_bytes)} too much"
            ),
        )
        return
    for code, count in sorted(found.rejected.items(), key=lambda item: -item[1]):
        rule = catalogue().rule(code).entry
        yield ProblemOut(code=code, message=f"{count:,} splits ruled out: {rule.why}", hint=None)


def _ways_out(case: Case, closest: ChoiceOut | None, objective: Objective) -> Iterator[FixOut]:
    """Changes of the case after which something fits, each with its best plan's gain and cost."""
    if closest is None:
        return
    for name, changed in bigger_cases(case):
        found = search(Question(changed, profile(changed), catalogue(), objective, 1))
        if not len(found.ranked):
            continue
        best = Priced.of(changed, profile(changed), catalogue(), found.ranked).choice(0, 1)
        per_sequence = closest.time.estimate_s / closest.global_batch
        yield FixOut(
            change=f"{name}: {best.strategy}, {best.remat_policy}",
            flags=best.maxtext_flags,
            saves_bytes=closest.memory.total_bytes - best.memory.total_bytes,
            costs_s=(best.time.estimate_s / best.global_batch - per_sequence) * closest.global_batch,
            fits=best.verdict == "fits",
        )
