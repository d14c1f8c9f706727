"""Where the search ranks the plans Google published, and what it expects to gain over them.

For each published recipe: model, slice, sequence and batch are given, everything else is searched. Printed are the rank of
the published mesh among the meshes found, the published plan's own predicted time, and the time of our first plan.
`python -m benchmarks.rank_published [PART OF A NAME ...]`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shardplan.cost.estimate import estimate
from shardplan.engine import decide
from shardplan.published import Run, read_runs

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut

RUNS = Path(__file__).parent.parent / "tests" / "data" / "recipes_tpu.jsonl"
MESHES = 20


def unique(runs: tuple[Run, ...]) -> list[Run]:
    """The newest run of each model, slice, batch and precision."""
    newest: dict[tuple[object, ...], Run] = {}
    for run in runs:
        case = run.case
        newest[case.architecture.name, case.cluster.topology, case.cluster.slices, case.workload] = run
    return list(newest.values())


def rank_of(run: Run, plans: tuple[ChoiceOut, ...]) -> int | None:
    """Place of the published mesh among ours; None if it is not among them."""
    ici, dcn = run.candidates.ici.at(0), run.candidates.dcn.at(0)
    return next((plan.rank for plan in plans if plan.mesh.ici == ici and plan.mesh.dcn == dcn), None)


def main() -> None:
    """Print one line a recipe."""
    wanted = sys.argv[1:]
    print(
        f"{'recipe':58} {'published':>9} {'its plan':>9} {'HBM GiB':>7}  {'rank':>4} {'first':>8} {'gain':>6}  first plan"
    )
    for run in unique(read_runs(RUNS)):
        if wanted and not any(part in run.name for part in wanted):
            continue
        own = estimate(run.case, run.candidates)
        own_s, own_gib = float(own.time.estimate_s[0]), float(own.memory.total_bytes[0]) / 2**30
        plans = decide(run.case.model_copy(update={"plan": None}), top=MESHES).plans
        if not plans:
            print(f"{run.name:58} {run.step_time_s:8.2f}s {own_s:8.2f}s {own_gib:7.1f}  nothing fits")
            continue
        first, rank = plans[0], rank_of(run, plans)
        mesh = " ".join(
            f"{axis}={n}" for axis, n in (first.mesh.ici | {f"dcn.{a}": n for a, n in first.mesh.dcn.items()}).items()
        )
        remat = (
            first.remat_policy
            if first.remat_policy != "custom"
            else ",".join(name if where == "device" else f"{name}@host" for name, where in first.remat_tensors.items())
        )
        print(
            f"{run.name:58} {run.step_time_s:8.2f}s {own_s:8.2f}s {own_gib:7.1f}  {rank or '-':>4} "
            f"{first.time.estimate_s:7.2f}s {1 - first.time.estimate_s / own_s:6.1%}  {mesh} x{first.gradient_accumulation} [{remat}]"
        )


if __name__ == "__main__":
    main()
