"""What the parts of the memory model share: one case with its candidates, the columns every formula reads, and a part.

Columns are `(n,)`, one row a candidate, and are computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardplan.cost.distinct import distinct
from shardplan.cost.tensors.activations import Local, kept, local, offloaded
from shardplan.cost.tensors.parameters import parameter_tensors
from shardplan.cost.tensors.sharding import sharded_elements
from shardplan.cost.tensors.stages import stage_passes, visited_share
from shardplan.cost.tensors.state import ArgumentBytes, argument_bytes
from shardplan.cost.term import Term
from shardplan.maxtext.axes import EXPERT_WIDTH_AXES, WIDTH_AXES
from shardplan.spec import AXES, DTYPE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardplan.cost.tensors.parameters import ParameterTensor
    from shardplan.spec import Case, Compiler, LayerGroup
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Bools, Floats

Part: TypeAlias = tuple[str, Term]
"""A buffer as a term, with the kind of memory it counts as in the breakdown."""

RING_SHARDS = (5, 63)
"""Least and most devices that share a weight for which the compiler turns gathers and gradient scatters into rings of
permutes (windowed einsums): seen at 8, 16 and 32 devices, not at 2, 4, 64 and more."""

CUSTOM = "custom"
"""The policy that keeps layers' inputs by name."""


def part(kind: str, name: str, function: Callable[..., Any], **letters: Any) -> Part:
    """One buffer of a moment."""
    return f"{kind}_bytes", Term(f"{name}_bytes", function, letters)


