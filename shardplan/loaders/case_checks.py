"""What is wrong with a case only when its sections are seen together, or against what MaxText has.

Each check returns its diagnostics, placed in the document.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.maxtext.keys import MUON_BLOCKS
from shardplan.maxtext.releases import SHARED_OTHERWISE_SINCE, release_of
from shardplan.maxtext.remat import ALIASES, POLICIES, TENSORS
from shardplan.maxtext.tables import first_with_model, table
from shardplan.maxtext.tiles import nearest_tile

if TYPE_CHECKING:
    from shardplan.errors import Mark
    from shardplan.source import Document
    from shardplan.spec import Architecture, Cluster, Constraints, Runtime, Split, Workload


def remat_problems(document: Document, constraints: Constraints, plan: Split | None) -> list[Diagnostic]:
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


def precision_problems(document: Document, workload: Workload, cluster: Cluster) -> list[Diagnostic]:
    """fp8 on a chip without it."""
    if workload.precision != "fp8" or cluster.chip.fp8_flops_per_s is not None:
        return []
    message = f"{cluster.chip.name} has no fp8 matrix units"
    return [Diagnostic("SP015", message, document.mark(("workload", "precision")), "use precision: bf16")]


def optimizer_problems(document: Document, architecture: Architecture, workload: Workload) -> list[Diagnostic]:
    """Muon on a model that MaxText has no Muon for."""
    name = architecture.maxtext_model_name
    if workload.optimizer.name != "muon" or name is None:
        return []
    block = str(table().models.get(name, {}).get("decoder_block", "llama2"))
    if block in MUON_BLOCKS:
        return []
    message = f"MaxText has no muon for {name} (decoder block {block}), only for {', '.join(sorted(MUON_BLOCKS))}"
    return [Diagnostic("SP015", message, document.mark(("workload", "optimizer")), "use optimizer: adamw")]


def release_problems(architecture: Architecture | None, runtime: Runtime, mark: Mark | None) -> list[Diagnostic]:
    """A MaxText release that is not known, or has not what the case needs of it."""
    try:
        release = release_of(runtime.maxtext, mark).release
    except InputError as error:
        return list(error.diagnostics)
    problems, name = [], architecture.maxtext_model_name if architecture else None
    if name is not None and name in table().models and name not in table(release.name).models:
        since = first_with_model(name)
        problems.append(Diagnostic("SP015", f"MaxText {release} has no model {name}: it came with {since}", mark))
    strategy = runtime.context_strategy
    if strategy != "all_gather" and not release.has(SHARED_OTHERWISE_SINCE):
        message = f"MaxText {release} has no context_strategy {strategy} on TPUs: it came with {SHARED_OTHERWISE_SINCE}"
        problems.append(Diagnostic("SP015", message, mark, "use all_gather"))
    return problems


def position_problems(document: Document, architecture: Architecture, workload: Workload) -> list[Diagnostic]:
    """A sequence longer than the learned positions."""
    if not 0 < architecture.n_positions < workload.sequence_length:
        return []
    message = (
        f"sequence_length {workload.sequence_length} exceeds the {architecture.n_positions} learned positions "
        f"of {architecture.name}"
    )
    return [Diagnostic("SP015", message, document.mark(("workload", "sequence_length")))]


def plan_problems(document: Document, workload: Workload, cluster: Cluster, plan: Split) -> list[Diagnostic]:
    """A plan that trains on another batch than the workload asks for."""
    wanted, made = workload.global_sequences, plan.per_device_batch * cluster.devices * plan.gradient_accumulation
    if wanted is not None and not math.isclose(made, wanted):
        message = (
            f"the plan makes {made:,.10g} sequences a step ({plan.per_device_batch:g} a device x {cluster.devices:,} devices x "
            f"{plan.gradient_accumulation} micro-steps), the workload asks for {wanted:,}"
        )
        hint = f"per_device_batch: {wanted / cluster.devices / plan.gradient_accumulation:.10g} makes them"
        return [Diagnostic("SP015", message, document.mark(("plan", "per_device_batch")), hint)]
    asked = workload.per_device_batch
    if isinstance(asked, int | float) and asked != plan.per_device_batch:
        message = f"the plan has {plan.per_device_batch:g} sequences a device, the workload asks for {asked:g}"
        return [Diagnostic("SP015", message, document.mark(("plan", "per_device_batch")), "leave one of them out")]
    return []


def batch_problems(
    document: Document, architecture: Architecture, workload: Workload, cluster: Cluster, runtime: Runtime
) -> list[Diagnostic]:
    """A global batch that no mesh can split: the axes that share a sequence cannot take all the devices it leaves over.

    A necessary condition only: tensor at most the key-value heads, context at most the attention tiles of a sequence,
    pipeline at most the layers.
    """
    batch = workload.global_sequences
    if batch is None:
        return []
    heads = math.gcd(*(layer.attention.n_key_value_heads for layer, _ in architecture.layers))
    tile = nearest_tile(runtime.attention_tile_tokens, workload.sequence_length) or 1
    tiles = workload.sequence_length // (tile if runtime.context_strategy == "all_gather" else 1)
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
