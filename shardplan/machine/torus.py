"""Which physical axes of a slice each mesh axis gets, exactly as JAX lays a mesh out.

From the last mesh axis (most traffic) to the first, an axis takes the largest set of unused physical axes whose product
is its degree; if some axis finds none, physical axes are split, which MaxText does only with
`allow_split_physical_axes=true`. A few small slices are laid out as one ring over the tray and take any mesh.
Source: jax 0.12 `jax/_src/mesh_utils.py`, checked device by device in tests/test_torus.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from shardplan.machine.assignment import Assignment, Sequence1D, SplitAxes, WholeAxes, assign
from shardplan.machine.chips import wraps
from shardplan.spec import AXES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.spec import Cluster
    from shardplan.units import Bools, Floats, Ints

    class Columns(Protocol):
        """Degrees by mesh axis, such as `candidates.Mesh`."""

        def column(self, axis: str) -> Ints:
            """Degrees of one axis, `(n,)`."""
            ...


ORDER = ("pipeline", *(axis for axis in AXES if axis != "pipeline"))
"""Mesh axes from least to most traffic: MaxText moves the pipeline before `data`, and it does not matter without one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A physical axis, or a part of one, that belongs to one mesh axis."""

    axis: int
    """Index of the physical axis."""
    length: int
    """Devices along it."""
    is_ring: bool
    """Whether the last device has a link to the first."""
    stride: int
    """Devices from one to the next along the physical axis: so many interleaved rings share each link."""
    link: Literal["ici", "d2d"]
    """Kind of link: the torus between chips, or between the two devices of a chip."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a mesh lies in the torus of one slice."""

    pieces: Mapping[str, tuple[Piece, ...]]
    """Pieces by mesh axis; an axis of degree 1 has none."""
    needs_split: bool
    """Whether MaxText refuses it without `allow_split_physical_axes`: no whole physical axes were found one by one.

    What JAX then finds may still cut no axis.
    """


@dataclass(frozen=True, slots=True)
class AxisLinks:
    """What one mesh axis has of the torus. Columns `(n,)`; zero for an axis of degree 1."""

    links: Floats
    """Links of a chip that bring data from the axis: two of a ring, one of a line, each shared by interleaved rings."""
    slowest: Floats
    """Largest length over links of its pieces: what an all-to-all waits for. 0 without a piece on the torus."""
    hops: Floats
    """Links from one end to the other, all pieces after one another."""
    has_pair: Bools
    """Whether the two devices of a chip belong to it."""


