"""Settings to a Case with its plan: the axes filled in, everything else put together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardplan.loaders.maxtext_flags.checks import (
    check_expert_switches,
    check_expert_tiles,
    check_tiles,
    microbatches_of,
)
from shardplan.loaders.maxtext_flags.former import check_former_combinations
from shardplan.loaders.maxtext_flags.parts import remat_of, runtime_of, workload_of
from shardplan.machine.chips import resolution
from shardplan.spec import AXES, Case, Split

if TYPE_CHECKING:
    from shardplan.errors import Diagnostic
    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.spec import Architecture, Cluster

_NETWORKS: Final = {"ici": ("JAX device", "JAX devices of a slice"), "dcn": ("slice", "slices")}


@dataclass(frozen=True, slots=True)
class Launch:
    """A MaxText configuration as shardplan understands it."""

    case: Case
    """With `plan` set to `split`."""
    split: Split
    echo: tuple[str, ...]
    """What was resolved, for people: "ici_fsdp_parallelism=-1 -> 128"."""
    notes: tuple[str, ...]
    """What is accepted but not priced, or has no effect."""
    release: str
    """The release it was read under."""
    drift: tuple[Diagnostic, ...] = ()
    """What its release refuses and another one does not; the plan is what is meant."""


def resolve(settings: Settings, architecture: Architecture, cluster: Cluster, name: str) -> Launch:
    """The launch the settings describe on a cluster.

    Raises InvalidShardingError for what MaxText would refuse and InputError for what cannot be modelled, all at once.
    """
    settings.echo.insert(0, resolution(cluster))
    ici = _axes(settings, "ici", cluster.devices_per_slice)
    dcn = _axes(settings, "dcn", cluster.slices)
    degrees = {axis: ici.get(axis, 1) * dcn.get(axis, 1) for axis in AXES}
    workload, runtime = workload_of(settings, cluster), runtime_of(settings)
    policy, tensors = remat_of(settings)
    microbatches = microbatches_of(settings, architecture, degrees["pipeline"])
    check_tiles(settings, architecture, degrees["context"])
    check_expert_tiles(settings, architecture, degrees["tensor"])
    check_expert_switches(settings, degrees["expert"])
    check_former_combinations(settings, ici, dcn)
    settings.raise_problems()
    assert workload is not None, "a part that cannot be built has noted why"
    assert runtime is not None, "a part that cannot be built has noted why"
    split = Split(
        ici=ici,
        dcn=dcn,
        per_device_batch=settings["per_device_batch_size"],
        gradient_accumulation=settings["gradient_accumulation_steps"],
        pipeline_microbatches=microbatches,
        num_vocab_tiling=settings["num_vocab_tiling"],
        remat_policy=policy,
        remat_tensors=tensors,
        allow_split_physical_axes=settings["allow_split_physical_axes"],
    )
    case = Case(name=name, architecture=architecture, workload=workload, cluster=cluster, runtime=runtime, plan=split)
    notes, release = tuple(dict.fromkeys(settings.notes)), settings.table.release.name
    return Launch(case, split, tuple(settings.echo), notes, release, tuple(settings.drift))


def _axes(settings: Settings, network: str, target: int) -> dict[str, int]:
    """Degrees above 1 of one network, with the one -1 filled in so that they multiply to `target`."""
    degrees = {axis: settings[f"{network}_{axis}_parallelism"] for axis in AXES}
    if network == "dcn" and target == 1:  # MaxText looks at the network between slices only if there is one
        degrees = {axis: 1 if degree == -1 else degree for axis, degree in degrees.items()}
    wrong = [axis for axis, degree in degrees.items() if degree < 1 and degree != -1]
    for axis in wrong:
        key = f"{network}_{axis}_parallelism"
        settings.refuse("SP013", key, f"{key} is {degrees[axis]}; expected at least 1, or -1 for what is left")
    unknown = [axis for axis, degree in degrees.items() if degree == -1]
    if len(unknown) > 1:
        _refuse_two_unknown(settings, network, unknown)
    if wrong or len(unknown) > 1:
        return {}
    product = math.prod(degree for degree in degrees.values() if degree != -1)
    if target % product or (not unknown and product != target):
        _refuse_product(settings, network, degrees, target)
        return {}
    for axis in unknown:
        key = f"{network}_{axis}_parallelism"
        degrees[axis] = target // product
        settings.echo.append(f"{key}=-1 -> {degrees[axis]}")
    return {axis: degree for axis, degree in degrees.items() if degree > 1}


def _refuse_two_unknown(settings: Settings, network: str, axes: list[str]) -> None:
    """M1: at most one degree may be left open."""
    keys = [f"{network}_{axis}_parallelism" for axis in axes]
    hints = [f"{key} is -1 by default; give it a value" for key in keys if key not in settings.given]
    blamed = next((key for key in keys if key in settings.given), keys[0])
    message = f"{' and '.join(keys)} are all -1; only one can be filled in"
    settings.refuse("SP015", blamed, message, hints[0] if hints else None)


def _refuse_product(settings: Settings, network: str, degrees: dict[str, int], target: int) -> None:
    """M1, M2: the degrees of a network multiply to what there is of it."""
    used = {axis: degree for axis, degree in degrees.items() if degree > 1}
    product = math.prod(used.values())
    keys = [f"{network}_{axis}_parallelism" for axis in (*used, *degrees)]
    blamed = next((key for key in keys if key in settings.given), keys[0])
    shown = " x ".join(f"{axis} {degree}" for axis, degree in used.items()) or "all 1"
    one, many = _NETWORKS[network]
    there_are = f"there is one {one}" if target == 1 else f"there are {target:,} {many}"
    axis = "fsdp" if network == "ici" else "data"
    if -1 in degrees.values() or target % product:
        hint = f"choose degrees whose product divides {target:,}"
    else:
        hint = f"{target // product}-fold one axis, or set {network}_{axis}_parallelism=-1"
    message = f"the {network} axes ({shown}) multiply to {product:,}, but {there_are}"
    settings.refuse("SP015", blamed, message, hint)