@dataclass(frozen=True)
class Setting:
    """A case and its candidates."""

    case: Case
    candidates: Candidates

    @property
    def width(self) -> int:
        """D, model width."""
        return self.case.architecture.model_width

    @property
    def vocabulary(self) -> int:
        """V."""
        return self.case.architecture.vocab_size

    @property
    def compiler(self) -> Compiler:
        """How the compiler treats a device of the chip."""
        return self.case.cluster.chip.compiler

    @property
    def fuses_matmuls(self) -> bool:
        """Whether elementwise work fuses into the matmuls beside it, a trait of the chip's compiler."""
        return self.compiler.fuses_matmuls

    @cached_property
    def here(self) -> Local:
        """What a device holds of the batch."""
        return local(self.case, self.candidates)

    @cached_property
    def stages(self) -> Floats:
        """p, pipeline stages."""
        return self.candidates.degree("pipeline").astype(np.float64)

    @cached_property
    def shards(self) -> Floats:
        """Devices that share the width of a dense weight."""
        return self.candidates.degree(*WIDTH_AXES).astype(np.float64)

    @cached_property
    def expert_shards(self) -> Floats:
        """Devices that share the width of an expert's weight."""
        return self.candidates.degree(*EXPERT_WIDTH_AXES).astype(np.float64)

    @cached_property
    def ring(self) -> Bools:
        """Whether gathers and scatters run as rings of permutes, which hold pieces instead of whole matrices."""
        least, most = RING_SHARDS
        alone = (self.here.tensor == 1) & (self.case.cluster.slices == 1)
        found: Bools = (self.shards >= least) & (self.shards <= most) & alone
        return found

    @cached_property
    def lean(self) -> Bools:
        """Whether the compiler fuses a gradient into what produces its input: one buffer less at the loss and in a block."""
        fused: Bools = ~self.ring & self.compiler.fuses_gradients
        return fused

    @cached_property
    def scatters_wide(self) -> Bools:
        """Whether SparseCores gather and scatter whole matrices over more devices than a ring has."""
        return (self.shards > RING_SHARDS[1]) & (not self.fuses_matmuls)

    @cached_property
    def split(self) -> Floats:
        """1 where the tensor axis splits the residual stream, which then must be gathered for matmuls; else 0."""
        return (self.here.tensor > 1).astype(np.float64)

    @cached_property
    def gathers(self) -> Floats:
        """1 where weights are gathered before use; else 0."""
        return (self.shards > 1).astype(np.float64)

    @cached_property
    def untiled(self) -> Bools:
        """Whether the loss sees all logits at once."""
        whole: Bools = self.candidates.num_vocab_tiling == 1
        return whole

    def kept(self, *names: str) -> Bools:
        """Whether the remat policy keeps one of the named activations on the device."""
        return kept(self.candidates, *names)

    def offloaded(self, *names: str) -> Bools:
        """Whether the remat policy keeps one of the named activations on the host."""
        return offloaded(self.candidates, *names)

    def recomputed(self, *names: str) -> Floats:
        """How many of the named activations the backward pass recomputes."""
        count: Floats = np.sum([~(self.kept(name) | self.offloaded(name)) for name in names], axis=0, dtype=np.float64)
        return count

    def inputs(self, group: LayerGroup) -> Floats:
        """Inputs of layers that a block of the group keeps: its own, or those of all layers where each is named and kept.

        `custom` policies alone keep `decoder_layer_input`, on the device unless the user says otherwise; named policies keep
        what the loop carries. Source: MaxText models/gemma3.py, llama4.py, gpt_oss.py (each layer names its input), gemma2.py
        (a pair does), layers/nnx_decoders.py get_remat_policy; buffer dumps of gemma3-12b and llama4-17b-16e.
        """
        each = 1.0 if group.one_input else float(group.layers_per_block)
        count: Floats = np.where(self._keeps_inputs, each, 1.0)
        return count

    @cached_property
    def _keeps_inputs(self) -> Bools:
        return np.array([policy.name == CUSTOM for policy in self.candidates.remat_policies])[self.candidates.remat]

    def passes(self, group: LayerGroup) -> Floats:
        """Times a device runs a block of the group forward in a micro-step, each time keeping its activations."""
        return group.count * self._stage_passes

    @cached_property
    def _stage_passes(self) -> Floats:
        return stage_passes(self.case, self.candidates)

    def blocks_per_stage(self, group: LayerGroup) -> Floats:
        """Blocks of the group that a stage runs in one iteration of the pipeline."""
        return group.count * visited_share(self.candidates)

    @cached_property
    def state(self) -> ArgumentBytes:
        """What lives on a device across steps."""
        return argument_bytes(self.case, self.candidates)

    # --- weights ---------------------------------------------------------------------------------------------------

    @cached_property
    def layer_elements(self) -> Floats:
        """Weights of all layers on a device, in elements."""
        return self._elements(lambda tensor: tensor.group is not None)

    @cached_property
    def outer_elements(self) -> Floats:
        """Weights outside the layers on a device: embedding, head, last norm."""
        return self._elements(lambda tensor: tensor.group is None)

    @cached_property
    def scanned_matrix_elements(self) -> Floats:
        """Matrices of the scanned layers on a device."""
        groups = self.case.architecture.layer_groups
        vectors = ("norm", "bias")
        return self._elements(lambda t: t.group is not None and groups[t.group].count > 1 and t.role not in vectors)

    @property
    def weight_bytes(self) -> int:
        """w, bytes of a stored weight."""
        return DTYPE_BYTES[self.case.workload.optimizer.weight_dtype]

    @cached_property
    def gradient_bytes(self) -> Floats:
        """g, bytes of a gradient: no wider than its weight, and as wide where micro-steps are summed before the cast."""
        narrow = min(self.weight_bytes, DTYPE_BYTES[self.case.workload.optimizer.gradient_dtype])
        widths: Floats = np.where(self.candidates.gradient_accumulation > 1, float(self.weight_bytes), float(narrow))
        return widths

    @cached_property
    def _meshes(self) -> tuple[Candidates, Callable[[Floats], Floats]]:
        """The candidates with different meshes, and how to spread their columns over all."""
        rows = distinct([self.candidates.degree(axis).astype(np.float64) for axis in AXES])
        return self.candidates.take(rows.first), rows.spread

    def _elements(self, wanted: Callable[[ParameterTensor], bool]) -> Floats:
        meshes, spread = self._meshes
        total = np.zeros(len(meshes))
        for tensor in parameter_tensors(self.case.architecture):
            if wanted(tensor):
                total += sharded_elements(tensor, meshes)
        return spread(total)
