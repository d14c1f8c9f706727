"""Decides, checks and explains: the pipeline from a case to printed records, composed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from shardplan import __version__
from shardplan.catalogue.rules import Catalogue, load_catalogue
from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.data import rules_folder
from shardplan.engine.fixes import bigger_cases, fixes_for
from shardplan.engine.priced import Priced
from shardplan.engine.reasons import notes, why_lower
from shardplan.engine.search import Found, Question, search, search_strategies
from shardplan.errors import Diagnostic, InputError
from shardplan.judge.facts import KINDS
from shardplan.judge.profile import Profile, profile
from shardplan.machine.chips import resolution, wraps
from shardplan.plan import (
    CheckOut,
    ChoiceOut,
    ClusterOut,
    ExplanationOut,
    FixOut,
    PlanOut,
    ProblemOut,
    ProfileOut,
)
from shardplan.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.engine.ranking import Objective
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates


@cache
def catalogue() -> Catalogue:
    """The shipped rules, checked against the facts they name."""
    return load_catalogue(rules_folder(), KINDS)


def decide(case: Case, top: int = 5, objective: Objective = "step-time") -> PlanOut:
    """The ranked plans of a case; none if nothing fits, with what would."""
    seen, rules = profile(case), catalogue()
    asked, found = search_strategies(Question(case, seen, rules, objective, top))
    case = asked.case
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
        considered=found.considered,
        priced=found.priced,
        rejected=dict(sorted(found.rejected.items())),
        rejections={code: rules.rule(code).entry.name for code in sorted(found.rejected)},
        closest=closest,
        problems=() if plans else tuple(_problems(found, closest)),
        fixes=() if plans else tuple(_ways_out(case, closest, objective)),
        notes=tuple(notes(seen, plans, objective)),
    )


def check_split(case: Case, split: Candidates, name: str) -> CheckOut:
    """The verdict on one configuration (the only candidate), with everything that stands in its way and ways out."""
    result = judge_split(case, split, name)
    if result.verdict in {"fits", "invalid"}:
        return result
    return result.model_copy(update={"fixes": fixes_for(case, split.split_at(0))})


def judge_split(case: Case, split: Candidates, name: str) -> CheckOut:
    """The verdict on one configuration (the only candidate), with everything that stands in its way."""
    priced = Priced.of(case, profile(case), catalogue(), split)
    facts = priced.facts.at(0)
    forbidding = [rule for rule in priced.verdicts.firing(0) if rule.effect == "forbid"]
    problems = [ProblemOut(code=rule.code, message=rule.message(facts), hint=rule.hint(facts)) for rule in forbidding]
    verdict = priced.verdict(0)
    if any(rule.family != "memory" for rule in forbidding):
        verdict = "invalid"
    choice = priced.choice(0, 1).model_copy(update={"verdict": verdict})
    return CheckOut(id=name, verdict=verdict, problems=tuple(problems), choice=choice)


def explain(case: Case, rank: int = 1, objective: Objective = "step-time") -> ExplanationOut:
    """One plan with the arithmetic of every number; InputError if there are not that many plans."""
    from shardplan.engine.lines import communication_lines, memory_lines, time_lines

    seen, rules = profile(case), catalogue()
    asked, found = search_strategies(Question(case, seen, rules, objective, rank + 1))
    case = asked.case
    if len(found.ranked) < rank:
        message = f"there is no plan of rank {rank}: {len(found.ranked)} plans fit"
        raise InputError([Diagnostic("SP017", message, None, "shardplan recommend lists them")])
    priced = Priced.of(case, seen, rules, found.ranked)
    row = rank - 1
    choice = priced.choice(row, rank)
    following = priced.choice(rank, rank + 1) if len(found.ranked) > rank else None
    return ExplanationOut(
        case=case.name,
        choice=choice,
        profile=profile_out(seen),
        memory=memory_lines(priced, row),
        communication=communication_lines(priced, row),
        time=time_lines(priced, row),
        next_plan=why_lower(choice, following) if following else "",
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
