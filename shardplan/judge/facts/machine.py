"""Facts about the chip and the slices. Intensities are FLOPs per byte of one chip at the workload's matmul rate."""

from __future__ import annotations

import math
from typing import Any, Final

from shardplan.catalogue.dimension import FRACTION, TRUTH
from shardplan.cost.network import intensity
from shardplan.judge.facts.observation import Fact, Observation


def chip_flops_per_s(o: Observation) -> float:
    """Matmul rate of one chip at the workload's precision."""
    chip = o.case.cluster.chip
    return chip.flops_per_s(o.case.workload.precision) * chip.jax_devices_per_chip


def ici_intensity(o: Observation) -> Any:
    """FLOPs per byte of one torus axis, both directions of its links together."""
    return intensity.ridge(chip_flops_per_s(o), 2 * o.case.cluster.chip.ici_link_bytes_per_s.value)


def dcn_intensity(o: Observation) -> Any:
    """FLOPs per byte of a chip's share of the data-centre network."""
    return intensity.ridge(chip_flops_per_s(o), o.case.cluster.chip.dcn_bytes_per_s.value)


def _host_ram_bytes(o: Observation) -> float:
    figure = o.case.cluster.chip.host_ram_bytes
    return math.inf if figure is None else figure.value


FACTS: Final = (
    Fact("slices", "", "Slices of the cluster.", lambda o: o.case.cluster.slices),
    Fact("slice_devices", "", "JAX devices of one slice.", lambda o: o.case.cluster.devices_per_slice),
    Fact("slice_chips", "", "Chips of one slice.", lambda o: o.case.cluster.chips_per_slice),
    Fact("devices_per_chip", "", "JAX devices of one chip.", lambda o: o.case.cluster.chip.jax_devices_per_chip),
    Fact("is_torus", TRUTH, "Whether every side of the slice longer than one chip wraps around.",
         lambda o: all(o.rings[i] or side == 1 for i, side in enumerate(o.case.cluster.topology))),
    Fact("ici_intensity", "flops/bytes", "FLOPs a chip does while one torus axis moves a byte.", ici_intensity),
    Fact("hbm_intensity", "flops/bytes", "FLOPs a chip does while its HBM moves a byte.",
         lambda o: intensity.ridge(chip_flops_per_s(o), o.case.cluster.chip.hbm_bytes_per_s.value)),
    Fact("dcn_intensity", "flops/bytes", "FLOPs a chip does while its share of the DCN moves a byte.", dcn_intensity),
    Fact("pcie_intensity", "flops/bytes", "FLOPs a chip does while its host link moves a byte.",
         lambda o: intensity.ridge(chip_flops_per_s(o), o.case.cluster.chip.pcie_bytes_per_s.value)),
    Fact("fp8_speedup", "", "Peak fp8 matmul rate over the bf16 one; 1 where fp8 brings no speed.",
         lambda o: o.case.cluster.chip.flops_per_s("fp8") / o.case.cluster.chip.flops_per_s("bf16")),
    Fact("compiled_points", "", "Compiled programs for the chip behind the memory model.",
         lambda o: o.case.cluster.chip.calibration.compiled_points),
    Fact("published_runs", "", "Published step times on the chip behind the time model.",
         lambda o: o.case.cluster.chip.calibration.published_runs),
    Fact("sparsecores", "", "SparseCores of one chip.", lambda o: o.case.cluster.chip.sparsecores_per_chip),
    Fact("mxu_width", "", "Side of the matrix unit.", lambda o: o.case.cluster.chip.mxu_dim),
    Fact("vmem_bytes", "bytes", "Vector memory of one TensorCore.",
         lambda o: o.case.cluster.chip.vmem_bytes_per_core.value),
    Fact("host_ram_bytes", "bytes", "Memory of one host; infinite where it is not published.", _host_ram_bytes),
    Fact("hbm_limit_bytes", "bytes", "HBM one JAX device may use, by the compiler's own limit.",
         lambda o: o.case.cluster.hbm_limit_bytes),
    Fact("hbm_room_bytes", "bytes", "HBM one JAX device may use, less the headroom asked for.",
         lambda o: o.case.cluster.hbm_limit_bytes * (1 - o.case.constraints.hbm_headroom)),
    Fact("hbm_headroom", FRACTION, "Share of the usable HBM to leave free.", lambda o: o.case.constraints.hbm_headroom),
)  # fmt: skip
