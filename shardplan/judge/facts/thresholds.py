"""Facts that a plan is measured against: the intensity thresholds, evaluated for the case's own chip and mesh."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from shardplan.cost.network import intensity
from shardplan.cost.tensors.routing import worst_share
from shardplan.judge.facts.machine import dcn_intensity, ici_intensity
from shardplan.judge.facts.model import FACTS as MODEL
from shardplan.judge.facts.observation import Fact, Observation
from shardplan.maxtext.axes import WIDTH_AXES
from shardplan.spec import AXES

_MODEL: Final = {fact.name: fact for fact in MODEL}


def _model(o: Observation, name: str) -> Any:
    return _MODEL[name].of(o)


def gather_axes(o: Observation) -> tuple[str, ...]:
    """Axes over which the weights that bind are gathered: experts stay split over the expert axis."""
    return tuple(axis for axis in WIDTH_AXES if axis != "expert" or not o.case.architecture.is_moe)


def _sparsity(o: Observation) -> Any:
    """Weights gathered over weights used: E / k, less where experts are split."""
    return intensity.sparsity(_model(o, "sparsity"), 1.0, o.degree("expert"))


def _tokens_per_gather(o: Observation) -> Any:
    """Tokens of a tensor group, twice that where the two devices of a chip use the same gathered weights."""
    return _tokens(o) * o.degree("tensor") * _sharers(o, *gather_axes(o))


def _tokens_per_replica(o: Observation) -> Any:
    """Tokens of all devices of a slice that hold one copy of the weights together."""
    return _tokens(o) * o.ici(*(axis for axis in AXES if axis != "data")) * _sharers(o, "data")


def _tokens(o: Observation) -> Any:
    return o.candidates.per_device_batch * o.case.workload.sequence_length


def _sharers(o: Observation, *axes: str) -> Any:
    """Devices of a chip among which the axes lie: their collective crosses the chip's links once for all of them."""
    return np.where(o.has_pair(*axes) > 0, o.case.cluster.chip.jax_devices_per_chip, 1)


def _tensor_width(o: Observation) -> Any:
    """TP degree is in devices, the intensity of a chip: a chip's devices share its links and its FLOPs."""
    per_device = ici_intensity(o) / o.case.cluster.chip.jax_devices_per_chip
    needed = intensity.tensor_width(per_device, o.degree("tensor"), o.links("tensor"), _model(o, "matrices"))
    return np.where(o.degree("tensor") > 1, needed, 0.0)


def _mixed_tokens(o: Observation) -> Any:
    """The floor of any mesh: FSDP over all torus axes, or over all but one that tensor parallelism takes."""
    sides = [1.0 if ring else 0.5 for ring, side in zip(o.rings, o.case.cluster.topology, strict=True) if side > 1]
    a = ici_intensity(o)
    alone = intensity.gather_tokens(a, sum(sides) or 1.0, 1.0)
    if len(sides) < 2:  # noqa: PLR2004 - one axis for each
        return alone
    return min(alone, intensity.mixed_tokens(a, _model(o, "active_width"), sum(sides[:-1]), sides[-1]))


def _expert_width(o: Observation) -> Any:
    return intensity.expert_width(ici_intensity(o), o.longest("expert"), 4.0, _model(o, "matrices"))


def _context_tokens(o: Observation) -> Any:
    """Devices of a chip that share a sequence gather its keys and values once, otherwise each its own."""
    a = ici_intensity(o) / _sharers(o, "context")
    return intensity.context_tokens(a, o.links("context"), _model(o, "kv_share"), 1.0)


def _fact(name: str, unit: str, about: str, of: object) -> Fact:
    return Fact(name, unit, about, of, level="split")  # type: ignore[arg-type]


FACTS: Final = (
    _fact("weight_links", "", "Torus axes that gathering weights keeps busy; a line counts half.",
          lambda o: o.links(*gather_axes(o))),
    _fact("tokens_per_gather", "tokens", "Tokens one gathered weight serves, counted at a chip's links.",
          _tokens_per_gather),
    _fact("tokens_per_replica", "tokens", "Tokens the devices of one replica have together, counted at a chip's links.",
          _tokens_per_replica),
    _fact("moved_over_used", "", "Weights moved over weights used by a token: E / k, less where experts are split; 1 dense.",
          _sparsity),
    _fact("worst_routed_rows", "", "Rows of an unbounded routed-token buffer over the balanced ones: min(expert, E / k).",
          lambda o: worst_share(_model(o, "sparsity"), o.degree("expert"))),
    _fact("gather_tokens_needed", "tokens", "Tokens one gathered weight must serve for FSDP to be compute-bound.",
          lambda o: intensity.gather_tokens(ici_intensity(o), o.links(*gather_axes(o)), _sparsity(o))),
    _fact("data_tokens_needed", "tokens", "Tokens a replica for data parallelism inside a slice to be compute-bound.",
          lambda o: intensity.gather_tokens(ici_intensity(o), o.links("data"), _model(o, "sparsity"))),
    _fact("slice_tokens_needed", "tokens", "Tokens a slice for sums or gathers across slices to be compute-bound.",
          lambda o: intensity.slice_tokens(dcn_intensity(o), _model(o, "sparsity"))),
    _fact("tensor_width_needed", "", "Feed-forward width for tensor parallelism of this degree to be compute-bound.",
          _tensor_width),
    _fact("expert_width_needed", "", "Width of one expert for its all-to-alls to be compute-bound.", _expert_width),
    _fact("context_tokens", "tokens", "Tokens of one context shard of a sequence.",
          lambda o: o.case.workload.sequence_length / o.degree("context")),
    _fact("context_tokens_needed", "tokens", "Tokens of a context shard for its key-value gather to be compute-bound.",
          _context_tokens),
    _fact("mixed_tokens_needed", "tokens", "Tokens a chip below which neither FSDP nor its mix with tensor parallelism is compute-bound.",
          _mixed_tokens),
)  # fmt: skip
