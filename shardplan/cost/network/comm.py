"""Seconds of every collective of the train step, by mesh axis and network.

A group that spans slices works in two levels: inside each slice over the torus, and with the shards left over the network
cards; each level is a collective of its own here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shardplan.cost.distinct import Distinct, distinct
from shardplan.cost.network import collectives as formulas
from shardplan.cost.network.links import Network
from shardplan.cost.network.traffic import flows
from shardplan.cost.term import Term
from shardplan.spec import AXES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shardplan.cost.network.links import Reach, Route
    from shardplan.cost.network.traffic import CollectiveKind, Flow, Hides
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats


@dataclass(frozen=True, slots=True)
class Collective:
    """One kind of communication on one group of mesh axes and one network. Columns `(n,)`, an optimizer step."""

    axis: str
    """The axis whose doing it is; weights sharded by `context` and `expert` too are gathered for `fsdp`."""
    network: Literal["ici", "dcn"]
    kind: CollectiveKind
    purpose: str
    hides_behind: Hides
    """`compute` if the next operation does not wait for it: it can run beside the matmuls."""
    seconds: Floats
    route: Route
    _rows: Distinct
    _terms: tuple[Term, Term]
    _count: Floats

    @property
    def bytes(self) -> Floats:
        """Bytes one device receives, `(n,)`."""
        return _spread(self._terms[0].value, self._rows)

    @property
    def count(self) -> Floats:
        """Collectives, `(n,)`."""
        return _spread(self._count, self._rows)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Bytes and seconds as formulas, with letters for every candidate."""
        return tuple(
            Term(
                term.name,
                term.function,
                {k: _spread(v, self._rows) if getattr(v, "ndim", 0) else v for k, v in term.letters.items()},
            )
            for term in self._terms
        )

    def axis_at(self, row: int) -> str:
        """The mesh axes one candidate uses for it: "fsdp", "fsdp+expert"."""
        at = self._rows.inverse[row]
        degrees = self.route.ici if self.network == "ici" else self.route.dcn
        return "+".join(axis for axis, degree in zip(self.route.axes, degrees, strict=True) if degree[at] > 1)

    def network_at(self, row: int) -> Literal["ici", "dcn", "d2d"]:
        """The network of one candidate: the two devices of a chip need no torus."""
        return "d2d" if self.network == "ici" and self.route.pair_only[self._rows.inverse[row]] else self.network


def collectives(case: Case, candidates: Candidates) -> tuple[Collective, ...]:
    """Every collective that some candidate needs."""
    rows = distinct(_columns(candidates))
    few = candidates.take(rows.first)
    network = Network.of(case.cluster, few)
    routes = cache(network.route)
    return tuple(
        Collective(
            axis=flow.axes[0], network=name, kind=flow.kind, purpose=flow.purpose, hides_behind=flow.hides_behind,
            seconds=_spread(terms[1].value, rows), route=route, _rows=rows, _terms=terms, _count=count,
        )
        for flow in flows(case, few)
        for route in [routes(*flow.axes)]
        for name, terms, count in _levels(flow, route, routes, network)
        if np.any(terms[0].value)
    )  # fmt: skip


def _spread(values: Floats, rows: Distinct) -> Floats:
    """Values of distinct rows, or one for all, as values of candidates `(n,)`."""
    spread: Floats = np.broadcast_to(values, rows.first.shape)[rows.inverse]
    return spread


def _columns(candidates: Candidates) -> list[Any]:
    """What communication depends on."""
    kept = np.array([2 * ("out_proj" in p.tensors) + ("moe_x_sorted" in p.tensors) for p in candidates.remat_policies])
    meshes = [mesh.column(axis) for mesh in (candidates.ici, candidates.dcn) for axis in AXES]
    return [
        *meshes, candidates.per_device_batch, candidates.gradient_accumulation, candidates.pipeline_microbatches,
        candidates.pipeline_repeats, candidates.num_vocab_tiling, kept[candidates.remat],
    ]  # fmt: skip


