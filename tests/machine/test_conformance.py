"""What every chip promises, for each one found in the folder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from shardplan.cost.calibration import calibration_file, calibration_names, constant
from shardplan.engine.decide import decide
from shardplan.loaders.load import parse_case
from shardplan.machine.chips import accelerator_name, chip_names, default_shape, load_chip, resolve_cluster
from shardplan.render.plain import plain
from shardplan.render.recommend import recommend_page
from shardplan.source import parse_yaml

if TYPE_CHECKING:
    from shardplan.spec import Chip

CASE = (
    "model: llama3.1-8b\nworkload: {{sequence_length: 2048, global_batch: 64}}\ncluster: {{chip: {chip}, chips: 8}}\n"
)


def counts(chip: Chip) -> list[int]:
    """Numbers of chips that slices of a chip have, some of them."""
    whole = chip.wrap_side**3
    large = [n * whole for n in (1, 2, 7) if n * whole <= chip.max_chips] if chip.torus_dims == 3 else []
    return sorted({*(math.prod(shape) for shape in chip.small_slices), *large})


@pytest.mark.parametrize("name", chip_names())
def test_every_slice_is_found_by_each_of_its_names(name: str) -> None:
    chip = load_chip(name)
    for chips in counts(chip):
        cluster = resolve_cluster(name, chips=chips)
        shape = "x".join(map(str, cluster.topology))
        for prefix in chip.accelerator_prefixes:
            for written in (accelerator_name(cluster), chip.accelerator(prefix, chips), f"{prefix}-{shape}"):
                found = resolve_cluster(None, accelerator=written)
                assert (found.chip.name, found.topology) == (name, default_shape(chip, chips))


def test_no_two_chips_answer_to_one_name() -> None:
    chips = [load_chip(name) for name in chip_names()]
    prefixes = [prefix for chip in chips for prefix in chip.accelerator_prefixes]
    assert len(prefixes) == len(set(prefixes))
    for chip in chips:
        assert {load_chip(alias).name for alias in (chip.name, chip.name.upper(), *chip.aliases)} == {chip.name}


@pytest.mark.parametrize("name", chip_names())
def test_a_case_on_it_is_planned_and_says_whether_anybody_measured_it(name: str) -> None:
    calibration = load_chip(name).calibration
    case = parse_case(parse_yaml(CASE.format(chip=name), "case.yaml"))
    plan = decide(case, 2)
    assert plan.plans
    for choice in plan.plans:
        assert choice.time.calibrated == (calibration.published_runs > 0)
        assert choice.memory.calibrated == (calibration.compiled_points > 0)
        for estimate, file in ((choice.time, "overlap"), (choice.memory, "memory")):
            assert estimate.calibrated or estimate.error_band >= constant(file, "uncalibrated_band")
    shown = plain(recommend_page(plan, case.workload, "case.yaml"))
    assert ("% uncalibrated" in shown) == (not plan.plans[0].time.calibrated or not plan.plans[0].memory.calibrated)


def test_constants_of_chips_are_of_chips_there_are() -> None:
    for file in calibration_names():
        for name, one in calibration_file(file).constants.items():
            assert set(one.by_chip) <= set(chip_names()), name
