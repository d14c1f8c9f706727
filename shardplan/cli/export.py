"""`shardplan export`: a plan in the words of the program that launches it, one command an exporter."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shardplan.cli.options import CaseArgument, MaxTextOption, Objective, ObjectiveOption, RankOption
from shardplan.exporters import load_exporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.exporters.placeholder import Placeholder
    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case


def export() -> None:
    """Print a plan as configuration for the program that launches it."""


def command_of(name: str) -> Callable[..., None]:
    """The command of an exporter: case, rank and objective, and an option for each of its placeholders."""
    exporter = load_exporter(name)
    placeholders = {placeholder.name.replace("-", "_"): placeholder for placeholder in exporter.PLACEHOLDERS}

    def command(case: str, rank: int | None, objective: Objective, maxtext: str | None, **values: str | None) -> None:
        from shardplan.cli.output import emit
        from shardplan.exporters.launch import Job

        given = {placeholders[key]: value for key, value in values.items() if value is not None}
        _refuse_unknown(given)
        chosen = _planned(case, rank, objective, release=maxtext, for_maxtext=exporter.FOR_MAXTEXT)
        emit(exporter.export(Job(*chosen, given)))

    declared: dict[str, tuple[Any, Any]] = {
        "case": (CaseArgument, inspect.Parameter.empty),
        "rank": (RankOption, None),
        "objective": (ObjectiveOption, Objective.STEP_TIME),
        "maxtext": (MaxTextOption, None),
        **{key: (_option(placeholder), None) for key, placeholder in placeholders.items()},
    }
    command.__name__, command.__doc__ = name, exporter.ABOUT
    command.__annotations__ = {key: kind for key, (kind, _) in declared.items()}
    command.__signature__ = inspect.Signature([  # type: ignore[attr-defined]  # what inspect looks for
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for key, (kind, default) in declared.items()
    ])  # fmt: skip
    return command


def _option(placeholder: Placeholder) -> Any:
    """A placeholder as an option of a command."""
    about = f"{placeholder.about}: {', '.join(placeholder.choices)}." if placeholder.choices else placeholder.about
    return Annotated[str | None, typer.Option(f"--{placeholder.name}", metavar=placeholder.metavar, help=about)]


def _refuse_unknown(given: dict[Placeholder, str]) -> None:
    """Stop at a value that is not among a placeholder's choices."""
    for placeholder, value in given.items():
        if placeholder.choices and value not in placeholder.choices:
            message = f"{value[:60]!r} is not one of {', '.join(placeholder.choices)}"
            raise typer.BadParameter(message, param_hint=f"--{placeholder.name}")


def _planned(
    case: str, rank: int | None, objective: Objective, *, release: str | None = None, for_maxtext: bool = True
) -> tuple[Case, ChoiceOut]:
    """The case in a file and its own plan, or that of a rank; ends the command with exit code 1 if it does not fit."""
    from shardplan.cli.diagnostics import print_problems
    from shardplan.cli.output import finish
    from shardplan.engine.chosen import chosen
    from shardplan.engine.decide import decide
    from shardplan.errors import ExitCode
    from shardplan.exporters.maxtext import model_flags
    from shardplan.launch.gate import plan_of_rank
    from shardplan.loaders.load import load_case

    loaded = load_case(case, release)
    if for_maxtext:
        model_flags(loaded.architecture)  # says at once what MaxText cannot express
    if rank is None and loaded.plan is not None:
        own = chosen(loaded)
        assert own is not None, "a case's own plan is always there"
        if own.choice.verdict == "does_not_fit":
            print_problems(own.problems)
            finish(ExitCode.NO)
        return loaded, _all_said(own.choice, is_told=for_maxtext)
    plan = decide(loaded, top=rank or 1, objective=objective.value)
    if not plan.plans:
        print_problems(plan.problems)
        finish(ExitCode.NO)
    return loaded, _all_said(plan_of_rank(plan, rank or 1), is_told=for_maxtext)


def _all_said(choice: ChoiceOut, *, is_told: bool) -> ChoiceOut:
    """The plan, after a word on standard error of what its release cannot express."""
    from shardplan.cli.diagnostics import print_warning
    from shardplan.exporters.maxtext import written

    if is_told and choice.flags_lost:
        lost = ", ".join(f"{key}={written(value)}" for key, value in choice.flags_lost.items())
        print_warning(
            f"MaxText {choice.maxtext_release} cannot express {lost}: left out, so what starts is another plan"
        )
    return choice