Level = tuple[Literal["ici", "dcn"], tuple[Term, Term], "Floats"]


def _levels(flow: Flow, route: Route, routes: Callable[..., Route], network: Network) -> Iterator[Level]:
    """The collective inside a slice, and the one between slices if the group spans any."""
    scattered = routes(*flow.rides_on) if flow.rides_on else None
    before = scattered.devices * scattered.slices if scattered else np.ones(1)
    volume = flow.bytes / before
    yield "ici", _on_torus(flow, route, network.reach, volume), flow.count * (route.devices > 1)
    if np.any(route.slices > 1):
        yield "dcn", _between_slices(flow, route, network, volume), flow.count * (route.slices > 1)


def _on_torus(flow: Flow, route: Route, reach: Reach, volume: Floats) -> tuple[Term, Term]:
    N = route.devices.astype(np.float64)
    count = flow.count * (N > 1)
    shared = {"c": count, "a": reach.launch_s, "t": reach.hop_s}
    name = f"{flow.axes[0]}_{flow.kind}_{flow.purpose}".replace("-", "_").replace(" ", "_")
    gathered = {"V": volume, "N": N}
    if flow.kind == "all-to-all":
        moved = Term(f"{name}_bytes", formulas.received_bytes, gathered)
        letters = {
            "B": volume * (N > 1),
            "q": route.longest,
            "w": route.scarce_bytes_per_s,
            "e": reach.ici,
            "h": route.hops,
        }
        return moved, Term(f"{name}_s", formulas.timed_exchange_s, letters | shared)
    if flow.kind == "permute":
        given = volume * (N > 1)
        moved = Term(f"{name}_bytes", formulas.passed_bytes, {"B": given})
        letters = {"B": given, "w": route.neighbour_bytes_per_s, "e": reach.ici}
        return moved, Term(f"{name}_s", formulas.timed_permute_s, letters | shared)
    function = formulas.timed_reduce_s if flow.kind == "all-reduce" else formulas.timed_gather_s
    moved_by = formulas.reduced_bytes if flow.kind == "all-reduce" else formulas.received_bytes
    reached = reach.ici if flow.kind == "all-gather" else reach.reduction
    letters = gathered | {"W": route.gather_bytes_per_s, "e": reached, "h": route.hops}
    return Term(f"{name}_bytes", moved_by, gathered), Term(f"{name}_s", function, letters | shared)


def _between_slices(flow: Flow, route: Route, network: Network, volume: Floats) -> tuple[Term, Term]:
    N, K = route.devices.astype(np.float64), route.slices.astype(np.float64)
    name = f"{flow.axes[0]}_{flow.kind}_{flow.purpose}_dcn".replace("-", "_").replace(" ", "_")
    rate = {"W": network.dcn_bytes_per_s, "e": network.reach.dcn}
    if flow.kind in ("all-to-all", "permute"):
        letters = {"B": volume, "K": K}
        moved_by, time = _DCN_GIVEN[flow.kind]
        return Term(f"{name}_bytes", moved_by, letters), Term(f"{name}_s", time, letters | rate)
    shards = {"V": volume, "N": N, "K": K}
    if flow.kind == "all-reduce":
        return Term(f"{name}_bytes", formulas.dcn_reduced_bytes, shards), Term(
            f"{name}_s", formulas.dcn_reduce_s, shards | rate
        )
    return Term(f"{name}_bytes", formulas.dcn_gathered_bytes, shards), Term(
        f"{name}_s", formulas.dcn_gather_s, shards | rate
    )


_DCN_GIVEN = {
    "all-to-all": (formulas.left_bytes, formulas.dcn_exchange_s),
    "permute": (formulas.dcn_passed_bytes, formulas.dcn_permute_s),
}
"""Bytes and seconds of what a device puts in, by kind."""
