"""`shardplan export`: a plan in the words of the program that launches it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from shardplan.cli.options import CaseArgument, Objective, ObjectiveOption, RankOption

if TYPE_CHECKING:
    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case

ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="GKE cluster; by default ${XPK_CLUSTER}.")
]
ImageOption = Annotated[
    str | None,
    typer.Option("--image", metavar="IMAGE", help="Container image with MaxText; by default ${MAXTEXT_IMAGE}."),
]
FolderOption = Annotated[
    str | None,
    typer.Option(
        "--base-output-directory",
        metavar="URL",
        help="Where runs write, such as gs://bucket/runs; by default ${BASE_OUTPUT_DIRECTORY}.",
    ),
]


class MaxTextFormat(StrEnum):
    """What a MaxText launch can take."""

    FLAGS = "flags"
    YML = "yml"
    COMMAND = "command"


def export() -> None:
    """Print a plan as configuration for the program that launches it."""


def maxtext(
    case: CaseArgument,
    rank: RankOption = None,
    objective: ObjectiveOption = Objective.STEP_TIME,
    format_: Annotated[
        MaxTextFormat,
        typer.Option("--format", help="key=value flags, a .yml for base_config, or the whole command."),
    ] = MaxTextFormat.FLAGS,
) -> None:
    r"""Print the mesh, batch, remat, precision and kernel flags of a plan, as MaxText takes them.

    \b
    Examples:
      shardplan export maxtext case.yaml
      shardplan export maxtext case.yaml --rank 2 --format yml > plan.yml
      python3 -m maxtext.trainers.pre_train.train base.yml $(shardplan export maxtext case.yaml)
    """
    from shardplan.cli.output import emit
    from shardplan.exporters.maxtext import as_command, as_flags, as_yml

    loaded, choice = _planned(case, rank, objective)
    if format_ is MaxTextFormat.FLAGS:
        emit(as_flags(choice.maxtext_flags))
    elif format_ is MaxTextFormat.YML:
        emit(as_yml(choice.maxtext_flags))
    else:
        emit(as_command(choice.maxtext_flags, run_name=loaded.name, libtpu_init_args=choice.libtpu_init_args))


def xpk(  # noqa: PLR0917 - one argument an option
    case: CaseArgument,
    rank: RankOption = None,
    objective: ObjectiveOption = Objective.STEP_TIME,
    cluster: ClusterOption = None,
    image: ImageOption = None,
    base_output_directory: FolderOption = None,
) -> None:
    r"""Print one `xpk workload create` command that starts a plan on a GKE cluster.

    Names that are not given are left to environment variables; without those, the command stops before it does anything.

    \b
    Examples:
      shardplan export xpk case.yaml --cluster mine --image my-registry/maxtext
      shardplan export xpk case.yaml --rank 2 > submit.sh
    """
    from shardplan.cli.output import emit
    from shardplan.exporters import xpk as exporter
    from shardplan.exporters.launch import Job, Site

    emit(exporter.export(Job(*_planned(case, rank, objective), Site(cluster, image, base_output_directory))))


def jobset(
    case: CaseArgument,
    rank: RankOption = None,
    objective: ObjectiveOption = Objective.STEP_TIME,
    image: ImageOption = None,
    base_output_directory: FolderOption = None,
) -> None:
    r"""Print a JobSet manifest for GKE that runs a plan: one replica a slice, one pod a host.

    \b
    Examples:
      shardplan export jobset case.yaml --image my-registry/maxtext > jobset.yaml
      shardplan export jobset case.yaml | envsubst | kubectl apply -f -
    """
    from shardplan.cli.output import emit
    from shardplan.exporters import jobset as exporter
    from shardplan.exporters.launch import Job, Site

    emit(exporter.export(Job(*_planned(case, rank, objective), Site(None, image, base_output_directory))))


def jax(case: CaseArgument, rank: RankOption = None, objective: ObjectiveOption = Objective.STEP_TIME) -> None:
    r"""Print a short JAX script with a plan's mesh and the sharding of every weight by logical axis.

    It needs JAX alone, allocates nothing, and runs on CPU devices where the mesh is small.

    \b
    Examples:
      shardplan export jax case.yaml > mesh.py
      shardplan export jax case.yaml --rank 2 | python3 -
    """
    from shardplan.cli.output import emit
    from shardplan.exporters import jax as exporter
    from shardplan.exporters.launch import Job

    emit(exporter.export(Job(*_planned(case, rank, objective, for_maxtext=False))))


def shell(
    case: CaseArgument,
    rank: RankOption = None,
    objective: ObjectiveOption = Objective.STEP_TIME,
    base_output_directory: FolderOption = None,
) -> None:
    r"""Print a job script that runs `shardplan check` on a plan's launch, and launches only what fits.

    \b
    Examples:
      shardplan export shell case.yaml > launch.sh
      BASE_OUTPUT_DIRECTORY=gs://my-bucket/runs bash launch.sh steps=100
    """
    from shardplan.cli.output import emit
    from shardplan.exporters import shell as exporter
    from shardplan.exporters.launch import Job, Site

    emit(exporter.export(Job(*_planned(case, rank, objective), Site(None, None, base_output_directory))))


def _planned(case: str, rank: int | None, objective: Objective, *, for_maxtext: bool = True) -> tuple[Case, ChoiceOut]:
    """The case in a file and its own plan, or that of a rank; ends the command with exit code 1 if it does not fit."""
    from shardplan.cli.diagnostics import print_problems
    from shardplan.cli.output import finish
    from shardplan.engine.chosen import chosen
    from shardplan.engine.decide import decide
    from shardplan.errors import ExitCode
    from shardplan.exporters.maxtext import model_flags
    from shardplan.launch.gate import plan_of_rank
    from shardplan.loaders.load import load_case

    loaded = load_case(case)
    if for_maxtext:
        model_flags(loaded.architecture)  # says at once what MaxText cannot express
    if rank is None and loaded.plan is not None:
        own = chosen(loaded)
        assert own is not None, "a case's own plan is always there"
        if own.choice.verdict == "does_not_fit":
            print_problems(own.problems)
            finish(ExitCode.NO)
        return loaded, own.choice
    plan = decide(loaded, top=rank or 1, objective=objective.value)
    if not plan.plans:
        print_problems(plan.problems)
        finish(ExitCode.NO)
    return loaded, plan_of_rank(plan, rank or 1)
