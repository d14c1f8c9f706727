"""State memory of one JAX device: what lives across steps. Exact, as the compiler's argument_size_in_bytes.

Letters: P weight elements a device, M and U elements with a first and a second moment, R rows of the loaded batch and
S tokens of each a device, s scalars; w, m, u bytes an element. Source: maxtext reference 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.parameters import n_scanned_stacks, parameter_tensors, variable_tensors
from shardplan.cost.sharding import ACTIVATION_RULES, local_sizes, mesh_axes, sharded_elements
from shardplan.cost.term import Term
from shardplan.spec import DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shardplan.candidates import Candidates
    from shardplan.cost.parameters import ParameterTensor
    from shardplan.spec import Architecture, Case, Optimizer
    from shardplan.units import Bools, Floats, Ints

OPTIMIZER_SCALARS = {"adamw": 3, "adam_pax": 2, "sgd": 2, "muon": 6}
"""Step counters and the like in the state of each optimizer."""

MODEL_SCALARS = 6
"""Random-number variables of the model, and of each multi-token-prediction module."""

STACK_SCALARS = 15
"""Blocks of random-number variables of one scanned stack: 3 stacked counters, and 3 stacked keys of 4 blocks each."""


def weights_bytes(P: Ints, w: int) -> Ints:
    """Stored weights on a device. Source: maxtext reference 4.2."""
    return P * w


def first_moment_bytes(M: Ints, m: int) -> Ints:
    """First moment of the optimizer on a device. Source: maxtext reference 4.2."""
    return M * m


def second_moment_bytes(U: Ints, u: int) -> Ints:
    """Second moment of the optimizer on a device. Source: maxtext reference 4.2."""
    return U * u


def batch_bytes(R: Ints, S: Ints) -> Ints:
    """Five int32 arrays of rows x tokens: inputs, targets, positions and segments. Source: maxtext reference 4.2."""
    return 5 * 4 * R * S


def scalars_bytes(s: int) -> int:
    """Scalars, each padded to 512 bytes. Source: maxtext reference 4.2."""
    return 512 * s


@dataclass(frozen=True, slots=True)
class ArgumentBytes:
    """State of one device by kind, as terms whose values are columns `(n,)` or scalars."""

    weights: Term
    first_moment: Term
    second_moment: Term
    batch: Term
    scalars: Term
    moments_on_host: bool
    """Whether both moments and the optimizer's scalars live in host memory between steps."""
    host_scalars_bytes: int

    @property
    def terms(self) -> tuple[Term, ...]:
        """The lines, in the order they are printed."""
        return (self.weights, self.first_moment, self.second_moment, self.batch, self.scalars)

    @property
    def device_bytes(self) -> Floats:
        """Bytes on the device between steps, `(n,)`."""
        on_device = (self.weights, self.batch, self.scalars)
        terms = on_device if self.moments_on_host else self.terms
        total: Floats = np.asarray(sum(term.value for term in terms), dtype=np.float64)
        return total

    @property
    def host_bytes(self) -> Floats:
        """Bytes in host memory a device, `(n,)`; 0 without offload."""
        moments = self.first_moment.value + self.second_moment.value
        return np.asarray((moments + self.host_scalars_bytes) * float(self.moments_on_host))


def argument_bytes(case: Case, candidates: Candidates) -> ArgumentBytes:
    """State of one device for each candidate. Exact where every split is; rounded up where MaxText would refuse."""
    architecture, optimizer = case.architecture, case.workload.optimizer
    tensors = parameter_tensors(architecture)
    matrices = [t for t in tensors if t.is_matrix]
    others = [t for t in tensors if not t.is_matrix]
    none: list[ParameterTensor] = []
    first, second = {
        "sgd": (none, none),
        "muon": ([*matrices, *others], others),
    }.get(optimizer.name, ([*matrices, *others], [*matrices, *others]))
    n_optimizer = OPTIMIZER_SCALARS[optimizer.name]
    n_scalars = scalar_blocks(architecture) + (0 if optimizer.host_offload else n_optimizer)
    weight, moment = DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.mu_dtype]
    stored = _total((*tensors, *variable_tensors(architecture)), candidates)
    rows, tokens = loaded_rows(candidates), loaded_tokens(case.workload.sequence_length, candidates)
    return ArgumentBytes(
        weights=Term("weights_bytes", weights_bytes, {"P": stored, "w": weight}),
        first_moment=Term(
            "first_moment_bytes", first_moment_bytes, {"M": _moments(first, optimizer, candidates), "m": moment}
        ),
        second_moment=Term(
            "second_moment_bytes", second_moment_bytes, {"U": _moments(second, optimizer, candidates), "u": weight}
        ),
        batch=Term("batch_bytes", batch_bytes, {"R": rows, "S": tokens}),
        scalars=Term("scalars_bytes", scalars_bytes, {"s": n_scalars}),
        moments_on_host=optimizer.host_offload,
        host_scalars_bytes=scalars_bytes(n_optimizer) if optimizer.host_offload else 0,
    )


def scalar_blocks(architecture: Architecture) -> int:
    """Blocks of 512 bytes that the model's random-number variables take."""
    return MODEL_SCALARS * (1 + architecture.n_mtp_layers) + STACK_SCALARS * n_scanned_stacks(architecture)


def loaded_rows(candidates: Candidates) -> Ints:
    """Sequences of the loaded batch on a device, `(n,)`: all micro-steps; at least one row a device of the mesh.

    Source: MaxText get_batch_sizes; maxtext reference 1.5.
    """
    devices = candidates.devices
    micro = np.where(candidates.per_device_batch < 1, devices, np.floor(devices * candidates.per_device_batch))
    rows: Ints = (micro * candidates.gradient_accumulation).astype(np.int64)
    return -(-rows // candidates.degree(*ACTIVATION_RULES["loaded_batch"]))


def loaded_tokens(sequence_length: int, candidates: Candidates) -> Ints:
    """Tokens of each loaded sequence on a device, `(n,)`."""
    return -(-sequence_length // candidates.degree(*ACTIVATION_RULES["length"]))


def _total(tensors: Iterable[ParameterTensor], candidates: Candidates) -> Ints:
    total = np.zeros(len(candidates), dtype=np.int64)
    for tensor in tensors:
        total += sharded_elements(tensor, candidates)
    return total


def _moments(tensors: list[ParameterTensor], optimizer: Optimizer, candidates: Candidates) -> Ints:
    """Elements of one moment of the tensors on a device, `(n,)`."""
    if not optimizer.shard_over_data:
        return _total(tensors, candidates)
    total = np.zeros(len(candidates), dtype=np.int64)
    for tensor in tensors:
        parts = np.where(_splits_over_data(tensor, candidates), candidates.degree("data"), 1)
        total += -(-sharded_elements(tensor, candidates) // parts)
    return total


def _splits_over_data(tensor: ParameterTensor, candidates: Candidates) -> Bools:
    """Where ZeRO-1 finds a dimension to split over `data`: one it divides and that `tensor` does not split.

    Source: MaxText utils/sharding.py add_data_to_sharding.
    """
    data, tensor_degree = candidates.degree("data"), candidates.degree("tensor")
    found: Bools = (tensor.stack > 1) & (tensor.stack % data == 0)
    for local, axes in zip(local_sizes(tensor, candidates), mesh_axes(tensor.dims), strict=True):
        free = tensor_degree == 1 if "tensor" in axes else np.ones(len(candidates), dtype=np.bool_)
        found = found | (free & (local % data == 0))
    return found
