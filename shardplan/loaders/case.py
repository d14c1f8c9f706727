"""The user's YAML to a resolved Case: model, workload, cluster, constraints, runtime and, for `check`, a plan.

Every problem of every section is found before any is raised.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field

from shardplan.errors import Diagnostic, InputError, Mark
from shardplan.loaders.case_checks import (
    batch_problems,
    optimizer_problems,
    plan_problems,
    position_problems,
    precision_problems,
    release_problems,
    remat_problems,
)
from shardplan.machine.chips import resolve_cluster
from shardplan.maxtext.releases import release_of
from shardplan.maxtext.tables import table
from shardplan.maxtext.tiles import LANES, nearest_tile
from shardplan.source import Document, build
from shardplan.spec import (
    Architecture,
    Case,
    Cluster,
    Constraints,
    Count,
    Input,
    Runtime,
    Split,
    Text,
    Workload,
)
from shardplan.units import parse_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    ArchitectureOf = Callable[[str, Mark], Architecture]

Section = TypeVar("Section", bound="BaseModel")
Part = TypeVar("Part")

_COUNTS: Final = ("global_batch_tokens", "training_tokens")
"""Keys of the workload that may be written as text: `2M`, `15T`."""
_MAX_NAME: Final = 200


class ClusterInput(Input):
    """The machine as the user writes it: a chip and exactly one of topology, chips and accelerator."""

    chip: Text | None = None
    """Chip generation; may be left out beside an accelerator name."""
    topology: Text | None = None
    """Shape of one slice in chips, such as 4x4x8."""
    chips: Count | None = None
    """Chips of one slice."""
    accelerator: Text | None = None
    """What the cloud calls one slice, such as tpu7x-256."""
    slices: Count = 1
    """Slices of that shape, joined by the data-center network."""
    usd_per_chip_hour: Annotated[float, Field(strict=True, gt=0, le=1e6, allow_inf_nan=False)] | None = None
    """Price, for cost; by default the chip file's, if it has one."""


class CaseInput(Input):
    """The sections of a case."""

    name: Text | None = None
    """What to call the case; by default its file's name."""
    model: Any
    """A preset, a path to a Hugging Face config.json or a MaxText model yml, or an inline architecture."""
    workload: Any
    """Sequence length, batch, precision, optimizer."""
    cluster: Any
    """Chip, and topology, chips or accelerator; slices."""
    constraints: Any = None
    """Bounds on the search."""
    runtime: Any = None
    """MaxText settings beside the mesh that change memory or time."""
    plan: Any = None
    """One way to split the work, for `check`."""


def read_case(document: Document, architecture_of: ArchitectureOf, maxtext: str | None = None) -> Case:
    """The case a document describes, for the MaxText release it names unless another one is asked for.

    `architecture_of` finds a model that is given by name or path.

    Raises InputError with everything that is wrong, in the order of the text.
    """
    problems: list[Diagnostic] = []
    sections = _attempt(problems, lambda: build(CaseInput, document))
    written = document.value if isinstance(document.value, dict) else {}
    architecture = workload = cluster = None
    if "model" in written:
        architecture = _attempt(problems, lambda: _architecture(document, architecture_of))
    if "workload" in written:
        workload = _attempt(problems, lambda: build(Workload, _with_counts(document), ("workload",)))
    if "cluster" in written:
        cluster = _attempt(problems, lambda: _cluster(document))
    constraints = _attempt(problems, lambda: _section(Constraints, document, "constraints")) or Constraints()
    runtime = _attempt(problems, lambda: _section(Runtime, document, "runtime")) or Runtime()
    runtime, of_release = _under(maxtext, runtime, document)
    plan = None
    if written.get("plan") is not None:
        plan = _attempt(problems, lambda: build(Split, document, ("plan",)))
    problems += remat_problems(document, constraints, plan)
    if workload and cluster:
        problems += precision_problems(document, workload, cluster)
    if architecture and workload:
        problems += position_problems(document, architecture, workload)
        problems += optimizer_problems(document, architecture, workload)
    if workload and cluster and plan is not None:
        problems += plan_problems(document, workload, cluster, plan)
    problems += release_problems(architecture, runtime, of_release)
    if architecture and workload and cluster and plan is None:
        problems += batch_problems(document, architecture, workload, cluster, runtime)
    if problems:
        raise InputError(sorted(dict.fromkeys(problems), key=_in_order))
    assert sections is not None
    assert architecture is not None
    assert workload is not None
    assert cluster is not None
    return Case(
        name=(sections.name or PurePath(document.name).stem or "case")[:_MAX_NAME],
        architecture=architecture,
        workload=workload,
        cluster=cluster,
        constraints=constraints,
        runtime=_with_kernel(runtime, architecture, workload),
        plan=plan,
    )


