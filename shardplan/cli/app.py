"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan import __version__
from shardplan.cli import check, chips, diff, explain, export, init, models, recommend, rules, scale, schema, verify
from shardplan.cli.help import MEANINGS, OWN_WORDS, exit_codes, help_text
from shardplan.exporters import exporter_names, load_exporter

app = typer.Typer(
    name="shardplan",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shardplan {__version__}")
        raise typer.Exit


def shardplan(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    r"""Plan how to shard the training of a language model over TPUs with MaxText.

    \b
    Start with:
      shardplan init > case.yaml
      shardplan recommend case.yaml
    """


app.callback(help=help_text(shardplan), epilog=exit_codes(*(MEANINGS[code] for code in OWN_WORDS)))(shardplan)

_NOTHING = "nothing fits, so there is no plan"
for command, summary, codes in (
    (
        recommend.recommend,
        "Rank the ways to shard a case.",
        exit_codes("at least one plan fits", "nothing fits"),
    ),
    (check.check, "Judge a configuration before it is launched.", check.EXIT_CODES),
    (
        explain.explain,
        "Show the arithmetic behind a plan, or what a rule means.",
        exit_codes("explained"),
    ),
    (
        verify.verify,
        "Compile plans with the real MaxText and compare.",
        exit_codes("the compiler accepts every plan", "the compiler refuses one, or nothing fits"),
    ),
    (
        scale.scale,
        "Find the best plan on more and more chips.",
        exit_codes("something fits on some size", "nothing fits on any size"),
    ),
    (
        diff.diff,
        "Compare two plans, change by change.",
        exit_codes("compared", invalid="MaxText or the hardware would refuse one of the launches"),
    ),
    (init.init, "Print a commented starter case.", exit_codes()),
    (models.models, "List the model presets, or describe one model.", exit_codes()),
    (chips.chips, "List the chips, or describe one.", exit_codes()),
    (rules.rules, "List the rules, or print one rule's page.", exit_codes()),
    (schema.schema, "Print the JSON Schema of a command's output.", exit_codes()),
):
    app.command(help=help_text(command), short_help=summary, epilog=codes)(command)

exports = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
_EXPORTED = exit_codes("exported", _NOTHING)
exports.callback(help=help_text(export.export), epilog=_EXPORTED)(export.export)
for name in exporter_names():
    exporter = export.command_of(name)
    exports.command(help=help_text(exporter), short_help=load_exporter(name).SUMMARY, epilog=_EXPORTED)(exporter)
app.add_typer(exports, name="export", short_help="Print a plan for the program that launches it.")
