"""The stall curve against the benchmark it is derived from."""

from __future__ import annotations

import numpy as np
import pytest

from shardplan.cost.calibration import calibration_file, constant, hbm_stall
from shardplan.cost.time.compute import matmul_bytes_per_flop, matmul_flops, peak_s
from shardplan.machine.chips import load_chip

LAUNCH_S = 1.62e-6
FIRST_IN_CURVE = 512
BENCHMARK = calibration_file("matmul").curves["matmul_benchmark"]
POINTS = [(s, r) for s, r in zip(BENCHMARK.at, BENCHMARK.values, strict=True) if s >= FIRST_IN_CURVE]


@pytest.mark.parametrize(("side", "flops_per_s"), POINTS)
def test_plateau_stall_and_launch_reproduce_the_benchmark(side: float, flops_per_s: float) -> None:
    chip = load_chip("tpu7x")
    peak, hbm = chip.flops_per_s("bf16"), chip.hbm_bytes_per_s_per_device
    flops = matmul_flops(side, side, side)
    hbm_s = flops * matmul_bytes_per_flop(side, side, side) / hbm
    stall = hbm_stall(np.array([peak_s(flops, peak) / hbm_s]))[0]
    seconds = peak_s(flops, peak) / constant("matmul", "matmul_plateau") + stall * hbm_s + LAUNCH_S
    assert seconds == pytest.approx(flops / flops_per_s, rel=0.01)


def test_the_smallest_square_is_all_launch() -> None:
    assert matmul_flops(128, 128, 128) / BENCHMARK.values[0] == pytest.approx(LAUNCH_S, rel=0.01)


def test_more_arithmetic_a_byte_never_stalls_more() -> None:
    stalls = hbm_stall(np.geomspace(0.1, 100, 50))
    assert (np.diff(stalls) <= 0).all()
    assert stalls[-1] == 0
