"""The gate before a launch: configurations from a case, a plan, a command line or JSON lines, judged one by one.

A configuration that MaxText would refuse is a verdict (`invalid`); one that cannot be read is an error of the input. In
JSON lines, the errors of one line do not keep the others from being judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardplan.engine.decide import check_split
from shardplan.errors import Diagnostic, ExitCode, InputError, Mark
from shardplan.launch.repair.patch import Attempt, patch_for
from shardplan.launch.verdict import Asked, ask, verdict_on, verdicts_on, with_ways_out
from shardplan.loaders.load import load_command, load_record, parse_case
from shardplan.plan import CheckOut, ChoiceOut, PlanOut
from shardplan.source import build, parse_json, read_document
from shardplan.source.files import STDIN, decode, line_batches
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from shardplan.loaders.maxtext_flags import Launch


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
    """The verdicts on JSON lines, see `judge_lines`, all together."""
    found = list(judge_lines(path, maxtext=maxtext, fix=fix))
    results = tuple(each for each in found if isinstance(each, CheckOut))
    return Judged(results, tuple(each for each in found if isinstance(each, Diagnostic)))


def judge_lines(path: str, *, maxtext: str | None = None, fix: bool = False) -> Iterator[CheckOut | Diagnostic]:
    """The verdict on each JSON line of `{"id", "topology", "slices", "flags"}`, or what is wrong with it, in order.

    They come as the lines do; `-` reads standard input. Raises InputError if there is no line or the file cannot be read.
    """
    name, is_empty = "stdin" if path == STDIN else path, True
    for lines in line_batches(path):
        read = [_read(line, Mark(name, number), maxtext) for number, line in lines if line.strip()]
        is_empty &= not read
        verdicts = iter(
            verdicts_on([line.asked for line in read if isinstance(line, _Line) and isinstance(line.asked, Asked)])
        )
        for line in read:
            if isinstance(line, _Line):
                yield line.verdict(verdicts, fix=fix)
            else:
                yield from line
    if is_empty:
        raise InputError([Diagnostic("SP006", "there is no configuration in it", Mark(name))])


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A line that says a configuration."""

    mark: Mark
    record: dict[str, Any]
    asked: Asked | CheckOut
    """A launch, or the verdict where it needs no price."""

    def verdict(self, priced: Iterator[CheckOut], *, fix: bool) -> CheckOut:
        """The verdict, which is the next of the priced ones if the line needs a price."""
        asked = self.asked
        result = asked if isinstance(asked, CheckOut) else with_ways_out(asked, next(priced))
        result = _placed(result, self.mark)
        return _mended(result, Attempt.of_record(self.record, result.release)) if fix else result


def _read(line: bytes, mark: Mark, maxtext: str | None) -> _Line | list[Diagnostic]:
    """The configuration of a line, or what is wrong with the line."""
    try:
        record = _record(decode(line, mark.source), mark.source)
        name = str(record.get("id") or f"line {mark.line}")
        return _Line(mark, record, ask(name, partial(load_record, record), maxtext or _release(record)))
    except InputError as error:
        return [_at_line(diagnostic, mark) for diagnostic in error.diagnostics]


def plan_of_rank(plan: PlanOut, rank: int, mark: Mark | None = None) -> ChoiceOut:
    """The plan of that rank; InputError if there are not so many."""
    for choice in plan.plans:
        if choice.rank == rank:
            return choice
    ranks = f"the ranks are 1 to {len(plan.plans)}" if plan.plans else "nothing fits"
    raise InputError([Diagnostic("SP014", f"no plan of rank {rank}; {ranks}", mark)])


def exit_code(verdicts: Container[str], *, unreadable: bool = False, at_risk_is_no: bool) -> ExitCode:
    """The gravest of the outcomes: unreadable, invalid, does not fit, fits."""
    if unreadable:
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


def _at_line(diagnostic: Diagnostic, line: Mark) -> Diagnostic:
    """The diagnostic with its place in the file instead of in the line or in the flags."""
    mark = diagnostic.mark
    column = mark.column if mark is not None and mark.source == line.source else None
    return replace(diagnostic, mark=replace(line, column=column))
