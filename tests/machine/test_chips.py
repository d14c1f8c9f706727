from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from places import DATA

from shardplan.errors import InputError, Mark
from shardplan.machine.chips import (
    accelerator_name,
    chip_names,
    default_shape,
    is_allowed,
    load_chip,
    resolution,
    resolve_cluster,
    wraps,
)
from shardplan.spec import Figure

MAXTEXT_SLICES = [json.loads(line) for line in (DATA / "maxtext_slices.jsonl").read_text().splitlines()]
MARK = Mark("case.yaml", 4, 3)


def test_the_five_generations_are_known() -> None:
    assert {"tpu7x", "v4", "v5e", "v5p", "v6e"} <= {*chip_names()}


def test_maxtext_s_table_is_whole() -> None:
    assert len(MAXTEXT_SLICES) == 223


@pytest.mark.parametrize("row", MAXTEXT_SLICES, ids=lambda row: str(row["name"]))
def test_a_maxtext_slice_name_resolves_to_its_shape_devices_and_rings(row: dict[str, Any]) -> None:
    cluster = resolve_cluster(None, accelerator=row["name"])
    rings = [*wraps(cluster), False, False, False][:3]
    assert "x".join(map(str, cluster.topology)) == row["topology"]
    assert (cluster.devices_per_slice, rings) == (row["devices"], row["wrap"])
    assert accelerator_name(cluster) == row["name"]
    assert resolve_cluster(cluster.chip.name, chips=cluster.chips).topology == cluster.topology


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_says_how_many_measurements_stand_behind_it(name: str) -> None:
    corpora = [DATA / f"{file}.jsonl" for file in ("compiled_memory", "compiled_memory_wide", "compiled_published")]
    points = [json.loads(line) for path in corpora for line in path.read_text().splitlines()]
    compiled = [p for p in points if "flags" in p and (p.get("memory") or p.get("oom"))]
    mine = sum(resolve_cluster(None, accelerator=p["topology"]).chip.name == name for p in compiled)
    runs = [json.loads(line)["case"]["chip"] for line in (DATA / "recipes_tpu.jsonl").read_text().splitlines()]
    found = load_chip(name).calibration
    assert (found.compiled_points, found.published_runs) == (mine, runs.count(name))


@pytest.mark.parametrize("name", chip_names())
def test_every_figure_has_a_source_and_a_sensible_size(name: str) -> None:
    chip = load_chip(name)
    figures = {key: value for key, value in dict(chip).items() if isinstance(value, Figure)}
    assert len(figures) >= 9
    for figure in figures.values():
        assert figure.value > 0
        assert len(figure.source) > 10
    assert 0.9 < chip.usable_hbm_bytes_per_device.value * chip.jax_devices_per_chip / chip.hbm_bytes.value < 1.01
    links = 2 * chip.torus_dims * chip.ici_link_bytes_per_s.value
    assert chip.dcn_bytes_per_s.value < links < chip.hbm_bytes_per_s.value
    if book := chip.ici_link_bytes_per_s.alternatives.get("scaling book, tpus.md, May 2026"):
        assert book == pytest.approx(0.9 * chip.ici_link_bytes_per_s.value)


def test_ironwood_numbers_are_the_published_ones() -> None:
    chip = load_chip("Ironwood")
    assert chip.flops_per_s("bf16") == 1153.5e12
    assert chip.flops_per_s("fp8") == 2307e12
    assert chip.usable_hbm_bytes_per_device.value == int(94.74 * 2**30)
    assert chip.d2d_bytes_per_s is not None
    assert chip.d2d_bytes_per_s.value == 6 * chip.ici_link_bytes_per_s.value


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Ironwood", "tpu7x"),
        ("TPU7x", "tpu7x"),
        ("Trillium", "v6e"),
        ("TPU v6 lite", "v6e"),
        ("v5litepod", "v5e"),
        ("tpu-v5p", "v5p"),
        ("V4", "v4"),
    ],
)
def test_a_chip_answers_to_its_other_names(written: str, name: str) -> None:
    assert load_chip(written).name == name


@pytest.mark.parametrize(
    ("accelerator", "text"),
    [
        ("v5p-256", "v5p-256: 128 JAX devices = 128 chips, 4x4x8"),
        ("v6e-256", "v6e-256: 256 JAX devices = 256 chips, 16x16"),
        ("tpu7x-256", "tpu7x-256: 256 JAX devices = 128 chips, 4x4x8"),
        ("tpu7x-4x4x8", "tpu7x-4x4x8: 256 JAX devices = 128 chips, 4x4x8"),
        ("v5litepod-16", "v5litepod-16: 16 JAX devices = 16 chips, 4x4"),
        ("v5p:2x2x4", "v5p:2x2x4: 16 JAX devices = 16 chips, 2x2x4"),
    ],
)
def test_what_an_accelerator_name_counts_is_echoed(accelerator: str, text: str) -> None:
    assert resolution(resolve_cluster(None, accelerator=accelerator)) == text