def _under(maxtext: str | None, runtime: Runtime, document: Document) -> tuple[Runtime, Mark | None]:
    """The runtime under another MaxText if one is asked for, and where the release is named."""
    if maxtext is None:
        return runtime, document.mark(("runtime", "maxtext"))
    return runtime.model_copy(update={"maxtext": maxtext}), Mark("--maxtext")


def _with_kernel(runtime: Runtime, architecture: Architecture, workload: Workload) -> Runtime:
    """The runtime with the attention kernels where the case does not choose them.

    Flash attention needs whole tiles in the sequence. Every published Ironwood recipe uses the faster splash kernel, tokamax;
    layers with windows do not get it: with context parallelism MaxText cannot build it for them (reference, check C11).
    Releases before maxtext-tutorial-v1.2.0 have no such kernel.
    """
    chosen: dict[str, Any] = {}
    if "attention" not in runtime.model_fields_set and nearest_tile(LANES, workload.sequence_length) is None:
        chosen["attention"] = "dot_product"
    has_windows = any(layer.attention.window for layer, _ in architecture.layers)
    is_there = "use_tokamax_splash" in table(release_of(runtime.maxtext).release.name).keys
    if "tokamax_splash" not in runtime.model_fields_set and not has_windows and is_there:
        chosen["tokamax_splash"] = True
    return runtime.model_copy(update=chosen)


# --- sections --------------------------------------------------------------------------------------------------------


def _attempt(problems: list[Diagnostic], read: Callable[[], Part]) -> Part | None:
    """What a reader returns; None, with its diagnostics kept, if it raises."""
    try:
        return read()
    except InputError as error:
        problems.extend(error.diagnostics)
        return None


def _architecture(document: Document, architecture_of: ArchitectureOf) -> Architecture:
    model = document.at(("model",))
    if isinstance(model, str):
        return architecture_of(model, document.mark(("model",)))
    if isinstance(model, dict):
        return build(Architecture, document, ("model",))
    message = f"model: expected a name, a path or a mapping, found {_shown(model)}"
    raise InputError([Diagnostic("SP012", message, document.mark(("model",)))])


def _with_counts(document: Document) -> Document:
    """The document with token counts written as text turned into numbers; what is no count stays for `build` to judge."""
    workload = document.at(("workload",))
    if not isinstance(workload, dict):
        return document
    counted = dict(workload)
    for key in _COUNTS:
        if isinstance(workload.get(key), (str, float)):
            try:
                counted[key] = parse_count(workload[key])
            except ValueError as error:
                message = f"workload.{key}: {error}, found {_shown(workload[key])}"
                raise InputError([Diagnostic("SP012", message, document.mark(("workload", key)))]) from None
    return Document({**document.value, "workload": counted}, document.name, document.marks)


def _cluster(document: Document) -> Cluster:
    written = build(ClusterInput, document, ("cluster",))
    blamed = [key for key in ("accelerator", "topology", "chips") if getattr(written, key) is not None]
    path = ("cluster", blamed[0]) if len(blamed) == 1 else ("cluster",)
    cluster = resolve_cluster(
        written.chip,
        topology=written.topology,
        chips=written.chips,
        accelerator=written.accelerator,
        slices=written.slices,
        mark=document.mark(path),
    )
    return cluster.model_copy(update={"usd_per_chip_hour": written.usd_per_chip_hour})


def _section(model: type[Section], document: Document, key: str) -> Section | None:
    if not isinstance(document.value, dict) or document.value.get(key) is None:
        return None
    return build(model, document, (key,))


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _in_order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    mark = diagnostic.mark
    return ((mark.line or 0) if mark else 0, (mark.column or 0) if mark else 0, diagnostic.message)
