"""Which plan of a case is meant: the case's own `plan:` section, or one of the ranked ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardplan.engine.decide import judge_split, question
from shardplan.engine.priced import Priced
from shardplan.engine.search import search_strategies
from shardplan.errors import Diagnostic, InputError, InvalidShardingError, Mark
from shardplan.plan.choice import OWN_RANK
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from shardplan.engine.ranking import Objective
    from shardplan.plan import ChoiceOut, ProblemOut
    from shardplan.spec import Case, Split


@dataclass(frozen=True, slots=True)
class Chosen:
    """One plan of a case with everything known of it."""

    case: Case
    """The case as it was answered: what it left open, such as how attention sees other shards, is decided."""
    priced: Priced
    row: int
    rank: int
    problems: tuple[ProblemOut, ...] = ()
    """What stands in the way of the case's own plan."""

    @property
    def choice(self) -> ChoiceOut:
        """The plan as a record."""
        return self.priced.choice(self.row, self.rank)

    @property
    def split(self) -> Split:
        """The plan as the input it could have been."""
        return self.priced.candidates.split_at(self.row)

    @property
    def following(self) -> ChoiceOut | None:
        """The plan ranked next, if there is one."""
        after = self.row + 1
        return self.priced.choice(after, after + 1) if self.rank and after < len(self.priced.candidates) else None


def chosen(case: Case, rank: int | None = None, objective: Objective = "step-time") -> Chosen | None:
    """The plan of that rank; without a rank the case's own plan, or else the first; None if nothing fits.

    Raises InputError if there are not so many plans, and InvalidShardingError if MaxText would refuse the case's own.
    """
    if rank is None and case.plan is not None:
        return _own(case, case.plan)
    place = rank or 1
    asked, found = search_strategies(question(case, objective, place + 1))
    if not len(found.ranked):
        return None
    if len(found.ranked) < place:
        message = f"there is no plan of rank {place}: {len(found.ranked)} plans fit"
        raise InputError([Diagnostic("SP017", message, Mark(case.name), "shardplan recommend lists them")])
    return Chosen(asked.case, Priced.of(asked.case, asked.profile, asked.catalogue, found.ranked), place - 1, place)


def _own(case: Case, plan: Split) -> Chosen:
    split = split_rows(case, plan)
    judged = judge_split(case, split, case.name)
    if judged.verdict == "invalid":
        where = Mark(f"{case.name}: plan")
        raise InvalidShardingError(Diagnostic(p.code, p.message, where, p.hint) for p in judged.problems)
    asked = question(case, "step-time", 1)
    return Chosen(case, Priced.of(case, asked.profile, asked.catalogue, split), 0, OWN_RANK, judged.problems)
