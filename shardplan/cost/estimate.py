"""The one adapter from candidates to numbers: memory, communication and step time of every candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardplan.cost.memory.total import Memory, memory
from shardplan.cost.network.comm import Collective, collectives
from shardplan.cost.time.step_time import Time, step_seconds, step_time

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats


@dataclass(frozen=True, slots=True)
class Estimates:
    """What the cost model says of some candidates, as columns."""

    memory: Memory
    collectives: tuple[Collective, ...]
    time: Time


def estimate(case: Case, candidates: Candidates) -> Estimates:
    """Memory, communication and time of every candidate."""
    moved = collectives(case, candidates)
    return Estimates(memory(case, candidates), moved, step_time(case, candidates, moved))


def step_time_of(case: Case, candidates: Candidates) -> Floats:
    """Seconds of one optimizer step of every candidate, without its memory."""
    return step_seconds(case, candidates, collectives(case, candidates))
