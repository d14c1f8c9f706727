"""Chips by name, and slices by topology, chip count or the cloud's accelerator name.

The shapes of a slice are a rule of the chip, not a list of ours: a 2D chip has a few, a 3D chip has a few below one cube
of 4 x 4 x 4 and above it every A x B x C of whole cubes, sides sorted.
Source: Google Cloud TPU system architecture page; MaxText utils/accelerator_to_spec_map.py for the default shapes.
"""

from __future__ import annotations

import math
import re
from functools import cache
from typing import TYPE_CHECKING

from shardplan import data
from shardplan.errors import Diagnostic, InputError, suggest
from shardplan.source import build, read_document
from shardplan.spec import Chip, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.errors import Mark

_SHAPE = re.compile(r"\d{1,6}(?:x\d{1,6}){1,2}", re.ASCII)
_ACCELERATOR = re.compile(
    r"(?P<prefix>[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*?)[-:](?:(?P<count>\d{1,9})|(?P<shape>\d{1,6}(?:x\d{1,6}){1,2}))",
    re.ASCII,
)


def chip_names() -> list[str]:
    """The chips with a file in `rules/hardware`, sorted."""
    return data.names(data.rules_folder() / "hardware")


@cache
def _chip(name: str) -> Chip:
    """The chip in the file of that name; InputError with all that is wrong in it."""
    document = read_document(data.rules_folder() / "hardware" / f"{name}.yaml")
    chip = build(Chip, document)
    if chip.name != name:
        raise _refusal("SP015", f"name: {chip.name} is in a file called {name}.yaml", document.mark(("name",)))
    return chip


def load_chip(name: str, mark: Mark | None = None) -> Chip:
    """The chip of that name or alias; InputError if there is none."""
    # Guard: reading every chip's file to learn aliases takes longer than a small search.
    found = name if name in chip_names() else _spellings().get(_plain(name))
    if found is None:
        hint = suggest(name, [*chip_names(), *(alias for chip in chip_names() for alias in _chip(chip).aliases)])
        message = f"unknown chip {name[:60]!r}; the chips are {', '.join(chip_names())}"
        raise InputError([Diagnostic("SP014", message, mark, hint)])
    return _chip(found)


def resolve_cluster(  # noqa: PLR0913 - one argument a key of the input
    chip: str | None,
    *,
    topology: str | None = None,
    chips: int | None = None,
    accelerator: str | None = None,
    slices: int = 1,
    mark: Mark | None = None,
) -> Cluster:
    """Slices from exactly one of topology, chips (of one slice) and accelerator name; InputError otherwise.

    The chip may be left out beside an accelerator name, which says it.
    """
    given = {"topology": topology, "chips": chips, "accelerator": accelerator}
    written = [key for key, value in given.items() if value is not None]
    if len(written) != 1:
        found = " and ".join(written) or "none of them"
        raise _refusal("SP015", f"give exactly one of topology, chips, accelerator; found {found}", mark)
    if slices < 1:
        raise _refusal("SP013", f"slices is {slices}; expected at least 1", mark)
    if accelerator is not None:
        machine, shape = _from_accelerator(accelerator, mark)
        if chip is not None and load_chip(chip, mark) != machine:
            raise _refusal("SP015", f"accelerator {accelerator} is a {machine.name}, but chip says {chip}", mark)
    elif chip is None:
        raise _refusal("SP011", f"chip is missing; the chips are {', '.join(chip_names())}", mark)
    else:
        machine = load_chip(chip, mark)
        shape = _parse_shape(topology, mark) if topology is not None else _default_shape(machine, chips or 0, mark)
    if not is_allowed(machine, shape):
        raise _refusal("SP014", f"{machine.name} has no slice {_text(shape)}", mark, _shape_hint(machine, shape))
    return Cluster(chip=machine, topology=shape, slices=slices, accelerator=accelerator)


def is_allowed(chip: Chip, shape: tuple[int, ...]) -> bool:
    """Whether the cloud has slices of that shape, in chips."""
    if shape in chip.small_slices:
        return True
    whole_cubes = (
        _is_3d(chip) and len(shape) == chip.torus_dims and all(side and side % chip.wrap_side == 0 for side in shape)
    )
    return whole_cubes and list(shape) == sorted(shape) and math.prod(shape) <= chip.max_chips


