"""Which physical axes of a slice each mesh axis gets, exactly as JAX lays a mesh out.

From the last mesh axis (most traffic) to the first, an axis takes the largest set of unused physical axes whose product
is its degree; if some axis finds none, physical axes are split, which MaxText does only with
`allow_split_physical_axes=true`. A few small slices are laid out as one ring over the tray and take any mesh.
Source: jax 0.12 `jax/_src/mesh_utils.py`, checked device by device in tests/test_torus.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from shardplan.chips import wraps
from shardplan.spec import AXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from shardplan.spec import Cluster
    from shardplan.units import Bools, Floats, Ints

    class Columns(Protocol):
        """Degrees by mesh axis, such as `candidates.Mesh`."""

        def column(self, axis: str) -> Ints:
            """Degrees of one axis, `(n,)`."""
            ...


PIPELINED_ORDER = ("pipeline", *(axis for axis in AXES if axis != "pipeline"))
"""Mesh axes with a pipeline, which MaxText moves before `data`. The last axis has the most traffic and is laid out first."""


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
class Torus:
    """Physical axes of one slice as JAX sees them, the core axis of a two-device chip last."""

    shape: tuple[int, ...]
    is_ring: tuple[bool, ...]
    has_cores: bool
    """Whether the last axis is the two devices of a chip."""
    as_sequence: bool = False
    """Whether JAX numbers the devices along one walk over the slice and merely reshapes it: no mesh needs a split."""

    def piece(self, axis: int, length: int, stride: int) -> Piece:
        """A part of a physical axis: `length` devices, `stride` apart."""
        whole_way = length * stride == self.shape[axis]
        link: Literal["ici", "d2d"] = "d2d" if self.has_cores and axis == len(self.shape) - 1 else "ici"
        return Piece(axis, length, self.is_ring[axis] and whole_way, stride, link)


def torus_of(cluster: Cluster) -> Torus:
    """The physical axes of one slice of the cluster."""
    is_walk = cluster.topology in cluster.chip.ring_slices
    return _torus(cluster.topology, wraps(cluster), cluster.chip.jax_devices_per_chip, is_walk)


def lay_out(cluster: Cluster, degrees: tuple[int, ...]) -> Layout | None:
    """The layout of ICI degrees in `AXES` order on one slice, or None if they do not multiply to its devices."""
    return _lay_out(torus_of(cluster), tuple(map(int, degrees)))


def fits_without_split(cluster: Cluster, mesh: Columns) -> Bools:
    """Whether JAX lays each mesh out with whole physical axes, `(n,)`; False also where the product is wrong."""
    torus = torus_of(cluster)
    tuples, rows = _distinct(cluster, mesh)
    fits = [
        _has_all(torus, degrees) and (torus.as_sequence or _whole_axes(torus, _sizes(degrees)) is not None)
        for degrees in tuples
    ]
    return np.array(fits, dtype=bool)[rows]


def layouts_of(cluster: Cluster, mesh: Columns) -> tuple[list[Layout | None], Ints]:
    """The distinct layouts of a mesh's rows, and for each row the index of its own, `(n,)`."""
    torus = torus_of(cluster)
    tuples, rows = _distinct(cluster, mesh)
    return [_lay_out(torus, degrees) for degrees in tuples], rows


@dataclass(frozen=True, slots=True)
class AxisLinks:
    """What one mesh axis has of the torus, `(d,)` by distinct mesh."""

    links: Floats
    """Links of a chip that bring data from the axis: two of a ring, one of a line, each shared by interleaved rings."""
    slowest: Floats
    """Largest length over links of its pieces: what an all-to-all waits for. 0 without a piece on the torus."""
    hops: Floats
    """Links from one end to the other, all pieces after one another."""
    has_pair: Bools
    """Whether the two devices of a chip belong to it."""


def links_of(cluster: Cluster, mesh: Columns) -> tuple[dict[str, AxisLinks], Ints]:
    """Links by mesh axis for the distinct meshes of the rows, and for each row the index of its own, `(n,)`.

    Meshes that do not have the devices of the slice have no links.
    """
    torus = torus_of(cluster)
    tuples, rows = _distinct(cluster, mesh)
    # Few distinct parts occur; each gets a code, and code 0 stands for no part.
    codes: dict[tuple[Spot, ...], int] = {(): 0}
    by_axis = [[0] * len(tuples) for _ in AXES]
    for column, degrees in enumerate(tuples):
        if _has_all(torus, degrees):
            parts = iter(_parts(torus, _sizes(degrees))[0])
            for place in _PIPELINED_PLACES if degrees[_PIPELINE] > 1 else _PLACES:
                if degrees[place] > 1:
                    by_axis[place][column] = codes.setdefault(next(parts), len(codes))
    values = np.array([_links(_pieces(torus, part)) for part in codes])
    found = {axis: values[by_axis[i]] for i, axis in enumerate(AXES)}
    return {axis: AxisLinks(v[:, 0], v[:, 1], v[:, 2], v[:, 3] > 0) for axis, v in found.items()}, rows