@dataclass(frozen=True, slots=True)
class Torus:
    """Physical axes of one slice as JAX sees them, the core axis of a two-device chip last."""

    shape: tuple[int, ...]
    is_ring: tuple[bool, ...]
    has_cores: bool
    """Whether the last axis is the two devices of a chip."""
    is_walk: bool
    """Whether JAX numbers the devices along one walk over the slice and merely reshapes it: no mesh needs a split."""

    @classmethod
    def of(cls, cluster: Cluster) -> Torus:
        """The torus of one slice, or a walk over it where JAX has a handler that does not look at the torus.

        Source: `_7x_create_device_mesh`, `_v5e_create_device_mesh`, `_v5p_create_device_mesh`.
        """
        shape, cores = cluster.topology, cluster.chip.jax_devices_per_chip
        pair = (cores,) if cores > 1 else ()
        if shape not in cluster.chip.ring_slices:
            return cls((*shape, *pair), (*wraps(cluster), *(False for _ in pair)), bool(pair), is_walk=False)
        if pair:
            # The four chips of a tray in a ring, both devices of each in turn, then the next tray.
            return cls((cluster.chips_per_slice // 4, 4, *pair), (False, True, False), has_cores=True, is_walk=True)
        return cls((cluster.chips_per_slice,), (True,), has_cores=False, is_walk=True)

    def piece(self, axis: int, length: int, stride: int) -> Piece:
        """A part of a physical axis: `length` devices, `stride` apart."""
        whole_way = length * stride == self.shape[axis]
        link: Literal["ici", "d2d"] = "d2d" if self.has_cores and axis == len(self.shape) - 1 else "ici"
        return Piece(axis, length, self.is_ring[axis] and whole_way, stride, link)


def lay_out(cluster: Cluster, degrees: tuple[int, ...]) -> Layout | None:
    """The layout of ICI degrees in `AXES` order on one slice, or None if they do not multiply to its devices."""
    columns = [np.array([degrees[AXES.index(axis)]], dtype=np.int64) for axis in ORDER]
    return _layouts(cluster, columns)[0][0]


def layouts_of(cluster: Cluster, mesh: Columns) -> tuple[list[Layout | None], Ints]:
    """The distinct layouts of a mesh's rows, and for each row the index of its own, `(n,)`."""
    return _layouts(cluster, _sizes(mesh))


def _layouts(cluster: Cluster, sizes: list[Ints]) -> tuple[list[Layout | None], Ints]:
    torus = Torus.of(cluster)
    found, needs_split = _parts(torus, sizes, cluster.devices_per_slice)
    pieces = [tuple(torus.piece(*spot) for spot in part) for part in found.parts]
    key = found.is_found + 2 * needs_split.astype(np.int64)
    for code in found.codes:
        key = key * len(pieces) + code
    _, first, rows = np.unique(key, return_index=True, return_inverse=True)
    layouts = [
        Layout(
            {axis: pieces[code[i]] for axis, code in zip(ORDER, found.codes, strict=True) if code[i]},
            bool(needs_split[i]),
        )
        if found.is_found[i]
        else None
        for i in first.tolist()
    ]
    return layouts, rows.reshape(-1)


def fits_without_split(cluster: Cluster, mesh: Columns) -> Bools:
    """Whether JAX lays each mesh out with whole physical axes, `(n,)`; False also where the product is wrong."""
    torus = Torus.of(cluster)
    manner = Sequence1D(torus.shape) if torus.is_walk else WholeAxes(torus.shape, torus.has_cores)
    return assign(manner, _sizes(mesh), cluster.devices_per_slice).is_found


def links_of(cluster: Cluster, mesh: Columns) -> dict[str, AxisLinks]:
    """Links by mesh axis; meshes that do not have the devices of the slice have none."""
    torus = Torus.of(cluster)
    found, _ = _parts(torus, _sizes(mesh), cluster.devices_per_slice)
    values = np.array([_links([torus.piece(*spot) for spot in part]) for part in found.parts])
    columns = {axis: values[code] for axis, code in zip(ORDER, found.codes, strict=True)}
    return {axis: AxisLinks(v[:, 0], v[:, 1], v[:, 2], v[:, 3] > 0) for axis, v in columns.items()}


def _sizes(mesh: Columns) -> list[Ints]:
    return [np.asarray(mesh.column(axis), dtype=np.int64) for axis in ORDER]


def _parts(torus: Torus, sizes: list[Ints], devices: int) -> tuple[Assignment, Bools]:
    """Parts in `ORDER`, and whether JAX had to turn to its splitting algorithm, `(n,)`."""
    if torus.is_walk:
        found = assign(Sequence1D(torus.shape), sizes, devices)
        return found, ~found.is_found
    found = assign(WholeAxes(torus.shape, torus.has_cores), sizes, devices)
    rest = np.flatnonzero(~found.is_found)
    split = assign(SplitAxes(torus.shape), [column[rest] for column in sizes], devices)
    for code, other in zip(found.codes, split.codes, strict=True):
        code[rest] = other + len(found.parts)
    is_found = found.is_found.copy()
    is_found[rest] = split.is_found
    return Assignment(found.codes, [*found.parts, *split.parts], is_found), ~found.is_found


def _links(pieces: list[Piece]) -> tuple[float, float, float, float]:
    """Links, slowest, hops and whether the pair of a chip is among the pieces."""
    torus = [(piece, (1 + piece.is_ring) / piece.stride) for piece in pieces if piece.link == "ici"]
    links = sum(each for _, each in torus)
    slowest = max((piece.length / each for piece, each in torus), default=0.0)
    hops = sum(piece.stride * (piece.length // 2 if piece.is_ring else piece.length - 1) for piece in pieces)
    return links, slowest, float(hops), float(len(torus) < len(pieces))
