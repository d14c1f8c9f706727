"""How JAX gives physical axes to mesh axes: its algorithms as steps from state to state.

Mesh axes take their share one by one, the last (most traffic) first. A step says what an axis of some size takes in a
state, and the state after it; thousands of meshes pass through few states, so each step is worked out once.
Source: jax 0.12 `jax/_src/mesh_utils.py`.
"""

from __future__ import annotations

import math
from functools import cache, reduce
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardplan.units import Bools, Ints

Shape: TypeAlias = tuple[int, ...]


class Spot(NamedTuple):
    """Part of a physical axis: every `stride`-th device of it, `length` of them."""

    axis: int
    length: int
    stride: int


Part: TypeAlias = tuple[Spot, ...]
"""What one mesh axis gets."""


class Manner(Protocol):
    """One of JAX's algorithms."""

    @property
    def start(self) -> Any:
        """The state with nothing taken."""
        ...

    def take(self, state: Any, size: int) -> tuple[Part, Any] | None:
        """What an axis of that size takes, and the state after it; None if it finds nothing."""
        ...


class WholeAxes(NamedTuple):
    """Each mesh axis takes whole physical axes: `_create_device_mesh_for_nd_torus`. A state is what is free, 0 if taken."""

    shape: Shape
    has_cores: bool
    """Whether the last physical axis is that of a chip's two devices, which is given away first."""

    @property
    def start(self) -> Shape:
        """All physical axes."""
        return self.shape

    def take(self, state: Shape, size: int) -> tuple[Part, Shape] | None:
        """The largest set of free axes whose product is the size."""
        for axes in _subsets(len(state), self.has_cores):
            if math.prod(state[axis] for axis in axes) == size:
                part = tuple(Spot(axis, state[axis], 1) for axis in axes)
                return part, tuple(0 if axis in axes else length for axis, length in enumerate(state))
        return None


class SplitAxes(NamedTuple):
    """Mesh axes may share a physical axis: `_create_device_mesh_for_nd_torus_splitting_axes`.

    A state is the devices in use along each physical axis; later takers lie outermost.
    """

    shape: Shape

    @property
    def start(self) -> Shape:
        """Nothing in use."""
        return (1,) * len(self.shape)

    def take(self, state: Shape, size: int) -> tuple[Part, Shape]:
        """The parts JAX prefers."""
        return _split(self.shape, state, size)


class Sequence1D(NamedTuple):
    """Devices along one walk, reshaped: the last mesh axis takes the innermost ones. A state is an axis and a stride."""

    shape: Shape

    @property
    def start(self) -> tuple[int, int]:
        """The innermost axis, from its first device."""
        return len(self.shape) - 1, 1

    def take(self, state: tuple[int, int], size: int) -> tuple[Part, tuple[int, int]]:
        """The next devices of the walk."""
        (axis, stride), spots, rest = state, [], size
        while rest > 1:
            length = math.gcd(rest, self.shape[axis] // stride)
            assert length > 1, f"{size} does not lie evenly on a walk of {self.shape}"
            spots.append(Spot(axis, length, stride))
            rest, stride = rest // length, stride * length
            if stride == self.shape[axis]:
                axis, stride = axis - 1, 1
        return tuple(reversed(spots)), (axis, stride)


class Assignment(NamedTuple):
    """Parts by mesh axis for many meshes."""

    codes: list[Ints]
    """Index into `parts`, `(n,)` for each mesh axis."""
    parts: list[Part]
    is_found: Bools
    """Whether every axis found its part, `(n,)`."""


_LOST, _START = 0, 1


def assign(manner: Manner, sizes: Sequence[Ints], total: int) -> Assignment:
    """Parts for meshes with the given sizes, `(n,)` each, first mesh axis first; lost where they do not multiply to `total`."""
    divisors, place = _divisors(total)
    fits = reduce(np.multiply, sizes) == total
    states, known = [None, manner.start], {manner.start: _START}
    parts: dict[Part, int] = {(): 0}
    at, codes = np.where(fits, _START, _LOST), []
    for column in reversed(sizes):
        step = at * len(divisors) + place[np.clip(column, 0, total + 1)]
        code = np.zeros(len(states) * len(divisors), dtype=np.int64)
        after = code.copy()
        for one in np.flatnonzero(np.bincount(step, minlength=1)).tolist():
            state, size = one // len(divisors), divisors[one % len(divisors)]
            if state == _LOST or size == 1:
                after[one] = state
            elif (found := manner.take(states[state], size)) is not None:
                code[one] = parts.setdefault(found[0], len(parts))
                if found[1] not in known:
                    known[found[1]] = len(states)
                    states.append(found[1])
                after[one] = known[found[1]]
        codes.append(code[step])
        at = after[step]
    return Assignment(codes[::-1], list(parts), at != _LOST)


@cache
def _divisors(total: int) -> tuple[list[int], Ints]:
    """Divisors of a number, and by number up to one more than it the place among them; 0 for what is none."""
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    place = np.zeros(total + 2, dtype=np.int64)
    place[divisors] = np.arange(len(divisors))
    return divisors, place


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


@cache
def _split(shape: Shape, used: Shape, size: int) -> tuple[Part, Shape]:
    best = max(_options(shape, used, size), key=lambda option: _preference(option, shape, used))
    part = tuple(Spot(axis, n, used[axis]) for axis, n in enumerate(best) if n > 1)
    return part, tuple(u * n for u, n in zip(used, best, strict=True))


def _options(shape: Shape, used: Shape, size: int) -> Iterator[Shape]:
    """Every way to make `size` of divisors of what is left of each physical axis."""
    left = [length // taken for length, taken in zip(shape, used, strict=True)]
    *most, last = left
    choices = [[d for d in range(1, math.gcd(n, size) + 1) if math.gcd(n, size) % d == 0] for n in most]
    for option in product(*choices):
        rest, over = divmod(size, math.prod(option))
        if not over and last % rest == 0:
            yield (*option, rest)


def _preference(option: Shape, shape: Shape, used: Shape) -> tuple[object, ...]:
    """What JAX prefers, largest first: devices on whole axes, whole axes, devices on axes in use, then the first axes."""
    whole = [n for n, length in zip(option, shape, strict=True) if n == length]
    in_use = math.prod(n for n, taken in zip(option, used, strict=True) if taken > 1)
    return math.prod(whole), sum(n > 1 for n in whole), in_use, option
