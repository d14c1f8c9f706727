"""The user's YAML to a resolved Case: model, workload, cluster, constraints, runtime and, for `check`, a plan.

Every problem of every section is found before any is raised.
"""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field

from shardplan.chips import resolve_cluster
from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.maxtext_keys import MUON_BLOCKS, table
from shardplan.remat import ALIASES, POLICIES, TENSORS
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

    from shardplan.errors import Mark

    ArchitectureOf = Callable[[str, Mark], Architecture]

Section = TypeVar("Section", bound="BaseModel")
Part = TypeVar("Part")

_COUNTS: Final = ("global_batch_tokens", "training_tokens")
"""Keys of the workload that may be written as text: `2M`, `15T`."""
_TILE_TOKENS: Final = 512
"""Rows of queries a flash-attention tile covers by default: the smallest context shard. Source: MaxText A1."""
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


def read_case(document: Document, architecture_of: ArchitectureOf) -> Case:
    """The case a document describes; `architecture_of` finds a model that is given by name or path.

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
    plan = None
    if written.get("plan") is not None:
        plan = _attempt(problems, lambda: build(Split, document, ("plan",)))
    problems += _remat_problems(document, constraints, plan)
    if workload and cluster:
        problems += _precision_problems(document, workload, cluster)
    if architecture and workload:
        problems += _position_problems(document, architecture, workload)
        problems += _optimizer_problems(document, architecture, workload)
    if architecture and workload and cluster and plan is None:
        problems += _batch_problems(document, architecture, workload, cluster)
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
        runtime=_with_kernel(runtime, architecture),
        plan=plan,
    )


def _with_kernel(runtime: Runtime, architecture: Architecture) -> Runtime:
    """The runtime with the faster splash kernel where the case does not choose one.

    Every published Ironwood recipe uses it. Layers with windows do not get it: with context parallelism MaxText cannot
    build it for them (reference, check C11).
    """
    has_windows = any(layer.attention.window for layer, _ in architecture.layers)
    if "tokamax_splash" in runtime.model_fields_set or has_windows:
        return runtime
    return runtime.model_copy(update={"tokamax_splash": True})


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


# --- what only shows when sections meet ---------------------------------------------------------------------------


def _remat_problems(document: Document, constraints: Constraints, plan: Split | None) -> list[Diagnostic]:
    """Remat policies and tensors that MaxText does not have."""
    problems: list[Diagnostic] = []
    names = [*POLICIES, *ALIASES, "custom"]

    def check_tensors(tensors: dict[str, Any], path: tuple[str, ...]) -> None:
        for tensor in tensors.keys() - TENSORS:
            message = f"unknown activation {tensor[:60]!r}; the names are {', '.join(sorted(TENSORS))}"
            problems.append(Diagnostic("SP010", message, document.key_mark((*path, tensor)), suggest(tensor, TENSORS)))

    def check_policy(policy: str, allowed: list[str], path: tuple[str, ...]) -> None:
        if policy not in allowed:
            message = f"unknown remat policy {policy[:60]!r}; expected one of {', '.join(allowed)}"
            problems.append(Diagnostic("SP014", message, document.mark(path), suggest(policy, allowed)))

    if isinstance(constraints.remat, str):
        check_policy(constraints.remat, ["auto", *names[:-1]], ("constraints", "remat"))
    else:
        check_tensors(constraints.remat, ("constraints", "remat"))
    if plan is not None:
        check_policy(plan.remat_policy, names, ("plan", "remat_policy"))
        check_tensors(plan.remat_tensors, ("plan", "remat_tensors"))
        if plan.remat_tensors and plan.remat_policy != "custom":
            message = f"remat_tensors have no effect with remat_policy {plan.remat_policy}"
            hint = "set remat_policy: custom, or leave remat_tensors out"
            problems.append(Diagnostic("SP015", message, document.mark(("plan", "remat_tensors")), hint))
    return problems


def _precision_problems(document: Document, workload: Workload, cluster: Cluster) -> list[Diagnostic]:
    if workload.precision != "fp8" or cluster.chip.fp8_flops_per_s is not None:
        return []
    message = f"{cluster.chip.name} has no fp8 matrix units"
    return [Diagnostic("SP015", message, document.mark(("workload", "precision")), "use precision: bf16")]


def _optimizer_problems(document: Document, architecture: Architecture, workload: Workload) -> list[Diagnostic]:
    """Muon on a model that MaxText has no Muon for."""
    name = architecture.maxtext_model_name
    if workload.optimizer.name != "muon" or name is None:
        return []
    block = str(table().models.get(name, {}).get("decoder_block", "llama2"))
    if block in MUON_BLOCKS:
        return []
    message = f"MaxText has no muon for {name} (decoder block {block}), only for {', '.join(sorted(MUON_BLOCKS))}"
    return [Diagnostic("SP015", message, document.mark(("workload", "optimizer")), "use optimizer: adamw")]


def _position_problems(document: Document, architecture: Architecture, workload: Workload) -> list[Diagnostic]:
    if not 0 < architecture.n_positions < workload.sequence_length:
        return []
    message = (
        f"sequence_length {workload.sequence_length} exceeds the {architecture.n_positions} learned positions "
        f"of {architecture.name}"
    )
    return [Diagnostic("SP015", message, document.mark(("workload", "sequence_length")))]


def _batch_problems(
    document: Document, architecture: Architecture, workload: Workload, cluster: Cluster
) -> list[Diagnostic]:
    """A global batch that no mesh can split: the axes that share a sequence cannot take all the devices it leaves over.

    A necessary condition only: tensor at most the key-value heads, context at most the attention tiles of a sequence,
    pipeline at most the layers.
    """
    batch = workload.global_sequences
    if batch is None:
        return []
    heads = math.gcd(*(layer.attention.n_key_value_heads for layer, _ in architecture.layers))
    tiles = max(1, workload.sequence_length // _TILE_TOKENS)
    shared = heads * tiles * architecture.n_layers
    left_over = cluster.devices // math.gcd(batch, cluster.devices)
    if left_over <= shared:
        return []
    key = next(key for key in ("global_batch", "global_batch_tokens") if getattr(workload, key) is not None)
    message = (
        f"a batch of {batch:,} sequences cannot be split over {cluster.devices:,} devices: {left_over:,} devices would have "
        f"to share each sequence, and at most {shared:,} can ({heads} heads x {tiles} tiles x {architecture.n_layers} layers)"
    )
    more = -(-batch // cluster.devices) * cluster.devices
    hint = f"the next batch with a whole sequence a device is {more:,}"
    return [Diagnostic("SP015", message, document.mark(("workload", key)), hint)]


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _in_order(diagnostic: Diagnostic) -> tuple[int, int, str]:
    mark = diagnostic.mark
    return ((mark.line or 0) if mark else 0, (mark.column or 0) if mark else 0, diagnostic.message)
