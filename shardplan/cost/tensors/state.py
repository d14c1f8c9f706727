"""State memory of one JAX device: what lives across steps. Equals the compiler's argument_size_in_bytes.

Letters: P, M, U elements of weights, first and second moments on a device, w, m, u their bytes each; n tokens of the
loaded batch on a device; s blocks of scalars. All with the padding of `layout`. Source: maxtext reference 4.2.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.distinct import distinct
from shardplan.cost.tensors.layout import GRAIN_BYTES, padded_bytes
from shardplan.cost.tensors.parameters import parameter_tensors, pipelined_groups, scanned_groups, variable_tensors
from shardplan.cost.tensors.sharding import local_sizes, mesh_axes
from shardplan.cost.term import Term
from shardplan.maxtext.axes import ACTIVATION_RULES
from shardplan.spec import AXES, DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shardplan.cost.tensors.parameters import ParameterTensor
    from shardplan.spec import Architecture, Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

OPTIMIZER_SCALARS = {"adamw": 3, "adam_pax": 2, "sgd": 2, "muon": 6}
"""Step counters and the like in the state of each optimizer."""

RNG_STREAMS = 3
"""Random-number streams of a module, each a counter and a key of four words."""


def weights_bytes(P: Floats, w: int) -> Floats:
    """Stored weights on a device. Source: maxtext reference 4.2."""
    return P * w


def first_moment_bytes(M: Floats, m: int) -> Floats:
    """First moment of the optimizer on a device. Source: maxtext reference 4.2."""
    return M * m


def second_moment_bytes(U: Floats, u: int) -> Floats:
    """Second moment of the optimizer on a device. Source: maxtext reference 4.2."""
    return U * u


def batch_bytes(n: Floats) -> Floats:
    """Five int32 arrays: inputs, targets, their positions, segments. Source: maxtext reference 4.2."""
    return 5 * 4 * n


def scalars_bytes(s: Floats) -> Floats:
    """Counters and random-number variables, in blocks of 512 bytes. Source: maxtext reference 4.2."""
    return 512 * s


@dataclass(frozen=True, slots=True)
class ArgumentBytes:
    """State of one device by kind, as terms whose values are columns `(n,)`."""

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
        terms = (self.weights, self.batch, self.scalars) if self.moments_on_host else self.terms
        total: Floats = np.sum([term.value for term in terms], axis=0)
        return total

    @property
    def host_bytes(self) -> Floats:
        """Bytes in host memory a device, `(n,)`; 0 without offload."""
        moments: Floats = self.first_moment.value + self.second_moment.value + self.host_scalars_bytes
        return moments * float(self.moments_on_host)


def argument_bytes(case: Case, candidates: Candidates) -> ArgumentBytes:
    """State of one device for each candidate. Exact where every split is; rounded up where MaxText would refuse."""
    architecture, optimizer = case.architecture, case.workload.optimizer
    every = parameter_tensors(architecture)
    others = tuple(t for t in every if not t.is_matrix)
    w, m = DTYPE_BYTES[optimizer.weight_dtype], DTYPE_BYTES[optimizer.mu_dtype]
    n_optimizer = OPTIMIZER_SCALARS[optimizer.name]
    on_device = 0 if optimizer.host_offload else n_optimizer
    rows = distinct([candidates.degree(axis).astype(np.float64) for axis in AXES])
    meshes = candidates.take(rows.first)
    zero = optimizer.shard_over_data

    @cache
    def held(tensors: tuple[ParameterTensor, ...], element_bytes: int, over_data: bool) -> Floats:  # noqa: FBT001
        return _elements(tensors, meshes, element_bytes, over_data=over_data)[rows.inverse]

    P = held(every, w, False) + held(variable_tensors(architecture), w, False)  # noqa: FBT003
    M = held(() if optimizer.name == "sgd" else every, m, zero)
    U = held({"sgd": (), "muon": others}.get(optimizer.name, every), w, zero)
    s = (on_device + rng_blocks(architecture, meshes))[rows.inverse]
    n = loaded_tokens(case.workload.sequence_length, candidates)
    return ArgumentBytes(
        weights=Term("weights_bytes", weights_bytes, {"P": P, "w": w}),
        first_moment=Term("first_moment_bytes", first_moment_bytes, {"M": M, "m": m}),
        second_moment=Term("second_moment_bytes", second_moment_bytes, {"U": U, "u": w}),
        batch=Term("batch_bytes", batch_bytes, {"n": n}),
        scalars=Term("scalars_bytes", scalars_bytes, {"s": s}),
        moments_on_host=optimizer.host_offload,
        host_scalars_bytes=GRAIN_BYTES * n_optimizer if optimizer.host_offload else 0,
    )


def loaded_rows(candidates: Candidates) -> Ints:
    """Sequences of the loaded batch on a device, `(n,)`: all micro-steps, and at least one row a device of the mesh.

    Source: MaxText get_batch_sizes; maxtext reference 1.5.
    """
    devices = candidates.devices
    micro = np.where(candidates.per_device_batch < 1, devices, np.floor(devices * candidates.per_device_batch))
    rows: Ints = (micro * candidates.gradient_accumulation).astype(np.int64)
    return -(-rows // candidates.degree(*ACTIVATION_RULES["loaded_batch"]))


def loaded_tokens(sequence_length: int, candidates: Candidates) -> Floats:
    """Tokens of the loaded batch on a device, `(n,)`, with the padding of its arrays."""
    tokens = -(-sequence_length // candidates.degree(*ACTIVATION_RULES["length"]))
    padded: Floats = padded_bytes([loaded_rows(candidates), tokens], 4) / 4
    return padded


def rng_blocks(architecture: Architecture, candidates: Candidates) -> Floats:
    """Blocks of 512 bytes that random-number variables take, `(n,)`: of the model, of each MTP module and of each stack."""
    blocks = np.full(len(candidates), 2.0 * RNG_STREAMS * (1 + architecture.n_mtp_layers))
    stages = candidates.degree("pipeline")
    piped = pipelined_groups(architecture)
    words = np.full(len(candidates), 4)
    for g in scanned_groups(architecture):
        count = np.full(len(candidates), architecture.layer_groups[g].count)
        both = padded_bytes([count], 4) + padded_bytes([count, words], 4)
        if g in piped:
            rounds = [-(-count // stages), stages]
            staged = padded_bytes(rounds, 4) + padded_bytes([*rounds, words], 4)
            both = np.where(stages > 1, staged, both)
        blocks += RNG_STREAMS * both / GRAIN_BYTES
    return blocks


def _elements(
    tensors: Sequence[ParameterTensor], candidates: Candidates, element_bytes: int, *, over_data: bool = False
) -> Floats:
    """Elements of one copy of the state of the tensors on a device, `(n,)`, padding included.

    A stacked dimension comes second (`param_scan_axis` 1). With pipeline stages all layers of a kind share one stack.
    """
    total = np.zeros(len(candidates))
    stages = candidates.degree("pipeline")
    layers = _pipelined_copies(tensors)

    def held(tensor: ParameterTensor, sizes: Sequence[Ints]) -> Ints:
        split = _split_over_data(tensor, sizes, candidates) if over_data else sizes
        return padded_bytes(split, element_bytes)

    for tensor in tensors:
        first, *rest = local_sizes(tensor, candidates)
        stack = np.full(len(candidates), tensor.stack)
        sizes = [first, stack, *rest] if tensor.is_stacked else [first, *rest]
        taken = tensor.copies / tensor.stack * held(tensor, sizes)
        if tensor.is_pipelined and (stages > 1).any():
            n_layers = layers[_kind(tensor)]
            # Guard: the stages' dimension is 1 long on a device, a second minor one that needs no padding.
            sizes = [first, -(-n_layers // stages), *rest, np.ones_like(stages)]
            taken = np.where(stages > 1, tensor.copies / n_layers * held(tensor, sizes), taken)
        total += taken
    return np.rint(total / element_bytes)


def _pipelined_copies(tensors: Sequence[ParameterTensor]) -> Counter[tuple[str, object]]:
    """Layers that the pipeline stages share, by tensor name inside the layer and shape."""
    counts: Counter[tuple[str, object]] = Counter()
    for tensor in tensors:
        counts[_kind(tensor)] += tensor.copies if tensor.is_pipelined else 0
    return counts


def _kind(tensor: ParameterTensor) -> tuple[str, object]:
    return tensor.name.rpartition(".")[2], tensor.dims


def _split_over_data(tensor: ParameterTensor, sizes: Sequence[Ints], candidates: Candidates) -> list[Ints]:
    """ZeRO-1: the first dimension that `data` divides and `tensor` does not split is split over `data`.

    Source: MaxText utils/sharding.py add_data_to_sharding.
    """
    data, tensor_degree = candidates.degree("data"), candidates.degree("tensor")
    axes_of_dims = mesh_axes(tensor.dims)
    if len(sizes) > len(axes_of_dims):
        axes_of_dims = (axes_of_dims[0], (), *axes_of_dims[1:], ())
    is_done = np.zeros(len(candidates), dtype=np.bool_)
    split: list[Ints] = []
    for size, axes in zip(sizes, axes_of_dims, strict=False):
        here = ~is_done & (size % data == 0) & (("tensor" not in axes) | (tensor_degree == 1))
        split.append(np.where(here, size // data, size))
        is_done |= here
    return split
