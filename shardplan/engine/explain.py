"""Explains a plan: every number of it as a line of arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.engine.chosen import chosen
from shardplan.engine.decide import profile_out
from shardplan.engine.lines import communication_lines, memory_lines, time_lines
from shardplan.engine.reasons import why_lower
from shardplan.errors import Diagnostic, InputError
from shardplan.plan import ExplanationOut

if TYPE_CHECKING:
    from shardplan.engine.ranking import Objective
    from shardplan.spec import Case


def explain(case: Case, rank: int | None = None, objective: Objective = "step-time") -> ExplanationOut:
    """One plan with the arithmetic of every number: of that rank, or the case's own, else the first.

    Raises InputError if there are not that many plans, InvalidShardingError where MaxText would refuse the case's own.
    """
    found = chosen(case, rank, objective)
    if found is None:
        hint = "shardplan recommend says by how much, and what would"
        raise InputError([Diagnostic("SP017", f"there is no plan to explain: nothing fits {case.name}", None, hint)])
    priced, row, choice, following = found.priced, found.row, found.choice, found.following
    return ExplanationOut(
        case=case.name,
        choice=choice,
        profile=profile_out(priced.profile),
        memory=memory_lines(priced, row),
        communication=communication_lines(priced, row),
        time=time_lines(priced, row),
        next_plan=why_lower(choice, following) if following else "",
        notes=case.architecture.notes,
    )
