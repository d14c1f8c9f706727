"""Where our search ranks each published plan, and what it thinks its own first plan would gain.

usage: python -m benchmarks.ranks [--write]

Model, chips, sequence and global batch are the run's; everything else is searched, with keys and values gathered where a
plan has context parallelism. The published mesh is looked for in the list; its own time is predicted with its own remat set. `--write` also puts the rows where the accuracy page reads them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.published import newest, read_runs
from shardplan.engine.decide import catalogue
from shardplan.engine.priced import Priced, strategy_of
from shardplan.engine.ranking import mesh_identity
from shardplan.engine.search import Question, search
from shardplan.judge.profile import profile
from shardplan.spec import Runtime
from shardplan.splits.candidates import concatenated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.published import Run
    from shardplan.spec import Case, RematPolicy, Workload
    from shardplan.splits.candidates import Candidates

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "tests" / "data" / "recipes_tpu.jsonl"
ROWS = ROOT / "docs" / "data" / "ranks.json"
DEEP = 12
"""Plans looked through for the published mesh."""
HIGH = 3
"""A published plan below this rank needs an explanation."""
WORTH = 0.1
"""So does a gain above this share."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A plan in short, as the model prices it."""

    strategy: str
    remat: str
    step_time_s: float
    """Of the run's whole global batch."""
    parts_s: dict[str, float]
    """The step time by part."""
    needed_bytes: float
    limit_bytes: float
    verdict: str
    rules: list[str]
    """Codes of the rules that forbid it."""


@dataclass(frozen=True, slots=True)
class RankRow:
    """One published run: its plan and ours."""

    run: str
    measured_s: float
    published: PlanRow
    first: PlanRow | None
    """Rank 1 of the search; None where nothing fits by our count."""
    rank: int | None
    """Of the published mesh, with the remat set and batch split we would choose for it; None where it is not listed."""
    gain: float = field(default=0.0)
    """Predicted time of the published plan over that of ours, less one."""

    @property
    def needs_reason(self) -> bool:
        """Whether the published plan ranks low or ours promises much."""
        return self.rank is None or self.rank > HIGH or self.gain > WORTH


def rank_row(run: Run) -> RankRow:
    """Search again what a run was asked, and look for its plan."""
    runtime = run.case.runtime.model_copy(update={"context_strategy": Runtime().context_strategy})
    case = run.case.model_copy(update={"plan": None, "workload": _whole_batch(run), "runtime": runtime})
    found = search(Question(case, profile(case), catalogue(), "step-time", DEEP)).ranked
    published = _plan_row(run.case, run.candidates, run.candidates)
    if not len(found):
        return RankRow(run.name, run.step_time_s, published, None, None)
    both = concatenated([found, replace(run.candidates, remat=np.zeros(1, dtype=np.int64))])
    identity = mesh_identity(both)
    places = np.flatnonzero(identity[:-1] == identity[-1])
    first = _plan_row(case, found.take(np.array([0])), run.candidates)
    rank = int(places[0]) + 1 if len(places) else None
    return RankRow(
        run.name, run.step_time_s, published, first, rank, gain=published.step_time_s / first.step_time_s - 1
    )


def _plan_row(case: Case, candidates: Candidates, like: Candidates) -> PlanRow:
    """The first of some candidates; seconds for as many sequences as another plan trains in a step."""
    priced = Priced.of(case, profile(case), catalogue(), candidates)
    time, memory = priced.estimates.time, priced.estimates.memory
    scale = float(like.global_batch[0] / candidates.global_batch[0])
    return PlanRow(
        strategy=strategy_of(candidates.ici.at(0), candidates.dcn.at(0)),
        remat=_remat_text(candidates.policy_at(0)),
        step_time_s=float(time.estimate_s[0]) * scale,
        parts_s={part: round(float(seconds[0]) * scale, 4) for part, seconds in time.breakdown.items()},
        needed_bytes=float(memory.total_bytes[0]),
        limit_bytes=float(case.cluster.hbm_limit_bytes),
        verdict=priced.verdict(0),
        rules=sorted(rule.code for rule in priced.verdicts.firing(0) if rule.effect == "forbid"),
    )


def _remat_text(policy: RematPolicy) -> str:
    """A named policy by its name, a custom one by what it keeps where."""
    if policy.name != "custom":
        return policy.name
    kept = [f"keeps {', '.join(sorted(policy.device))}"] if policy.device else []
    kept += [f"offloads {', '.join(sorted(policy.offload))}"] if policy.offload else []
    return "; ".join(kept) or "keeps nothing"


def _whole_batch(run: Run) -> Workload:
    """The run's workload with its global batch fixed, so that every other split of it may be found."""
    batch = round(float(run.candidates.global_batch[0]))
    return run.case.workload.model_copy(
        update={"global_batch": batch, "per_device_batch": None, "global_batch_tokens": None}
    )


def read_rows(path: Path = ROWS) -> list[RankRow]:
    """The rows written last."""
    return [_read(row) for row in json.loads(path.read_text(encoding="utf-8"))]


def _read(row: dict[str, object]) -> RankRow:
    plans = {key: PlanRow(**row.pop(key)) if row.get(key) else row.pop(key) for key in ("published", "first")}  # type: ignore[arg-type]
    return RankRow(**plans, **row)  # type: ignore[arg-type]


def lines(rows: Iterable[RankRow]) -> Iterator[str]:
    """One line a run."""
    yield f"{'run':<62} {'published':<34} {'rank':>4} {'measured':>9} {'predicted':>9} {'our first':>9} {'gain':>6}"
    for row in rows:
        start = f"{row.run[:62]:<62} {row.published.strategy[:34]:<34} {row.rank or '-':>4} {row.measured_s:>8.2f}s"
        if row.first is None:
            yield f"{start}  nothing fits by our count"
            continue
        times = f"{row.published.step_time_s:>8.2f}s {row.first.step_time_s:>8.2f}s {row.gain:>+6.1%}"
        yield f"{start} {times}  {row.first.strategy}, {row.first.remat}"


def summary(rows: Sequence[RankRow]) -> str:
    """How many published plans rank first, or high, and what ours would gain."""
    known = [row.rank for row in rows if row.rank]
    gains = [row.gain for row in rows if row.first]
    return (
        f"rank 1: {sum(r == 1 for r in known)}, rank <= {HIGH}: {sum(r <= HIGH for r in known)} of {len(rows)}; "
        f"median gain {np.median(gains):.1%}, gains over {WORTH:.0%}: {sum(g > WORTH for g in gains)}"
    )


def main() -> None:
    """Print one line a run, the newest of each configuration; write the rows if asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true", help="write docs/data/ranks.json")
    chosen = options.parse_args()
    rows = [rank_row(run) for run in newest(read_runs(RUNS))]
    print("\n".join(lines(rows)))
    print(summary(rows))
    if chosen.write:
        ROWS.parent.mkdir(exist_ok=True)
        ROWS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
