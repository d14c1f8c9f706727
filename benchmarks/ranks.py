"""Where our search ranks each published plan, and what it thinks its own first plan would gain.

usage: python -m benchmarks.ranks

Model, chips, sequence and global batch are the run's; everything else is searched. The published mesh is looked for in the
list; its own time is predicted with its own remat set.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shardplan.candidates import concatenated
from shardplan.choice import strategy_of
from shardplan.cost.estimate import estimate
from shardplan.engine import catalogue
from shardplan.profile import profile
from shardplan.published import Run, read_runs
from shardplan.ranking import mesh_identity
from shardplan.search import Question, search

if TYPE_CHECKING:
    from shardplan.spec import Workload

RUNS = Path(__file__).parents[1] / "tests" / "data" / "recipes_tpu.jsonl"
DEEP = 12
"""Plans looked through for the published mesh."""
HIGH = 3
"""A published plan below this rank needs an explanation."""
WORTH = 0.1
"""So does a gain above this share."""


def main() -> int:
    """Print one line a run, the newest of each configuration."""
    print(f"{'run':<62} {'published':<34} {'rank':>4} {'measured':>9} {'predicted':>9} {'our first':>9} {'gain':>6}")
    newest = {_key(run): run for run in read_runs(RUNS)}
    ranks, gains = [], []
    for run in newest.values():
        rank, gain, line = _line(run)
        ranks.append(rank)
        gains.append(gain)
        print(line, flush=True)
    known = [rank for rank in ranks if rank]
    print(f"rank 1: {sum(r == 1 for r in known)}, rank <= {HIGH}: {sum(r <= HIGH for r in known)} of {len(ranks)}; "
          f"median gain {np.median(gains):.1%}, gains over {WORTH:.0%}: {sum(g > WORTH for g in gains)}")  # fmt: skip
    return 0


def _key(run: Run) -> str:
    """What makes two runs the same question: their ids up to the revision."""
    return run.name.partition("@")[0]


def _line(run: Run) -> tuple[int | None, float, str]:
    case = run.case.model_copy(update={"plan": None, "workload": _whole_batch(run)})
    found = search(Question(case, profile(case), catalogue(), "step-time", DEEP))
    own = estimate(run.case, run.candidates)
    per_sequence = float(own.time.estimate_s[0] / run.candidates.global_batch[0])
    plan = run.case.plan
    assert plan is not None
    name = strategy_of(plan.ici, plan.dcn)
    if not len(found.ranked):
        return None, 0.0, f"{run.name[:62]:<62} {name[:34]:<34}    -  nothing fits by our count"
    both = concatenated([found.ranked, replace(run.candidates, remat=np.zeros(1, dtype=np.int64))])
    identity = mesh_identity(both)
    places = np.flatnonzero(identity[:-1] == identity[-1])
    rank = int(places[0]) + 1 if len(places) else None
    first = estimate(case, found.ranked.take(np.array([0])))
    best = float(first.time.estimate_s[0] / found.ranked.global_batch[0])
    gain = per_sequence / best - 1
    batch = float(run.candidates.global_batch[0])
    ours = strategy_of(found.ranked.ici.at(0), found.ranked.dcn.at(0))
    return rank, gain, (
        f"{run.name[:62]:<62} {name[:34]:<34} {rank or '-':>4} {run.step_time_s:>8.2f}s {per_sequence * batch:>8.2f}s "
        f"{best * batch:>8.2f}s {gain:>+6.1%}  {ours}, {found.ranked.policy_at(0).name}"
    )  # fmt: skip


def _whole_batch(run: Run) -> Workload:
    """The run's workload with its global batch fixed, so that every other split of it may be found."""
    batch = round(float(run.candidates.global_batch[0]))
    return run.case.workload.model_copy(
        update={"global_batch": batch, "per_device_batch": None, "global_batch_tokens": None}
    )


if __name__ == "__main__":
    sys.exit(main())
