"""`shardplan check`: does a configuration fit, and would MaxText take it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shardplan.cli.help import exit_codes
from shardplan.cli.options import LaunchMaxTextOption, OutputOption, RankOption, WidthOption

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardplan.errors import Diagnostic, ExitCode
    from shardplan.plan import CheckOut
    from shardplan.render import Style

EXIT_CODES = exit_codes(
    yes="every configuration fits",
    no="at least one does not fit (with --strict, or is at risk)",
    invalid="at least one would be refused by MaxText or the hardware",
)


def check(
    context: typer.Context,
    case: Annotated[
        str | None,
        typer.Argument(
            metavar="CASE | -- COMMAND...",
            help="YAML file of a case with a plan section; or a MaxText launch, verbatim.",
        ),
    ] = None,
    *,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="FILE", help="JSON that recommend -o json printed; see --rank."),
    ] = None,
    rank: RankOption = None,
    accelerator: Annotated[
        str | None,
        typer.Option("--accelerator", metavar="NAME", help="Slice of a launch command, such as tpu7x-256."),
    ] = None,
    slices: Annotated[
        int | None,
        typer.Option("--slices", metavar="N", min=1, max=100_000, help="Slices of a launch command; by default 1."),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="JSON lines of id, topology, slices and flags; - for stdin."),
    ] = None,
    maxtext: LaunchMaxTextOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Let at risk count as does not fit.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Find the smallest change of flags that makes it legal and fitting.")
    ] = False,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""Judge a configuration before it is launched: fits, at risk, does not fit or invalid, and what would help.

    \b
    Examples:
      shardplan check case.yaml
      shardplan check --plan plan.json --rank 2
      shardplan check --accelerator tpu7x-256 --slices 1 -- \
        python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3.1-8b ici_fsdp_parallelism=-1
      shardplan check --maxtext auto --accelerator v5p-256 -- \
        python3 -m MaxText.train MaxText/configs/base.yml model_name=llama2-7b
      shardplan check --from configurations.jsonl -o json
      shardplan check --fix --plan plan.json --rank 2
    """
    command = (context.obj or {}).get("command_line")
    given = {"CASE": case, "--plan": plan, "--from": from_file, "-- COMMAND": command}
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        found = " and ".join(named) or "none of them"
        raise typer.BadParameter(f"give exactly one of {', '.join(given)}; found {found}.", context)
    if command is None and (accelerator is not None or slices is not None):
        raise typer.BadParameter("--accelerator and --slices belong to a launch command after --.", context)
    if fix and case is not None:
        raise typer.BadParameter("--fix changes flags: of a launch command, --plan or --from.", context)
    from shardplan.cli.output import finish, show, style
    from shardplan.launch import gate
    from shardplan.render.check import check_page

    if from_file is not None:
        finish(_check_lines(gate.judge_lines(from_file, maxtext=maxtext, fix=fix), style(output, width), strict=strict))
    if case is not None:
        judged = gate.check_case(case, maxtext)
    elif plan is not None:
        judged = gate.check_plan(plan, rank or 1, maxtext=maxtext, fix=fix)
    else:
        assert command is not None, "one of the four was given"
        judged = gate.check_command(command, accelerator, slices, maxtext=maxtext, fix=fix)
    show(judged.results, lambda: check_page(judged.results), output, width)
    finish(gate.exit_code({result.verdict for result in judged.results}, at_risk_is_no=strict))


def _check_lines(found: Iterable[CheckOut | Diagnostic], style: Style, *, strict: bool) -> ExitCode:
    """Print verdicts and errors as they come; the exit code of them all."""
    from shardplan.cli.diagnostics import print_diagnostics
    from shardplan.cli.output import emit
    from shardplan.launch.gate import exit_code
    from shardplan.plan import CheckOut
    from shardplan.render.stream import streamed

    verdicts: set[str] = set()
    unreadable = False

    def results() -> Iterator[CheckOut]:
        nonlocal unreadable
        for each in found:
            if isinstance(each, CheckOut):
                verdicts.add(each.verdict)
                yield each
            else:
                unreadable = True
                print_diagnostics([each])

    for piece in streamed(results(), style):
        emit(piece)
    return exit_code(verdicts, unreadable=unreadable, at_risk_is_no=strict)
