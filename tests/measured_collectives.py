"""Published network measurements, and what the model says of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardplan.cost.calibration import calibration_file
from shardplan.cost.network import collectives as formulas
from shardplan.cost.network.links import Network, Reach, Route
from shardplan.machine.chips import resolve_cluster
from shardplan.spec import Split
from shardplan.splits.candidates import Candidates

GATHER = calibration_file("ici").curves["all_gather_bytes_per_s"]


@dataclass(frozen=True)
class Measurement:
    """A published time of one collective."""

    name: str
    chip: str
    topology: str
    mesh: dict[str, int]
    axes: tuple[str, ...]
    kind: str
    total_bytes: float
    seconds: float
    within: tuple[float, float]
    """Bounds of predicted over measured."""
    source: str


IRONWOOD = [
    Measurement(
        f"all-gather of {shard / 2**20:g} MiB shards, 2x2 chips", "tpu7x", "2x2x1", {"fsdp": 4, "tensor": 2}, ("fsdp",),
        "all-gather", 4 * shard, 2 * 3 * shard / rate, (0.97, 1.03), GATHER.source,
    )
    for shard, rate in zip(GATHER.at, GATHER.values, strict=True)
]  # fmt: skip
MEASUREMENTS = [
    *IRONWOOD,
    Measurement("all-reduce of 0.606 GB, 256 chips", "v6e", "16x16", {"fsdp": 256}, ("fsdp",), "all-reduce", 0.606e9,
                2 * 0.606e9 * 255 / 256 / 235.8e9, (0.97, 1.03), "tpu-recipes, microbenchmarks/trillium/collectives"),
    Measurement("all-gather of 10 MB over a ring of 16", "v5e", "8x16", {"data": 8, "fsdp": 16}, ("fsdp",), "all-gather",
                10e6, 10e6 / (0.95 * 2 * 45e9), (0.9, 1.05), "scaling book, sharding, about 95% of 45 GB/s"),
    Measurement("all-gather of 34 MB over a line of 4", "v5e", "4x4", {"data": 4, "fsdp": 4}, ("fsdp",), "all-gather",
                2**25, 680e-6, (0.8, 1.05), "scaling book, sharding, SH-06"),
    Measurement("tiny all-gather over a line of 4", "v5e", "4x4", {"data": 4, "fsdp": 4}, ("fsdp",), "all-gather",
                2 * 256 * 256, 8e-6, (0.9, 1.1), "scaling book, sharding, SH-07"),
    Measurement("neighbour to neighbour, 1 GB", "v5p", "2x2x1", {"data": 2, "fsdp": 2}, ("fsdp",), "permute", 1e9,
                1e9 / 92e9, (0.95, 1.1), "TPU-Collectives, Pallas RDMA"),
    # Timed from the host: each of the three times holds 0.1 ms of dispatch that belongs to no collective.
    Measurement("all-reduce of 8 MiB, 32 devices, less 0.1 ms of dispatch", "tpu7x", "2x2x4", {"fsdp": 32}, ("fsdp",),
                "all-reduce", 2**23, 162e-6 - 100e-6, (0.5, 2.0), "accelerator-microbenchmarks, issue 71"),
]  # fmt: skip


def predicted_s(one: Measurement) -> float:
    """Seconds of the collective in the model."""
    cluster = resolve_cluster(one.chip, topology=one.topology)
    candidates = Candidates.of_splits([Split(ici=one.mesh, per_device_batch=1.0)], [1], [False])
    network = Network.of(cluster, candidates)
    route, reach = network.route(*one.axes), network.reach
    return float(_seconds(one, route, reach)[0])


def _seconds(one: Measurement, route: Route, reach: Reach) -> Any:
    N, V = route.devices, one.total_bytes
    shared = {"c": 1.0, "a": reach.launch_s, "t": reach.hop_s}
    if one.kind == "permute":
        return formulas.timed_permute_s(V, route.neighbour_bytes_per_s, reach.ici, **shared)
    if one.kind == "all-reduce":
        return formulas.timed_reduce_s(V, N, route.gather_bytes_per_s, reach.reduction, h=route.hops, **shared)
    return formulas.timed_gather_s(V, N, route.gather_bytes_per_s, reach.ici, h=route.hops, **shared)
