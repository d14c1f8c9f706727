"""Plans by reference: a case, what `recommend -o json` printed, flags, or a file with a launch command.

`FILE#N` is rank N of a case or of a printed plan, and line N of JSON lines.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardplan.engine.chosen import chosen
from shardplan.errors import Diagnostic, InputError, InvalidShardingError, Mark
from shardplan.launch.diff import Planned
from shardplan.launch.gate import flag_record, plan_of_rank
from shardplan.loaders.load import load_command, load_record, parse_case
from shardplan.plan import PlanOut
from shardplan.source import Document, build, parse_json, read_document, read_text

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags import Launch

_STRUCTURED = {".yaml", ".yml", ".json"}


def read_planned(
    reference: str,
    *,
    rank: int | None = None,
    accelerator: str | None = None,
    slices: int | None = None,
    maxtext: str | None = None,
) -> Planned:
    """The plan a reference stands for; InputError or InvalidShardingError with all that is wrong with it.

    `rank` is that of a case or a printed plan unless the reference says it; the accelerator that of a launch command.
    """
    path, number = _taken_apart(reference)
    rank = number or rank
    if Path(path).suffix.lower() in _STRUCTURED:
        return _of_document(read_document(path), Path(path), rank, maxtext)
    text = read_text(path)
    if text.lstrip().startswith("{"):
        lines = [line for line in text.split("\n") if line.strip()]
        line = (rank or 1) - 1
        if line >= len(lines):
            raise InputError([Diagnostic("SP014", f"there is no line {line + 1}: {len(lines)} lines", Mark(path))])
        return _of_document(parse_json(lines[line], path), Path(path), None, maxtext)
    launch = load_command([f"{text.strip()} "], accelerator=accelerator, slices=slices, maxtext=maxtext)
    return _of_launch(launch, Path(path).name)


def _taken_apart(reference: str) -> tuple[str, int | None]:
    """Path and number of `FILE#N`; a file of that very name goes first."""
    match = re.fullmatch(r"(.+)#([1-9]\d{0,8})", reference, re.DOTALL)
    if match is None or Path(reference).exists():
        return reference, None
    return match[1], int(match[2])


def _of_document(document: Document, path: Path, rank: int | None, maxtext: str | None) -> Planned:
    """A case, a printed plan or a record of flags, by their keys."""
    value: Any = document.value
    if isinstance(value, dict) and "flags" in value:
        return _of_launch(load_record(value, maxtext), str(value.get("id") or path.name))
    if isinstance(value, dict) and "shardplan_version" in value:
        plan = build(PlanOut, document)
        choice = plan_of_rank(plan, rank or 1, document.mark(("plans",)))
        return _of_launch(load_record(flag_record(plan, choice), maxtext), f"{plan.case}#{choice.rank}")
    case = parse_case(document, path.parent, maxtext)
    if case.plan is not None and rank is None:
        return Planned(case.name, case, case.plan)
    found = chosen(case, rank)
    if found is None:
        raise InputError([Diagnostic("SP014", "nothing fits, so there is no plan to compare", Mark(str(path)))])
    return Planned(f"{case.name}#{found.rank}", found.case, found.split)


def _of_launch(launch: Launch, name: str) -> Planned:
    if launch.drift:
        raise InvalidShardingError(launch.drift)
    return Planned(name, launch.case, launch.split)
