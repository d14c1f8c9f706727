"""Which rule fires on which candidate, and what follows for the candidate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shardplan.catalogue.rules import Rule
    from shardplan.judge.facts import Facts
    from shardplan.units import Bools, Ints


@dataclass(frozen=True)
class Verdicts:
    """The rules that fire on some candidate, with where they do."""

    facts: Facts
    rules: tuple[Rule, ...]
    """Rules that fire anywhere, in order of code."""
    masks: Mapping[str, Bools]
    """Where each of them fires, `(n,)`, by code."""

    @cached_property
    def forbidden(self) -> Bools:
        """Candidates that are no plan, `(n,)`."""
        return self._where("forbid")

    @cached_property
    def demotions(self) -> Ints:
        """How many rules rank each candidate below its equals, `(n,)`."""
        found = np.zeros(self.facts.n, dtype=np.int64)
        for rule in self.rules:
            if rule.effect == "demote":
                found += self.masks[rule.code]
        return found

    @cached_property
    def preferred(self) -> Bools:
        """Candidates to be ranked above their equals, `(n,)`."""
        return self._where("prefer")

    def tally(self) -> dict[str, int]:
        """Forbidden candidates by code; one that several rules forbid counts for the first of them."""
        counts: dict[str, int] = {}
        left = np.ones(self.facts.n, dtype=np.bool_)
        for rule in self.rules:
            if rule.effect == "forbid":
                hit = self.masks[rule.code] & left
                left &= ~hit
                if hit.any():
                    counts[rule.code] = int(hit.sum())
        return counts

    def firing(self, row: int) -> tuple[Rule, ...]:
        """The rules that fire on one candidate, in order of code."""
        return tuple(rule for rule in self.rules if self.masks[rule.code][row])

    def _where(self, effect: str) -> Bools:
        found = np.zeros(self.facts.n, dtype=np.bool_)
        for rule in self.rules:
            if rule.effect == effect:
                found |= self.masks[rule.code]
        return found


def judge(facts: Facts, rules: Iterable[Rule]) -> Verdicts:
    """The verdicts of some rules, or of a whole catalogue, on every candidate."""
    fired: list[Rule] = []
    masks: dict[str, Bools] = {}
    for rule in rules:
        if rule.concerns(facts.chip, facts.maxtext):
            mask = _mask(rule, facts)
            if mask.any():
                fired.append(rule)
                masks[rule.code] = mask
    return Verdicts(facts, tuple(sorted(fired, key=lambda rule: rule.code)), masks)


def _mask(rule: Rule, facts: Facts) -> Bools:
    """Where a rule fires, `(n,)`; one candidate is judged without columns, which is ten times as fast."""
    if facts.n == 1:
        return np.array([rule.predicate.holds(facts.at(0))])
    return rule.predicate.mask(facts, facts.n)