def test_slices_are_echoed() -> None:
    cluster = resolve_cluster("v6e", topology="16x16", slices=4)
    assert resolution(cluster) == "v6e 16x16: 4 slices of 256 JAX devices = 256 chips, 16x16"
    assert cluster.devices == 1024


def test_the_largest_ironwood_slice_is_the_pod() -> None:
    cluster = resolve_cluster("tpu7x", chips=9216)
    assert (cluster.topology, cluster.devices) == ((16, 24, 24), 18432)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"chip": "tpux", "chips": 4}, "SP014", "did you mean 'tpu7x'?"),
        ({"chip": "v6", "chips": 4}, "SP014", "did you mean 'v6e'?"),
        ({"chip": None, "chips": 4}, "SP011", "chip is missing"),
        ({"chip": "v5p"}, "SP015", "found none of them"),
        ({"chip": "v5p", "chips": 4, "topology": "2x2x1"}, "SP015", "found topology and chips"),
        ({"chip": "v5p", "accelerator": "v6e-8"}, "SP015", "v6e-8 is a v6e, but chip says v5p"),
        ({"chip": "v5p", "chips": 4, "slices": 0}, "SP013", "slices is 0"),
        ({"chip": "v6e", "topology": "8x4"}, "SP014", "allowed: 1x1, 2x2, 2x4"),
        ({"chip": "v5p", "topology": "8x4x4"}, "SP014", "ascending order: 4x4x8"),
        ({"chip": "v5p", "topology": "4x4x6"}, "SP014", "nearest: 4x4x4, 4x4x8"),
        ({"chip": "v5p", "topology": "4x4"}, "SP014", "has 3 sides"),
        ({"chip": "v5p", "topology": "64x64x64"}, "SP014", "nearest: 8,960 chips (16x20x28)"),
        ({"chip": "v5p", "topology": "4 by 4"}, "SP012", "not a shape in chips such as 4x4x8"),
        ({"chip": "v5p", "topology": "0x0x0"}, "SP014", "no slice 0x0x0"),
        ({"chip": "v5p", "chips": 100}, "SP014", "nearest: 64 chips (4x4x4), 128 chips (4x4x8)"),
        ({"chip": "v5p", "chips": -1}, "SP014", "nearest: 4 chips (2x2x1)"),
        ({"chip": "v6e", "chips": 1024}, "SP014", "nearest: 256 chips (16x16)"),
        (
            {"chip": None, "accelerator": "v5p-9"},
            "SP014",
            "counts TensorCores, 2 a chip; 9 is not a multiple",
        ),
        ({"chip": None, "accelerator": "h100-8"}, "SP014", "unknown accelerator 'h100-8'"),
        ({"chip": None, "accelerator": "v5p"}, "SP014", "such as v5p-256"),
    ],
    ids=str,
)
def test_a_machine_that_does_not_exist_is_refused_at_its_place(arguments: Any, code: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_cluster(**arguments, mark=MARK)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.mark) == (code, MARK)
    assert words in str(diagnostic)


@given(st.sampled_from(chip_names()), st.integers(-5, 20_000))
def test_a_default_shape_has_the_chips_and_is_allowed(name: str, chips: int) -> None:
    chip = load_chip(name)
    shape = default_shape(chip, chips)
    if shape is not None:
        assert math.prod(shape) == chips
        assert is_allowed(chip, shape)
    elif chip.torus_dims == 3:
        assert chips % 64 or chips > chip.max_chips or chips <= 0


SIDES = st.integers(0, 40) | st.sampled_from([1, 2, 4, 8, 16])


@given(
    st.sampled_from(chip_names()),
    st.lists(SIDES, min_size=2, max_size=3) | st.lists(SIDES, min_size=2, max_size=3).map(sorted),
)
@example("v5p", [4, 4, 8])
@example("v6e", [4, 8])
def test_a_shape_is_accepted_exactly_if_allowed(name: str, sides: list[int]) -> None:
    topology = "x".join(map(str, sides))
    if is_allowed(load_chip(name), tuple(sides)):
        assert resolve_cluster(name, topology=topology).topology == tuple(sides)
    else:
        with pytest.raises(InputError):
            resolve_cluster(name, topology=topology)
