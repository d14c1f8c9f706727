"""Published training runs as cases with a step time: what calibration is fitted to and tests compare with.

One JSON object a line: an id, the step time, source, software versions, and a case with its plan, whose
model is a preset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardplan.data import model_configs_folder
from shardplan.machine.chips import resolve_cluster
from shardplan.source import build, read_document
from shardplan.spec import Architecture, Case, Runtime, Split, Workload
from shardplan.splits.candidates import Candidates

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Run:
    """One run: how it was configured and how long a step took."""

    name: str
    step_time_s: float
    source: str
    software: dict[str, str]
    case: Case
    candidates: Candidates
    """The run's own split, one row."""
    note: str = ""

    @property
    def model(self) -> str:
        """The model trained."""
        return self.case.architecture.name


def read_runs(path: Path) -> tuple[Run, ...]:
    """The runs of a file, in its order."""
    return tuple(_run(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line)


def newest(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The last run of each configuration: ids up to the revision, whatever launched it."""
    return tuple({run.name.partition("@")[0].removesuffix("/xpk"): run for run in runs}.values())


def _run(row: dict[str, Any]) -> Run:
    fields = row["case"]
    plan = Split.model_validate(fields["plan"])
    case = Case(
        name=row["id"],
        architecture=_architecture(fields),
        workload=Workload.model_validate(fields["workload"]),
        cluster=resolve_cluster(fields["chip"], topology=fields["topology"], slices=fields["slices"]),
        runtime=Runtime.model_validate(fields.get("runtime", {})),
        plan=plan,
    )
    return Run(
        name=row["id"],
        step_time_s=row["step_time_s"],
        source=row["source"],
        software=row["software"],
        case=case,
        candidates=Candidates.of_splits((plan,), (1,), (False,)),
        note=row.get("note", ""),
    )


def _architecture(fields: dict[str, Any]) -> Architecture:
    """A preset by name, or a structure written out where there is no preset."""
    if "model" in fields:
        return build(Architecture, read_document(model_configs_folder() / f"{fields['model']}.yaml"))
    return Architecture.model_validate(fields["architecture"])
