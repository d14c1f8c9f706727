"""Who holds which part of which tensor: MaxText's logical axis rules, and the exact state memory that follows.

A rule maps a logical axis to mesh axes. Rules are tried in order for all dimensions of a tensor; one applies only if
none of its mesh axes, whatever their degree, splits another dimension already. Every split must be exact: MaxText
does not pad. Source: MaxText 0.2.5 configs/base.yml logical_axis_rules; maxtext reference 1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.tensors.parameters import parameter_tensors, total_parameters
from shardplan.maxtext.axes import WEIGHT_AXES, WEIGHT_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.cost.tensors.parameters import Dim, ParameterTensor
    from shardplan.spec import Architecture
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools, Floats, Ints


@cache
def mesh_axes(dims: tuple[Dim, ...]) -> tuple[tuple[str, ...], ...]:
    """Mesh axes that split each dimension of a weight, in the order of the dimensions."""
    found: dict[int, tuple[str, ...]] = {}
    taken: set[str] = set()
    for name, axes in WEIGHT_RULES:
        for i, (_, logical) in enumerate(dims):
            if logical == name and i not in found and not taken & set(axes):
                found[i] = axes
                taken |= set(axes)
    return tuple(found.get(i, ()) for i in range(len(dims)))


def tensor_axes(tensor: ParameterTensor) -> frozenset[str]:
    """All mesh axes that split a weight, with `pipeline` for layers the stages share."""
    axes = {axis for dim_axes in mesh_axes(tensor.dims) for axis in dim_axes}
    return frozenset(axes | {"pipeline"} if tensor.is_pipelined else axes)


def shard_count(tensor: ParameterTensor, candidates: Candidates) -> Ints:
    """Parts a weight is split into, `(n,)`; the devices beyond them hold copies."""
    return candidates.degree(*sorted(tensor_axes(tensor)))


def local_sizes(tensor: ParameterTensor, candidates: Candidates) -> list[Ints]:
    """Size of each dimension of one copy on a device, `(n,)` each; rounded up where the split is not exact."""
    return [
        -(-size // candidates.degree(*axes))
        for (size, _), axes in zip(tensor.dims, mesh_axes(tensor.dims), strict=True)
    ]


def copy_elements(tensor: ParameterTensor, candidates: Candidates) -> Ints:
    """Elements of one copy of a weight on a device, `(n,)`."""
    total = np.ones(len(candidates), dtype=np.int64)
    for local in local_sizes(tensor, candidates):
        total = total * local
    return total


def sharded_elements(tensor: ParameterTensor, candidates: Candidates) -> Ints:
    """Elements of all copies of a weight on a device, `(n,)`; stages hold equal shares, rounded up."""
    elements = tensor.copies * copy_elements(tensor, candidates)
    return -(-elements // candidates.degree("pipeline")) if tensor.is_pipelined else elements


@dataclass(frozen=True, slots=True)
class UnevenSplit:
    """A dimension of some weight that its mesh axes do not divide, and for which candidates."""

    tensor: str
    logical_axis: str
    size: int
    axes: tuple[str, ...]
    mask: Bools
    """Candidates it fails for, `(n,)`."""

    def message(self, row: int, candidates: Candidates) -> str:
        """What does not divide what for one candidate, naming the axes that are in use."""
        used = {axis: int(candidates.degree(axis)[row]) for axis in self.axes}
        factors = " x ".join(f"{axis} {degree}" for axis, degree in used.items() if degree > 1)
        return f"{self.tensor}: dimension {self.logical_axis} of {self.size} is not a multiple of {factors}"


def uneven_splits(tensors: Iterable[ParameterTensor], candidates: Candidates) -> list[UnevenSplit]:
    """Every distinct way in which MaxText would refuse to split the weights of some candidate."""
    found: dict[tuple[int, tuple[str, ...]], UnevenSplit] = {}
    for tensor in tensors:
        for (size, logical), axes in zip(tensor.dims, mesh_axes(tensor.dims), strict=True):
            if axes and (size, axes) not in found:
                mask = size % candidates.degree(*axes) != 0
                found[size, axes] = UnevenSplit(tensor.name, logical, size, axes, mask)
    return [split for split in found.values() if split.mask.any()]


def indivisible(tensor: ParameterTensor, candidates: Candidates) -> Bools:
    """Candidates whose degrees do not divide some dimension of a weight, `(n,)`: MaxText refuses those."""
    faults = np.zeros(len(candidates), dtype=np.bool_)
    for split in uneven_splits([tensor], candidates):
        faults |= split.mask
    return faults


def insufficiently_sharded_fraction(
    architecture: Architecture, candidates: Candidates, weight_bytes: int = 4
) -> Floats:
    """Elements of weights that lack some mesh axis in use, over the bytes of all weights, `(n,)`.

    MaxText's trainer refuses to start above `sharding_tolerance` (0.02); dividing elements by bytes is its own doing.
    It skips the check with pipeline stages: 0 there. Source: MaxText utils/sharding.py _analyze_sharding.
    """
    tensors = parameter_tensors(architecture)
    lacking = np.zeros(len(candidates), dtype=np.int64)
    for axes in {tensor_axes(t) for t in tensors}:
        elements = sum(t.elements for t in tensors if tensor_axes(t) == axes)
        unused = [axis for axis in WEIGHT_AXES if axis not in axes]
        lacking += elements * (candidates.degree(*unused) > 1)
    fraction: Floats = lacking / (weight_bytes * total_parameters(architecture))
    return np.where(candidates.degree("pipeline") > 1, 0.0, fraction)
