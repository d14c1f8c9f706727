"""Facts that the cost model says: bytes on one JAX device, and seconds of an optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shardplan.catalogue.dimension import FRACTION
from shardplan.cost.tensors.sharding import insufficiently_sharded_fraction
from shardplan.judge.facts.observation import Fact, Observation
from shardplan.spec import AXES, DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.cost.network.comm import Collective


def _priced(name: str, unit: str, about: str, of: Callable[[Observation], Any]) -> Fact:
    return Fact(name, unit, about, of, level="estimates")


def _part(kind: str) -> Callable[[Observation], Any]:
    """Bytes of one kind at each candidate's worst moment."""

    def bytes_of(o: Observation) -> Any:
        memory = o.estimates.memory
        total = np.zeros(len(o.candidates))
        for place, moment in enumerate(memory.moments):
            here = memory.binding == place
            for found, term in moment.terms:
                if found == kind:
                    total = total + np.where(here, term.value, 0.0)
        return total

    return bytes_of


def _second(key: str) -> Callable[[Observation], Any]:
    return lambda o: o.estimates.time.breakdown[key]


def _communication(which: Callable[[Collective], bool], *, exposed: bool = False) -> Callable[[Observation], Any]:
    """Seconds of the collectives that a test picks, hidden or not, or only what nothing hides."""

    def total(o: Observation) -> Any:
        seconds = np.zeros(len(o.candidates))
        for collective, unhidden in zip(o.estimates.collectives, o.estimates.time.exposed_s, strict=True):
            if which(collective):
                seconds = seconds + (unhidden if exposed else collective.seconds)
        return seconds

    return total


def _on(axis: str) -> Callable[[Collective], bool]:
    return lambda collective: collective.axis == axis


def _insufficiently_sharded(o: Observation) -> Any:
    weight = DTYPE_BYTES[o.case.workload.optimizer.weight_dtype]
    return insufficiently_sharded_fraction(o.case.architecture, o.candidates, weight)


def _host_bytes_per_host(o: Observation) -> Any:
    chip = o.case.cluster.chip
    devices = min(chip.chips_per_host, o.case.cluster.chips_per_slice) * chip.jax_devices_per_chip
    return o.estimates.memory.host_bytes * devices


AXIS_SECONDS: Final = tuple(
    fact
    for axis in AXES
    for fact in (
        _priced(f"{axis}_comm_s", "s", f"Communication over the {axis} axis, hidden or not.", _communication(_on(axis))),
        _priced(f"{axis}_exposed_s", "s", f"Communication over the {axis} axis that nothing hides.",
                _communication(_on(axis), exposed=True)),
    )
)  # fmt: skip

FACTS: Final = (
    Fact("insufficiently_sharded", FRACTION,
         "Elements of weights that lack a mesh axis in use, over the bytes of all weights, as MaxText counts them.",
         _insufficiently_sharded, level="mesh"),
    _priced("total_bytes", "bytes", "Arguments and temporaries at the worst moment.",
            lambda o: o.estimates.memory.total_bytes),
    _priced("low_bytes", "bytes", "The least the total may be: the estimate less its error band.",
            lambda o: o.estimates.memory.total_bytes * (1 - o.estimates.memory.error_band)),
    _priced("high_bytes", "bytes", "The most the total may be: the estimate and its error band.",
            lambda o: o.estimates.memory.total_bytes * (1 + o.estimates.memory.error_band)),
    _priced("memory_band", FRACTION, "Relative error band of the memory estimate.",
            lambda o: o.estimates.memory.error_band),
    _priced("arguments_bytes", "bytes", "State that lives across steps, and the batch.",
            lambda o: o.estimates.memory.arguments_bytes),
    _priced("host_bytes_per_host", "bytes", "Offloaded state and activations in the memory of one host.",
            _host_bytes_per_host),
    _priced("logits_bytes", "bytes", "Logits and their gradient.", _part("logits_bytes")),
    _priced("saved_bytes", "bytes", "Activations kept for the backward pass.", _part("saved_activations_bytes")),
    _priced("gathered_bytes", "bytes", "Weights gathered for one layer.", _part("gathered_weights_bytes")),
    _priced("work_bytes", "bytes", "Work buffers of one layer.", _part("layer_work_bytes")),
    _priced("step_s", "s", "Estimated optimizer step.", lambda o: o.estimates.time.estimate_s),
    _priced("compute_s", "s", "Matmuls and attention, without recomputation.", _second("compute_s")),
    _priced("recompute_s", "s", "Recomputation in the backward pass.", _second("recompute_s")),
    _priced("hbm_s", "s", "Operations that wait for HBM.", _second("hbm_s")),
    _priced("bubble_s", "s", "Pipeline stages that wait for work.", _second("bubble_s")),
    _priced("offload_s", "s", "Copies to and from host memory that nothing hides.", _second("offload_s")),
    _priced("exposed_comm_s", "s", "Communication that nothing hides.", _second("exposed_comm_s")),
    _priced("dcn_comm_s", "s", "Communication across slices, hidden or not.",
            _communication(lambda c: c.network == "dcn")),
    _priced("dcn_exposed_s", "s", "Communication across slices that nothing hides.",
            _communication(lambda c: c.network == "dcn", exposed=True)),
    *AXIS_SECONDS,
)  # fmt: skip
