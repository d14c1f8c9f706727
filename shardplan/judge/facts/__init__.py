"""The vocabulary of rules: every fact a rule may name, with unit, one sentence and one expression.

Facts are computed when a rule first asks for them, for all candidates at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardplan.catalogue.thresholds import thresholds as constants
from shardplan.judge.facts import estimates, laws, machine, mesh, model, thresholds, workload
from shardplan.judge.facts.observation import Fact, Level, Observation

if TYPE_CHECKING:
    from shardplan.catalogue.dimension import Kind
    from shardplan.cost.estimate import Estimates
    from shardplan.judge.profile import Profile
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates

__all__ = ["KINDS", "VOCABULARY", "Fact", "Facts", "Row", "names_known_by", "observe"]

_MODULES: Final = (laws, mesh, workload, model, machine, thresholds, estimates)
VOCABULARY: Final[dict[str, Fact]] = {fact.name: fact for module in _MODULES for fact in module.FACTS}
"""Every fact by name."""
KINDS: Final[dict[str, Kind]] = {name: fact.kind for name, fact in VOCABULARY.items()}
"""Kind of every fact, as the grammar of conditions wants it."""

_LEVELS: Final[tuple[Level, ...]] = ("case", "mesh", "split", "estimates")


def names_known_by(level: Level) -> frozenset[str]:
    """Facts and constants that can be known once the mesh is chosen, or the whole split, or its price."""
    before = _LEVELS[: _LEVELS.index(level) + 1]
    return frozenset(constants()) | {fact.name for fact in VOCABULARY.values() if fact.level in before}


class Facts(Mapping[str, Any]):
    """Facts of some candidates by name: scalars for the whole case, columns `(n,)`, and the named constants."""

    def __init__(self, observation: Observation) -> None:
        self.n = len(observation.candidates)
        self.chip = observation.case.cluster.chip.name
        self.maxtext = observation.case.runtime.maxtext
        self._observation = observation
        self._found: dict[str, Any] = {name: constant.value for name, constant in constants().items()}

    def __getitem__(self, name: str) -> Any:
        if name not in self._found:
            self._found[name] = VOCABULARY[name].of(self._observation)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*constants(), *VOCABULARY])

    def __len__(self) -> int:
        return len(constants()) + len(VOCABULARY)

    def at(self, row: int) -> Row:
        """The facts of one candidate."""
        return Row(self, row)


class Row(Mapping[str, Any]):
    """Facts of one candidate: scalars by name."""

    def __init__(self, facts: Facts, row: int) -> None:
        self._facts, self._row = facts, row

    def __getitem__(self, name: str) -> Any:
        value = self._facts[name]
        return value[self._row] if isinstance(value, np.ndarray) and value.ndim else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def observe(case: Case, profile: Profile | None, candidates: Candidates, estimates: Estimates | None = None) -> Facts:
    """The facts of some candidates. Without a profile or prices, rules that need them must not be asked."""
    return Facts(Observation(case, candidates, profile, estimates))
