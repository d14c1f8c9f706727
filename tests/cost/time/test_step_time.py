"""Laws of the step time: bounds hold, parts sum to the whole, and overlap only ever helps."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardplan.cost.calibration import (
    TIME_FILES,
    Constants,
    calibration_file,
    calibration_names,
    constant,
    step_time_band,
)
from shardplan.cost.time.seconds import (
    bubble_s,
    hidden_s,
    low_precision_speedup,
    slice_wait_s,
    traffic_s,
    unhidden_offload_s,
)
from shardplan.cost.time.step_time import BOUNDS, BREAKDOWN, Time, step_seconds, step_time
from shardplan.machine.chips import chip_names, load_chip, resolve_cluster
from shardplan.spec import Architecture, Attention, Case, FeedForward, Layer, LayerGroup, Split, Workload
from shardplan.splits.candidates import Candidates

if TYPE_CHECKING:
    from shardplan.units import Floats


@dataclass(frozen=True)
class Traffic:
    """A collective as far as the step time reads it."""

    seconds: Floats
    hides_behind: str = "compute"
    network: str = "ici"


def _case(chip: str = "tpu7x", slices: int = 1, **workload: Any) -> Case:
    layer = Layer(
        attention=Attention(n_query_heads=64, n_key_value_heads=8, head_width=128),
        feed_forward=FeedForward(width=28672),
    )
    return Case(
        architecture=Architecture(
            model_width=8192, vocab_size=128256, layer_groups=(LayerGroup(count=16, layers=(layer,)),)
        ),
        workload=Workload(sequence_length=8192, per_device_batch=2.0, **workload),
        cluster=resolve_cluster(chip, chips=64, slices=slices),
    )


def _time(case: Case | None = None, traffic: tuple[Traffic, ...] = (), **split: Any) -> Time:
    case = case or _case()
    plan = Split(**({"ici": {"fsdp": case.cluster.devices_per_slice}, "per_device_batch": 2.0} | split))
    return step_time(case, Candidates.of_splits((plan,), (1,), (False,)), traffic)  # type: ignore[arg-type]


SECONDS = st.floats(0, 100).map(lambda s: np.array([s]))
TRAFFIC = st.lists(
    st.builds(Traffic, SECONDS, st.sampled_from(["compute", "none"]), st.sampled_from(["ici", "dcn", "d2d"])),
    max_size=4,
).map(tuple)
PLANS = st.fixed_dictionaries(
    {
        "remat_policy": st.sampled_from(["full", "minimal_offloaded", "qkv_proj_offloaded", "save_out_proj"]),
        "per_device_batch": st.sampled_from([0.25, 1.0, 8.0]),
        "gradient_accumulation": st.integers(1, 8),
        "ici": st.sampled_from([{"fsdp": 128}, {"fsdp": 16, "tensor": 8}, {"fsdp": 16, "pipeline": 8}]),
    }
)


@given(PLANS, TRAFFIC, st.sampled_from([1, 4]))
def test_the_estimate_lies_between_its_bounds(plan: dict[str, Any], traffic: tuple[Traffic, ...], slices: int) -> None:
    time = _time(_case(slices=slices), traffic, **plan)
    assert time.lower_s <= time.estimate_s * (1 + 1e-12)
    assert time.estimate_s <= time.upper_s * (1 + 1e-12)
    assert 0 < time.mfu[0] < 1


@given(PLANS, TRAFFIC)
def test_the_parts_sum_to_the_estimate(plan: dict[str, Any], traffic: tuple[Traffic, ...]) -> None:
    time = _time(None, traffic, **plan)
    assert sum(time.breakdown.values()) == pytest.approx(time.estimate_s)
    assert tuple(time.breakdown) == tuple(BREAKDOWN)
    assert all(part >= 0 for part in time.breakdown.values())


@given(PLANS, TRAFFIC)
def test_the_estimate_alone_is_the_same(plan: dict[str, Any], traffic: tuple[Traffic, ...]) -> None:
    split = Split(**({"ici": {"fsdp": 128}, "per_device_batch": 2.0} | plan))
    alone = step_seconds(_case(), Candidates.of_splits((split,), (1,), (False,)), traffic)  # type: ignore[arg-type]
    assert alone == pytest.approx(_time(None, traffic, **plan).estimate_s)


@given(TRAFFIC)
def test_unhidden_communication_is_split_among_its_collectives(traffic: tuple[Traffic, ...]) -> None:
    time = _time(None, traffic)
    assert sum(e[0] for e in time.exposed_s) == pytest.approx(time.breakdown["exposed_comm_s"][0], abs=1e-9)
    for one, exposed in zip(traffic, time.exposed_s, strict=True):
        assert 0 <= exposed[0] <= one.seconds[0]
        assert one.hides_behind == "compute" or exposed[0] == one.seconds[0]


@given(st.floats(0, 50), st.floats(0, 50))
def test_more_communication_never_shortens_the_step(less: float, more: float) -> None:
    less, more = sorted((less, more))
    assert _time(None, (Traffic(np.array([less])),)).estimate_s <= _time(None, (Traffic(np.array([more])),)).estimate_s


@pytest.mark.parametrize(
    ("traffic", "plan", "bound"),
    [
        ((), {}, "compute"),
        ((Traffic(np.array([1e3])),), {}, "ici"),
        ((Traffic(np.array([1e3]), network="dcn"),), {}, "dcn"),
        ((), {"ici": {"fsdp": 2, "pipeline": 64}, "pipeline_microbatches": 1}, "bubble"),
        ((), {"remat_policy": "minimal_offloaded"}, "host"),
    ],
    ids=["compute", "ici", "dcn", "bubble", "host"],
)
def test_a_step_is_bound_by_what_it_waits_for_most(
    traffic: tuple[Traffic, ...], plan: dict[str, Any], bound: str
) -> None:
    time = _time(None, traffic, **plan)
    assert time.bounds[time.bound_by[0]] == bound
    assert time.bounds == BOUNDS


def test_low_precision_speeds_up_matmuls_only() -> None:
    plain, low = _time().breakdown, _time(_case(precision="fp8")).breakdown
    assert plain["compute_s"] / 2 < low["compute_s"] < plain["compute_s"]
    assert low["hbm_s"] > plain["hbm_s"], "operands are cast"
    assert low_precision_speedup(2.0, 1.0, 0.5) == 1.5


def test_a_chip_without_faster_low_precision_gains_nothing() -> None:
    assert low_precision_speedup(1.0, 1.0, 0.6) == 1


def test_slices_wait_for_the_slowest() -> None:
    one, four = _time(_case(slices=1)), _time(_case(slices=4))
    assert four.estimate_s == pytest.approx(one.estimate_s * (1 + 2 * Constants.of("tpu7x").slice_wait))
    assert slice_wait_s(1, 0.03, 1) == 0


def test_a_pipeline_idles_less_with_more_microbatches() -> None:
    few, many = (_time(ici={"fsdp": 16, "pipeline": 8}, pipeline_microbatches=m).breakdown["bubble_s"] for m in (8, 64))
    assert many < few
    assert bubble_s(8.0, 5, 4, 2) == 4
    assert _time().breakdown["bubble_s"] == 0


@given(st.floats(0, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_offload_costs_only_what_outlasts_the_passes(o: float, f: float, b: float) -> None:
    assert unhidden_offload_s(o, f, b) == pytest.approx(max(o - f, 0) + max(o - b, 0))


def test_offloading_everything_costs_time_that_keeping_it_does_not() -> None:
    away, kept = (_time(remat_policy=p) for p in ("minimal_offloaded", "minimal"))
    assert away.breakdown["offload_s"] > 0 == kept.breakdown["offload_s"]


def test_moments_in_host_memory_travel_both_ways_each_step() -> None:
    case = _case(optimizer={"name": "adamw", "host_offload": True})
    assert _time(case).breakdown["offload_s"] > _time().breakdown["offload_s"]


def test_weight_traffic_hides_behind_compute_in_part() -> None:
    assert hidden_s(4.0, 10.0, 0.5) == 2
    assert hidden_s(10.0, 4.0, 1.0) == 4
    assert traffic_s(1e9, 1e9, 0.5) == 2


def test_without_the_published_flags_nothing_hides() -> None:
    traffic = (Traffic(np.array([1.0])),)
    plain = _case()
    untuned = plain.model_copy(update={"runtime": plain.runtime.model_copy(update={"tuned_flags": False})})
    assert _time(untuned, traffic).exposed_s[0] == 1 > _time(plain, traffic).exposed_s[0]


def test_every_line_prints_its_formula() -> None:
    terms = {term.name: term for term in _time().terms}
    assert terms["matmul_s"].formula == "(Q / g + U) / s"
    assert terms["bubble_s"].formula == "t * (P - 1) / (m * r)"
    assert all(term.at(0) for term in terms.values())


def test_every_constant_is_in_a_file_and_a_share() -> None:
    listed = {name: constant for file in TIME_FILES for name, constant in calibration_file(file).constants.items()}
    for field in fields(Constants):
        values = (listed[field.name].value, *listed[field.name].by_chip.values())
        assert all(0 < value <= 1 for value in values), field.name
    assert set(TIME_FILES) <= set(calibration_names())


def test_constants_that_differ_by_chip_are_those_of_the_chip() -> None:
    files = [calibration_file(name) for name in TIME_FILES]
    own = {(name, chip): value for f in files for name, c in f.constants.items() for chip, value in c.by_chip.items()}
    assert own
    for (name, chip), value in own.items():
        assert getattr(Constants.of(chip), name) == value
    common = Constants.of("a chip of no file")
    assert any(getattr(common, name) != value for (name, _), value in own.items())


def test_a_chip_without_runs_has_a_wider_band() -> None:
    bands = {name: step_time_band(load_chip(name)) for name in chip_names()}
    with_runs = {name for name in bands if load_chip(name).calibration.published_runs}
    assert {bands[name] for name in with_runs} == {constant("overlap", "error_band")}
    assert constant("overlap", "uncalibrated_band") > constant("overlap", "error_band")
    assert {bands[name] for name in bands.keys() - with_runs} == {constant("overlap", "uncalibrated_band")}