def default_shape(chip: Chip, chips: int) -> tuple[int, ...] | None:
    """The most compact allowed shape of that many chips, MaxText's choice; None if there is none.

    Agrees with all 223 names of MaxText's table.
    """
    for shape in chip.small_slices:
        if math.prod(shape) == chips:
            return shape
    if not _is_3d(chip) or chips <= 0 or chips % chip.wrap_side**3 or chips > chip.max_chips:
        return None
    cubes = min(_triples(chips // chip.wrap_side**3), key=lambda triple: (sum(triple), triple))
    return tuple(side * chip.wrap_side for side in cubes)


def wraps(cluster: Cluster) -> tuple[bool, ...]:
    """Whether each axis of the slice is a ring rather than a line, in the order of `topology`."""
    chip, shape = cluster.chip, cluster.topology
    if _is_3d(chip):
        return (all(side % chip.wrap_side == 0 for side in shape),) * len(shape)
    return tuple(side == chip.wrap_side for side in shape)


def accelerator_name(cluster: Cluster) -> str:
    """The cloud's name for one slice, which is also MaxText's `compile_topology`: "v5p-256", "tpu7x-128"."""
    return cluster.chip.accelerator(cluster.chip.name, cluster.chips_per_slice)


def resolution(cluster: Cluster) -> str:
    """What the user's words came to: "tpu7x-256: 256 JAX devices = 128 chips, 4x4x8"."""
    name = cluster.accelerator or f"{cluster.chip.name} {_text(cluster.topology)}"
    slices = f"{cluster.slices} slices of " if cluster.slices > 1 else ""
    return (
        f"{name}: {slices}{cluster.devices_per_slice:,} JAX devices = {cluster.chips_per_slice:,} chips, "
        f"{_text(cluster.topology)}"
    )


def _is_3d(chip: Chip) -> bool:
    """Whether large slices are built of cubes."""
    return chip.torus_dims == len("xyz")


# --- reading what the user wrote -----------------------------------------------------------------------------------


def _from_accelerator(name: str, mark: Mark | None) -> tuple[Chip, tuple[int, ...]]:
    match = _ACCELERATOR.fullmatch(name.strip())
    chip = _chip_of_prefix(match["prefix"].lower()) if match else None
    if match is None or chip is None:
        hint = suggest(
            name.rpartition("-")[0] or name,
            (prefix for known in chip_names() for prefix in _chip(known).accelerator_prefixes),
        )
        message = f"unknown accelerator {name[:60]!r}; expected a name such as v5p-256 or tpu7x-4x4x8"
        raise _refusal("SP014", message, mark, hint)
    prefix = match["prefix"].lower()
    if match["shape"]:
        return chip, _parse_shape(match["shape"], mark)
    unit = chip.accelerator_prefixes[prefix]
    count, per_chip = int(match["count"]), chip.counted_per_chip(unit)
    if count % per_chip:
        message = f"{name} counts {_UNIT_TEXT[unit]}, {per_chip} a chip; {count} is not a multiple"
        raise _refusal("SP014", message, mark, _count_hint(chip, count // per_chip))
    return chip, _default_shape(chip, count // per_chip, mark)


def _chip_of_prefix(prefix: str) -> Chip | None:
    """The chip whose accelerators begin so; the one of that name is looked at first."""
    for name in sorted(chip_names(), key=lambda name: name != prefix):
        if prefix in _chip(name).accelerator_prefixes:
            return _chip(name)
    return None


_UNIT_TEXT = {"chips": "chips", "devices": "JAX devices", "tensorcores": "TensorCores"}


def _parse_shape(text: str, mark: Mark | None) -> tuple[int, ...]:
    if not _SHAPE.fullmatch(text.strip()):
        raise _refusal("SP012", f"topology {text[:60]!r} is not a shape in chips such as 4x4x8", mark)
    return tuple(int(side) for side in text.strip().split("x"))


def _default_shape(chip: Chip, chips: int, mark: Mark | None) -> tuple[int, ...]:
    shape = default_shape(chip, chips)
    if shape is None:
        raise _refusal("SP014", f"{chip.name} has no slice of {chips:,} chips", mark, _count_hint(chip, chips))
    return shape


def _refusal(code: str, message: str, mark: Mark | None, hint: str | None = None) -> InputError:
    return InputError([Diagnostic(code, message, mark, hint)])


# --- hints -----------------------------------------------------------------------------------------------------------


def _shape_hint(chip: Chip, shape: tuple[int, ...]) -> str:
    """The allowed shapes nearest to one that is not."""
    if not _is_3d(chip):
        return "allowed: " + ", ".join(_text(small) for small in chip.small_slices)
    if len(shape) != chip.torus_dims:
        return f"a {chip.name} slice has {chip.torus_dims} sides, such as {_text((chip.wrap_side,) * chip.torus_dims)}"
    if is_allowed(chip, ordered := tuple(sorted(shape))):
        return f"sides are written in ascending order: {_text(ordered)}"
    side = chip.wrap_side
    down = tuple(max(side, length // side * side) for length in ordered)
    up = tuple(max(side, -(-length // side) * side) for length in ordered)
    near = dict.fromkeys(near for near in (down, up) if is_allowed(chip, near))
    return f"nearest: {', '.join(map(_text, near))}" if near else _count_hint(chip, math.prod(shape))


def _count_hint(chip: Chip, chips: int) -> str:
    """The allowed slices nearest to a number of chips."""
    cube = chip.wrap_side**3 if _is_3d(chip) else chip.max_chips
    counts = {math.prod(shape) for shape in chip.small_slices}
    counts |= {
        min(max(cube, around), chip.max_chips // cube * cube)
        for around in (chips // cube * cube, (chips // cube + 1) * cube)
    }
    below = max((n for n in counts if n <= chips), default=None)
    above = min((n for n in counts if n >= chips), default=None)
    near = [(n, default_shape(chip, n)) for n in dict.fromkeys((below, above)) if n is not None]
    return "nearest: " + ", ".join(f"{n:,} chips ({_text(shape)})" for n, shape in near if shape is not None)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _triples(n: int) -> Iterator[tuple[int, int, int]]:
    """Sorted triples whose product is n."""
    for a in range(1, round(n ** (1 / 3)) + 2):
        if n % a == 0:
            for b in range(a, math.isqrt(n // a) + 1):
                if (n // a) % b == 0:
                    yield a, b, n // a // b


def _plain(name: str) -> str:
    plain = re.sub(r"[\s_-]", "", name.lower())
    return plain if plain in {_bare(chip) for chip in chip_names()} else plain.removeprefix("tpu")


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


@cache
def _spellings() -> dict[str, str]:
    """Every accepted spelling, normalised, with the chip's name."""
    names = {_plain(name): name for name in chip_names()}
    return names | {_plain(alias): name for name in chip_names() for alias in _chip(name).aliases}
