from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from shardplan.machine.chips import resolve_cluster
from shardplan.machine.torus import ORDER, Piece, fits_without_split, lay_out, layouts_of, links_of
from shardplan.spec import AXES
from shardplan.splits.candidates import Mesh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.spec import Cluster
    from shardplan.units import Ints

JAX_MESHES = [json.loads(line) for line in (DATA / "jax_meshes.jsonl").read_text().splitlines()]
SLICES = sorted({(row["chip"], row["topology"]) for row in JAX_MESHES})

WALKS = {
    (2, 2): (0, 1, 3, 2),
    (2, 4): (0, 1, 2, 3, 7, 6, 5, 4),
    (2, 2, 2): (0, 1, 3, 2, 6, 7, 5, 4),
}
"""Order in which JAX visits the chips of a small slice, x fastest in the numbering."""
WALK_4X4 = (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4)
"""The same for a 4x4 slice that is one mesh axis: the same sixteen devices, so the layout says nothing of it."""
TRAY = (0, 1, 2, 3, 6, 7, 4, 5)
"""Order of the eight devices of four TPU7x chips."""


def cluster(chip: str, topology: str) -> Cluster:
    return resolve_cluster(chip, topology=topology)


def coordinates(one: Cluster) -> Ints:
    """Coordinates (x, y, z, core) of the devices, as an array of the torus's own shape."""
    sides = (*one.topology, *(1,) * (3 - len(one.topology)))
    cores = one.chip.jax_devices_per_chip
    by_number = [
        (x, y, z, c) for z in range(sides[2]) for y in range(sides[1]) for x in range(sides[0]) for c in range(cores)
    ]
    if one.topology in one.chip.ring_slices and cores == 2:
        by_number = [by_number[8 * tray + i] for tray in range(len(by_number) // 8) for i in TRAY]
        return np.array(by_number).reshape(-1, 4, 2, 4)
    if one.topology in one.chip.ring_slices:
        return np.array([by_number[i] for i in WALKS[one.topology]]).reshape(-1, 4)
    shape = (*one.topology, *([cores] if cores > 1 else []))
    grid = np.zeros((*sides, cores, 4), dtype=int)
    for at in by_number:
        grid[at] = at
    return grid.reshape(*shape, 4)


def mesh_digest(one: Cluster, degrees: tuple[int, ...], dcn: Sequence[int]) -> str:
    """Digest of the mesh our layout describes, device by device in mesh order."""
    layout = lay_out(one, degrees)
    order = ORDER
    physical = coordinates(one)
    if one.topology == (4, 4) and max(degrees) == 16:
        physical = physical.transpose(1, 0, 2).reshape(16, 4)[list(WALK_4X4)].reshape(4, 4, 4)
    spots = [(place, piece) for place, axis in enumerate(order) for piece in layout.pieces.get(axis, ())]
    # Each physical axis is cut at the strides of its pieces, largest stride outermost.
    spots.sort(key=lambda spot: (spot[1].axis, -spot[1].stride))
    cut = physical.reshape(*(piece.length for _, piece in spots), 4)
    rank = sorted(range(len(spots)), key=lambda i: (spots[i][0], spots[i][1].axis))
    sizes = [degrees[AXES.index(axis)] for axis in order]
    mesh = cut.transpose(*rank, len(spots)).reshape(*sizes, 4)
    slices = np.arange(math.prod(dcn)).reshape([dcn[AXES.index(axis)] for axis in order])

    def of_slice(i: int) -> Ints:
        return np.concatenate([mesh, np.full((*mesh.shape[:-1], 1), i)], axis=-1)

    blocks = [of_slice(i) for i in slices.flatten()]
    whole = np.zeros([s * d for s, d in zip(sizes, slices.shape, strict=True)] + [5], dtype=np.int32)
    for index, block in zip(np.ndindex(*slices.shape), blocks, strict=True):
        whole[tuple(slice(i * s, (i + 1) * s) for i, s in zip(index, sizes, strict=True))] = block
    return hashlib.sha1(whole.reshape(-1, 5).tobytes(), usedforsecurity=False).hexdigest()[:16]


@pytest.mark.parametrize(("chip", "topology"), SLICES, ids=str)
def test_every_mesh_is_jax_s_own_device_by_device(chip: str, topology: str) -> None:
    one = cluster(chip, topology)
    rows = [row for row in JAX_MESHES if (row["chip"], row["topology"]) == (chip, topology)]
    wrong = []
    for row in rows:
        degrees = tuple(row["degrees"])
        layout = lay_out(one, degrees)
        digest = mesh_digest(one, degrees, row.get("dcn", (1,) * len(AXES)))
        if layout.needs_split != row["split"] or digest != row["sha1"]:
            wrong.append((row, layout))
    assert not wrong


ALLOWED = {
    ("v5e", "2x4"): {1, 2, 4, 8},
    ("v5e", "4x4"): {1, 4, 16},
    ("v6e", "4x8"): {1, 4, 8, 32},
    ("v6e", "8x8"): {1, 8, 64},
    ("v5e", "8x16"): {1, 8, 16, 128},
    ("v6e", "16x16"): {1, 16, 256},
    ("v4", "2x2x1"): {1, 2, 4},
    ("v5p", "2x2x2"): {1, 2, 4, 8},
    ("v4", "2x2x4"): {1, 2, 4, 8, 16},
    ("v5p", "2x4x4"): {1, 2, 4, 8, 16, 32},
    ("v4", "4x4x4"): {1, 4, 16, 64},
    ("v5p", "4x4x8"): {1, 4, 8, 16, 32, 128},
    ("v5p", "4x8x8"): {1, 4, 8, 32, 64, 256},
    ("v5p", "8x8x8"): {1, 8, 64, 512},
    ("v5p", "8x8x16"): {1, 8, 16, 64, 128, 1024},
    ("tpu7x", "2x2x1"): {2**i for i in range(4)},
    ("tpu7x", "2x2x2"): {2**i for i in range(5)},
    ("tpu7x", "2x2x4"): {2**i for i in range(6)},
    ("tpu7x", "2x4x4"): {2**i for i in range(7)},
    ("tpu7x", "4x4x4"): {2**i for i in range(8)},
    ("tpu7x", "4x4x8"): {2**i for i in range(9)},
    ("tpu7x", "4x8x8"): {2**i for i in range(10)},
    ("tpu7x", "8x8x8"): {1, 2, 8, 16, 64, 128, 512, 1024},
    ("tpu7x", "8x8x16"): {2**i for i in range(12)} - {4, 512},
}
"""Sizes of the second axis of a two-axis mesh without splitting. Source: MaxText 0.2.5, observed."""


@pytest.mark.parametrize(("chip", "topology"), ALLOWED, ids=str)
def test_two_axis_meshes_that_need_no_split_are_the_observed_ones(chip: str, topology: str) -> None:
    one = cluster(chip, topology)
    n = one.devices_per_slice
    sizes = [x for x in range(1, n + 1) if n % x == 0]
    mesh = Mesh.of([{"fsdp": n // x, "tensor": x} for x in sizes])
    assert {x for x, fits in zip(sizes, fits_without_split(one, mesh), strict=True) if fits} == ALLOWED[chip, topology]


def test_innermost_pair_of_tpu7x_is_the_two_devices_of_a_chip() -> None:
    layout = lay_out(cluster("tpu7x", "4x4x4"), (1, 1, 64, 1, 1, 2, 1))
    (pair,) = layout.pieces["tensor"]
    assert (pair.link, pair.length) == ("d2d", 2)
    assert [(p.length, p.is_ring, p.link) for p in layout.pieces["fsdp"]] == [(4, True, "ici")] * 3


def test_outer_part_of_a_split_ring_shares_its_links() -> None:
    layout = lay_out(cluster("v5p", "4x4x8"), (1, 1, 64, 1, 1, 2, 1))
    assert layout.needs_split
    inner = layout.pieces["tensor"]
    outer = [piece for piece in layout.pieces["fsdp"] if piece.axis == inner[0].axis]
    assert [(p.length, p.is_ring, p.stride) for p in inner] == [(2, False, 1)]
    assert [(p.is_ring, p.stride) for p in outer] == [(True, 2)]


def test_a_mesh_of_another_size_has_no_layout() -> None:
    assert lay_out(cluster("v5p", "4x4x4"), (1, 1, 32, 1, 1, 1, 1)) is None
    assert not fits_without_split(cluster("v5p", "4x4x4"), Mesh.of([{"fsdp": 32}, {"fsdp": 3}])).any()


def test_no_rows_no_answers() -> None:
    assert fits_without_split(cluster("v5p", "4x4x4"), Mesh.of([])).shape == (0,)


@st.composite
def meshes(draw: st.DrawFn) -> tuple[Cluster, tuple[int, ...]]:
    chip, topology = draw(st.sampled_from(SLICES))
    one = cluster(chip, topology)
    rest, degrees = one.devices_per_slice, []
    for _ in AXES[:-1]:
        degree = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        degrees.append(degree)
        rest //= degree
    return one, tuple(draw(st.permutations([*degrees, rest])))


@given(meshes())
def test_pieces_of_an_axis_multiply_to_its_degree_and_tile_the_torus(
    case: tuple[Cluster, tuple[int, ...]],
) -> None:
    one, degrees = case
    layout = lay_out(one, degrees)
    for axis, degree in zip(AXES, degrees, strict=True):
        assert math.prod(piece.length for piece in layout.pieces.get(axis, ())) == degree
    by_axis: dict[int, list[Piece]] = {}
    for pieces in layout.pieces.values():
        for piece in pieces:
            by_axis.setdefault(piece.axis, []).append(piece)
    for pieces in by_axis.values():
        stride = 1
        for piece in sorted(pieces, key=lambda p: p.stride):
            assert piece.stride == stride
            stride *= piece.length


@given(st.lists(meshes(), min_size=1, max_size=8))
def test_many_meshes_at_once_equal_one_at_a_time(cases: list[tuple[Cluster, tuple[int, ...]]]) -> None:
    one = cases[0][0]
    rows = [degrees for other, degrees in cases if other == one]
    mesh = Mesh(*np.array(rows, dtype=np.int64).T)
    layouts = [lay_out(one, degrees) for degrees in rows]
    assert [not layout.needs_split for layout in layouts if layout] == fits_without_split(one, mesh).tolist()
    distinct, index = layouts_of(one, mesh)
    assert [distinct[i] for i in index] == layouts
    links = links_of(one, mesh)
    for i, row in enumerate(rows):
        alone = links_of(one, Mesh(*np.array([row], dtype=np.int64).T))
        assert all(links[axis].links[i] == alone[axis].links[0] for axis in AXES)
