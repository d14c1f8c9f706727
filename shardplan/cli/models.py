"""`shardplan models`: the presets, or one architecture with its parameters."""

from __future__ import annotations

from typing import Annotated

import typer

from shardplan.cli.completion import model_names
from shardplan.cli.options import OutputOption, WidthOption


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A preset, or a path to a config.json or a MaxText model .yml.",
            autocompletion=model_names,
        ),
    ] = None,
    output: OutputOption = None,
    width: WidthOption = None,
) -> None:
    r"""List the model presets, or describe one model: structure and exact parameters.

    \b
    Examples:
      shardplan models
      shardplan models llama3.1-70b
      shardplan models path/to/config.json -o json
    """
    from shardplan.cli.output import show
    from shardplan.loaders.presets import architecture_names, load_architecture
    from shardplan.render.describe import describe_model
    from shardplan.render.lists import model_page, models_page

    if name is None:
        found = [describe_model(load_architecture(preset)) for preset in architecture_names()]
        show(found, lambda: models_page(found), output, width)
    else:
        model = describe_model(load_architecture(name))
        show(model, lambda: model_page(model), output, width)