_PIPELINE = AXES.index("pipeline")
_PLACES = tuple(range(len(AXES)))
_PIPELINED_PLACES = tuple(AXES.index(axis) for axis in PIPELINED_ORDER)


def _links(pieces: tuple[Piece, ...]) -> tuple[float, float, float, float]:
    """Links, slowest, hops and whether the pair of a chip is among the pieces."""
    torus = [(piece, (1 + piece.is_ring) / piece.stride) for piece in pieces if piece.link == "ici"]
    links = sum(each for _, each in torus)
    slowest = max((piece.length / each for piece, each in torus), default=0.0)
    hops = sum(piece.stride * (piece.length // 2 if piece.is_ring else piece.length - 1) for piece in pieces)
    return links, slowest, float(hops), float(len(torus) < len(pieces))


# --- physical axes ---------------------------------------------------------------------------------------------------


@cache
def _torus(shape: tuple[int, ...], rings: tuple[bool, ...], devices_per_chip: int, is_walk: bool) -> Torus:  # noqa: FBT001 - a cache key
    """The torus as it is, or a walk over it where JAX has a handler that does not look at the torus.

    Source: `_7x_create_device_mesh`, `_v5e_create_device_mesh`, `_v5p_create_device_mesh`.
    """
    chips = math.prod(shape)
    cores = () if devices_per_chip == 1 else (devices_per_chip,)
    if is_walk and cores:
        # The four chips of a tray in a ring, both devices of each in turn, then the next tray.
        return Torus((chips // 4, 4, *cores), (False, True, False), has_cores=True, as_sequence=True)
    if is_walk:
        return Torus((chips,), (True,), has_cores=False, as_sequence=True)
    return Torus((*shape, *cores), (*rings, *(False for _ in cores)), has_cores=bool(cores))


# --- assignment ------------------------------------------------------------------------------------------------------


@cache
def _lay_out(torus: Torus, degrees: tuple[int, ...]) -> Layout | None:
    if not _has_all(torus, degrees):
        return None
    names = [axis for axis in mesh_order(degrees) if degrees[AXES.index(axis)] > 1]
    parts, needs_split = _parts(torus, _sizes(degrees))
    return Layout({name: _pieces(torus, part) for name, part in zip(names, parts, strict=True)}, needs_split)


def mesh_order(degrees: tuple[int, ...]) -> tuple[str, ...]:
    """Mesh axes in the order JAX sees them."""
    return PIPELINED_ORDER if degrees[_PIPELINE] > 1 else AXES


def _has_all(torus: Torus, degrees: tuple[int, ...]) -> bool:
    """Whether the degrees multiply to the devices of the slice."""
    return math.prod(degrees) == math.prod(torus.shape)


def _sizes(degrees: tuple[int, ...]) -> tuple[int, ...]:
    """Degrees above 1 in mesh order."""
    first = degrees[_PIPELINE]
    if first > 1:
        degrees = (first, *degrees[:_PIPELINE], *degrees[_PIPELINE + 1 :])
    return tuple(degree for degree in degrees if degree > 1)


Spot = tuple[int, int, int]
"""Physical axis, devices along it, stride along it."""


@cache
def _pieces(torus: Torus, part: tuple[Spot, ...]) -> tuple[Piece, ...]:
    return tuple(torus.piece(*spot) for spot in part)


def _parts(torus: Torus, sizes: tuple[int, ...]) -> tuple[tuple[tuple[Spot, ...], ...], bool]:
    """For each logical axis its parts of physical axes; and whether JAX had to turn to its splitting algorithm."""
    if torus.as_sequence:
        return _reshaped(torus.shape, sizes), False
    whole = _whole_axes(torus, sizes)
    if whole is not None:
        return tuple(tuple((axis, torus.shape[axis], 1) for axis in axes) for axes in whole), False
    return _split(torus.shape, sizes), True


def _whole_axes(torus: Torus, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Physical axes by logical axis if each gets whole ones, else None: `_create_device_mesh_for_nd_torus`."""
    free, taken = torus.shape, []
    for size in reversed(sizes):
        found = _take_whole(free, size, torus.has_cores)
        if found is None:
            return None
        axes, free = found
        taken.append(axes)
    return tuple(reversed(taken))


@cache
def _take_whole(
    free: tuple[int, ...],
    size: int,
    has_cores: bool,  # noqa: FBT001 - a cache key
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The physical axes one logical axis takes of the free ones, and what stays free (0 where taken)."""
    for axes in _subsets(len(free), has_cores):
        if math.prod(free[axis] for axis in axes) == size:
            return axes, tuple(0 if axis in axes else length for axis, length in enumerate(free))
    return None


@cache
def _subsets(n_axes: int, has_cores: bool) -> tuple[tuple[int, ...], ...]:  # noqa: FBT001 - a cache key
    """Sets of physical axes in the order JAX tries them: more axes first, then those with the core axis."""
    rank = [*range(1, n_axes), 0]
    ordered: list[tuple[int, ...]] = []
    for size in range(n_axes, 0, -1):
        sets = list(combinations(range(n_axes), size))
        if has_cores:
            sets.sort(key=lambda axes: (min(rank[a] for a in axes), sum(rank[a] for a in axes)))
        ordered += sets
    return tuple(ordered)


def _reshaped(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[tuple[Spot, ...], ...]:
    """Parts of a plain reshape: the last logical axis takes the innermost devices of the sequence."""
    parts: list[tuple[Spot, ...]] = []
    axis, stride = len(shape) - 1, 1
    for size in reversed(sizes):
        spots: list[Spot] = []
        rest = size
        while rest > 1:
            take = math.gcd(rest, shape[axis] // stride)
            if take > 1:
                spots.append((axis, take, stride))
                rest, stride = rest // take, stride * take
            if stride == shape[axis]:
                axis, stride = axis - 1, 1
        parts.append(tuple(reversed(spots)))
    return tuple(reversed(parts))


def _split(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[tuple[Spot, ...], ...]:
    """Parts where physical axes are split: `_create_device_mesh_for_nd_torus_splitting_axes`.

    Later logical axes lie innermost on a shared physical axis.
    """
    used = (1,) * len(shape)
    parts: list[tuple[Spot, ...]] = []
    for size in reversed(sizes):
        part, used = _take_part(shape, used, size)
        parts.append(part)
    return tuple(reversed(parts))


@cache
def _take_part(shape: tuple[int, ...], used: tuple[int, ...], size: int) -> tuple[tuple[Spot, ...], tuple[int, ...]]:
    """The parts one logical axis takes, and the devices then in use along each physical axis."""
    best = max(_assignments(shape, used, size), key=lambda option: _preference(option, shape, used))
    part = tuple((axis, n, used[axis]) for axis, n in enumerate(best) if n > 1)
    return part, tuple(u * n for u, n in zip(used, best, strict=True))


def _assignments(shape: tuple[int, ...], used: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Every way to make `size` of divisors of what is left of each physical axis."""
    left = [length // taken for length, taken in zip(shape, used, strict=True)]
    choices = [[d for d in range(1, n + 1) if n % d == 0 and size % d == 0] for n in left]
    return (option for option in product(*choices) if math.prod(option) == size)


def _preference(option: tuple[int, ...], shape: tuple[int, ...], used: tuple[int, ...]) -> tuple[object, ...]:
    """What JAX prefers, largest first: devices on whole axes, whole axes, devices on axes in use, then the first axes."""
    whole = [n for n, length in zip(option, shape, strict=True) if n == length]
    in_use = math.prod(n for n, taken in zip(option, used, strict=True) if taken > 1)
    return math.prod(whole), sum(n > 1 for n in whole), in_use, option


def _distinct(cluster: Cluster, mesh: Columns) -> tuple[list[tuple[int, ...]], Ints]:
    """Distinct degree tuples in `AXES` order, and for each row the index of its own, `(n,)`."""
    total = cluster.devices_per_slice
    columns = [np.asarray(mesh.column(axis), dtype=np.int64) for axis in AXES]
    # A degree's code is its place among the divisors; 1 + the last place for one that does not divide the slice.
    divisors = np.array([d for d in range(1, total + 1) if total % d == 0], dtype=np.int64)
    code = np.full(total + 2, len(divisors), dtype=np.int64)
    code[divisors] = np.arange(len(divisors))
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        key = key * (len(divisors) + 1) + code[np.clip(column, 0, total + 1)]
    _, first, rows = np.unique(key, return_index=True, return_inverse=True)
    return list(zip(*(column[first].tolist() for column in columns), strict=True)), rows.reshape(-1)
