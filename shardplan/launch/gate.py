"""The gate before a launch: configurations from a case, a plan, a command line or JSON lines, judged one by one.

A configuration that MaxText would refuse is a verdict (`invalid`); one that cannot be read is an error of the input. In
JSON lines, the errors of one line do not keep the others from being judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from shardplan.engine.decide import check_split
from shardplan.errors import Diagnostic, ExitCode, InputError, Mark
from shardplan.launch.repair.patch import Attempt, patch_for
from shardplan.launch.verdict import verdict_on
from shardplan.loaders.load import load_command, load_record, parse_case
from shardplan.plan import CheckOut, ChoiceOut, PlanOut
from shardplan.source import build, parse_json, read_document, read_text
from shardplan.source.files import read_stdin
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.loaders.maxtext_flags import Launch

MAX_LINES_BYTES: Final = 64 * 2**20
"""JSON lines beyond this are refused."""
STDIN: Final = "-"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of the configurations."""

    results: tuple[CheckOut, ...]
    unreadable: tuple[Diagnostic, ...] = ()
    """Errors of the lines that could not be read."""


def check_case(path: str, maxtext: str | None = None) -> Judged:
    """The verdict on the `plan` section of a case."""
    document = read_document(path)
    case = parse_case(document, Path(path).parent, maxtext)
    if case.plan is None:
        hint = "add one, or ask shardplan recommend for plans"
        raise InputError([Diagnostic("SP011", "the case has no section plan to check", Mark(path), hint)])
    result = check_split(case, split_rows(case, case.plan), case.name)
    return Judged((_placed(result, document.mark(("plan",))),))


def check_plan(path: str, rank: int, *, maxtext: str | None = None, fix: bool = False) -> Judged:
    """The verdict on one plan of what `recommend -o json` (or yaml) printed, by the flags it would be launched with."""
    document = read_document(path)
    plan = build(PlanOut, document)
    choice = plan_of_rank(plan, rank, document.mark(("plans",)))
    record = flag_record(plan, choice)
    result = verdict_on(record["id"], partial(load_record, record), maxtext or choice.maxtext_release)
    return Judged((_mended(result, Attempt.of_record(record, result.release)) if fix else result,))


def flag_record(plan: PlanOut, choice: ChoiceOut) -> dict[str, Any]:
    """A plan that was printed as `{"id", "topology", "slices", "flags"}`, the way launches are read back.

    Raises InputError for a plan that MaxText cannot launch: it has no flags to judge.
    """
    if choice.why_not_launchable is not None:
        hint = "shardplan export jax prints its mesh and shardings"
        raise InputError([Diagnostic("SP015", f"not launchable: {choice.why_not_launchable}", None, hint)])
    return {
        "id": f"{plan.case}#{choice.rank}",
        "topology": f"{plan.cluster.chip}-{'x'.join(map(str, plan.cluster.topology))}",
        "slices": plan.cluster.slices,
        "flags": dict(choice.maxtext_flags),
        "maxtext": choice.maxtext_release,
    }


def check_command(
    words: Sequence[str],
    accelerator: str | None,
    slices: int | None,
    *,
    maxtext: str | None = None,
    fix: bool = False,
) -> Judged:
    """The verdict on a MaxText command line."""

    def load(release: str | None) -> Launch:
        return load_command(words, accelerator=accelerator, slices=slices, maxtext=release)

    result = verdict_on("command", load, maxtext)
    return Judged((_mended(result, Attempt.of_command(words, accelerator, slices, result.release)) if fix else result,))


def check_lines(path: str, *, maxtext: str | None = None, fix: bool = False) -> Judged:
    """The verdicts on JSON lines of `{"id", "topology", "slices", "flags"}`; `-` reads stdin."""
    if path == STDIN:
        name, text = "stdin", read_stdin(MAX_LINES_BYTES)
    else:
        name, text = path, read_text(path, MAX_LINES_BYTES)
    results: list[CheckOut] = []
    unreadable: list[Diagnostic] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = _record(line, name)
            result = verdict_on(
                str(record.get("id") or f"line {number}"), partial(load_record, record), maxtext or _release(record)
            )
            result = _placed(result, Mark(name, number))
            results.append(_mended(result, Attempt.of_record(record, result.release)) if fix else result)
        except InputError as error:
            unreadable += (_at_line(diagnostic, name, number) for diagnostic in error.diagnostics)
    if not results and not unreadable:
        raise InputError([Diagnostic("SP006", "there is no configuration in it", Mark(name))])
    return Judged(tuple(results), tuple(unreadable))


def plan_of_rank(plan: PlanOut, rank: int, mark: Mark | None = None) -> ChoiceOut:
    """The plan of that rank; InputError if there are not so many."""
    for choice in plan.plans:
        if choice.rank == rank:
            return choice
    ranks = f"the ranks are 1 to {len(plan.plans)}" if plan.plans else "nothing fits"
    raise InputError([Diagnostic("SP014", f"no plan of rank {rank}; {ranks}", mark)])


def exit_code(judged: Judged, *, at_risk_is_no: bool) -> ExitCode:
    """The gravest of the outcomes: unreadable, invalid, does not fit, fits."""
    verdicts = {result.verdict for result in judged.results}
    if judged.unreadable:
        return ExitCode.CANNOT_RUN
    if "invalid" in verdicts:
        return ExitCode.INVALID
    if "does_not_fit" in verdicts or (at_risk_is_no and "at_risk" in verdicts):
        return ExitCode.NO
    return ExitCode.YES


def _placed(result: CheckOut, mark: Mark | None) -> CheckOut:
    """The verdict with every problem placed that has no place of its own."""
    if mark is None or mark.line is None:
        return result
    problems = (problem.model_copy(update={"place": problem.place or str(mark)}) for problem in result.problems)
    return result.model_copy(update={"problems": tuple(problems)})


def _mended(result: CheckOut, attempt: Attempt | None) -> CheckOut:
    """The verdict with the smallest change that would make it a good one, if it is none and there is one."""
    if result.verdict == "fits" or attempt is None:
        return result
    return result.model_copy(update={"patch": patch_for(attempt)})


def _release(record: dict[str, Any]) -> str | None:
    """The release a record names, if it is one that can be asked for."""
    return found if isinstance(found := record.get("maxtext"), str) and found else None


def _record(line: str, name: str) -> dict[str, Any]:
    record = parse_json(line, name).value
    if not isinstance(record, dict):
        raise InputError(
            [Diagnostic("SP012", 'expected a mapping of "id", "topology", "slices" and "flags"', Mark(name))]
        )
    return record


def _at_line(diagnostic: Diagnostic, name: str, number: int) -> Diagnostic:
    """The diagnostic with its place in the file instead of in the line or in the flags."""
    mark = diagnostic.mark
    column = mark.column if mark is not None and mark.source == name else None
    return replace(diagnostic, mark=Mark(name, number, column))
