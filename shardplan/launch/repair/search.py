"""`check --fix`: the smallest change of a launch's flags that makes it legal and fitting.

A search over edits of the flags, single ones first. Every state is read and judged as `check` does, so what is printed has
been checked. Edits that leave the training as it is (mesh, remat, tiling, micro-steps) go before those that change the
batch or a type; among equals, fewer flags, then values nearer to the user's, then the faster launch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from shardplan.engine.decide import catalogue
from shardplan.engine.priced import Priced
from shardplan.engine.ranking import FITS, fit_classes
from shardplan.errors import InvalidShardingError, ShardplanError
from shardplan.judge.profile import profile
from shardplan.launch.repair.edits import edits_of
from shardplan.spec import Workload
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shardplan.launch.repair.edits import Edit, Machine
    from shardplan.loaders.maxtext_flags import Launch
    from shardplan.spec import Case

    Flags = Mapping[str, Any]

MOST_EDITS: Final = 5
BEAM: Final = 5
"""States that are edited again, of those a level has left unfit."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How far a state is from legal and fitting; compared field by field, smaller is nearer."""

    phase: int
    """3: cannot be modelled; 2: MaxText would refuse the flags; 1: rules forbid it; 0: only memory is left."""
    problems: frozenset[str]
    excess: float
    """Bytes over what counts as fitting, over the limit; at most 0 where it fits."""
    seconds_per_sequence: float = math.inf

    @property
    def is_good(self) -> bool:
        """Whether the launch is legal and fits."""
        return self.phase == 0 and self.excess <= 0


@dataclass(frozen=True, slots=True)
class State:
    """The flags after some edits."""

    flags: Flags
    edits: tuple[Edit, ...] = ()
    shortfall: Shortfall = field(default=Shortfall(2, frozenset(), math.inf))
    launch: Launch | None = None
    before: frozenset[str] = frozenset()
    """Problems before the last edit."""

    @property
    def alters(self) -> bool:
        """Whether anything is trained otherwise than asked."""
        return any(edit.alters for edit in self.edits)

    @property
    def n_changed(self) -> int:
        """Flags that were changed."""
        return sum(edit.size for edit in self.edits)

    @property
    def cost(self) -> tuple[bool, int, float, float]:
        """What is minimised among states that are good: training kept, flags changed, distance, time."""
        distance = sum(edit.distance for edit in self.edits)
        return self.alters, self.n_changed, distance, self.shortfall.seconds_per_sequence

    @property
    def order(self) -> tuple[Any, ...]:
        """Nearest to good first: fewest of the last problems left, then fewest at all; then the smaller change."""
        shortfall = self.shortfall
        left, excess = len(shortfall.problems & self.before), round(max(0.0, shortfall.excess), 2)
        return (shortfall.phase, left, len(shortfall.problems), excess, *self.cost)


def repair(flags: Flags, machine: Machine) -> dict[str, Any] | None:
    """The flags after the smallest change found that makes the launch legal and fitting; None if there is none."""
    best = _search(State(flags), machine)
    return None if best is None else dict(best.flags)


def _search(start: State, machine: Machine) -> State | None:
    """The cheapest good state among those of the first levels that have one."""
    frontier, seen, good = list(_judged([start], machine)), {_key(start.flags)}, list[State]()
    only_memory = all(state.shortfall.phase == 0 for state in frontier)
    for level in range(1, MOST_EDITS + 1):
        reached = list(_judged([after for state in frontier for after in _after(state, machine, seen)], machine))
        good = sorted((*good, *(s for s in reached if s.shortfall.is_good)), key=lambda s: s.cost)
        if good and not good[0].alters and (only_memory or good[0].n_changed <= level):
            break
        # Guard: once a change is known to help, only smaller ones that keep the training are worth more edits.
        worth = [s for s in reached if not s.shortfall.is_good and not (good and (s.alters or level > 1))]
        frontier = sorted(worth, key=lambda s: s.order)[:BEAM]
    return good[0] if good else None


def _after(state: State, machine: Machine, seen: set[str]) -> Iterator[State]:
    """The states one edit away that were not seen yet."""
    memory_only = state.shortfall.phase == 0
    for edit in edits_of(state.flags, machine, memory_only=memory_only):
        flags = {key: value for key, value in state.flags.items() if key not in edit.removed}
        flags |= edit.values
        if _key(flags) not in seen:
            seen.add(_key(flags))
            yield State(flags, (*state.edits, edit), before=state.shortfall.problems)


def _key(flags: Flags) -> str:
    return repr(sorted((key, str(value)) for key, value in flags.items()))


# --- judging many states at once -----------------------------------------------------------------------------------


def _judged(states: Iterable[State], machine: Machine) -> Iterator[State]:
    """The states with their shortfall; launches that differ in their split only are priced together."""
    groups: list[tuple[Case, list[State]]] = []
    for state in states:
        try:
            launch = machine.launch(state.flags)
            if launch.drift:
                raise InvalidShardingError(launch.drift)
        except ShardplanError as error:
            problems = frozenset(diagnostic.message for diagnostic in error.diagnostics)
            phase = 2 if isinstance(error, InvalidShardingError) else 3
            yield replace(state, shortfall=Shortfall(phase, problems, math.inf))
            continue
        case, read = _unsplit(launch.case), replace(state, launch=launch)
        for known, members in groups:
            if known == case:
                members.append(read)
                break
        else:
            groups.append((case, [read]))
    for case, members in groups:
        yield from _priced(case, members)


def _unsplit(case: Case) -> Case:
    """The case without what its split says too, but for leave to split axes, which rules ask the case for."""
    assert case.plan is not None, "a launch has a plan"
    free = Workload.model_validate({**dict(case.workload), "global_batch": None, "per_device_batch": "auto"})
    bounds = case.constraints.model_copy(update={"allow_split_physical_axes": case.plan.allow_split_physical_axes})
    return case.model_copy(update={"plan": None, "workload": free, "constraints": bounds})


def _priced(case: Case, states: list[State]) -> Iterator[State]:
    """States of one case with their shortfall."""
    splits = [state.launch.split for state in states if state.launch is not None]
    priced = Priced.of(case, profile(case), catalogue(), split_rows(case, *splits))
    memory, time = priced.estimates.memory, priced.estimates.time
    classes = fit_classes(case, memory.total_bytes, memory.error_band)
    limit = case.cluster.hbm_limit_bytes * (1 - case.constraints.hbm_headroom)
    for row, state in enumerate(states):
        broken = frozenset(
            rule.code for rule in priced.verdicts.firing(row) if rule.effect == "forbid" and rule.family != "memory"
        )
        fits = classes[row] == FITS
        excess = -1.0 if fits else max(1e-9, float(memory.total_bytes[row]) / limit - 0.5)
        seconds = float(time.estimate_s[row]) / float(priced.candidates.global_batch[row])
        yield replace(state, shortfall=Shortfall(int(bool(broken)), broken, excess, seconds))
