"""Memory of one JAX device at the worst moment of a training step, as the XLA TPU compiler assigns it.

    arguments = state that lives across steps (exact, see state.py)
    temp      = the largest of a few named moments: what persists there plus what is in flight

Every moment is a sum of terms, each a tensor with its sharding. All columns are `(n,)`, bytes on a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory.band import usual_band
from shardplan.cost.memory.kept import offloaded_bytes
from shardplan.cost.memory.moments import Moment, moments
from shardplan.cost.memory.rescue import without_waiting_logits
from shardplan.cost.memory.setting import Setting
from shardplan.cost.memory.terms import relief_bytes
from shardplan.cost.term import Term

if TYPE_CHECKING:
    from shardplan.cost.tensors.state import ArgumentBytes
    from shardplan.spec import Case, Compiler
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints

KINDS = (
    "weights_bytes",
    "optimizer_bytes",
    "gradients_bytes",
    "saved_activations_bytes",
    "gathered_weights_bytes",
    "layer_work_bytes",
    "logits_bytes",
)
"""Kinds of memory every breakdown names, first and in this order."""


@dataclass(frozen=True)
class Memory:
    """Bytes on one device for each candidate."""

    state: ArgumentBytes
    held: tuple[Moment, ...]
    """The moments before the compiler gives anything back."""
    moments: tuple[Moment, ...]
    """The moments as they come."""
    usual_band: Floats
    """Share of the total by which the compiler may differ, from the corpus of compiled points; `(n,)`."""
    compiler: Compiler
    """What the chip's compiler does."""
    limit_bytes: float
    """What the compiler lets a device use."""
    offloaded_bytes: Floats
    """Activations kept in host memory between forward and backward pass, `(n,)`."""

    @property
    def arguments_bytes(self) -> Floats:
        """What lives on the device across steps: weights, moments, the batch."""
        return self.state.device_bytes

    @cached_property
    def moment_bytes(self) -> Floats:
        """Temporaries at each moment, `(moments, n)`."""
        shape = self.usual_band.shape
        return np.stack([np.broadcast_to(moment.bytes, shape) for moment in self.moments])

    @cached_property
    def binding(self) -> Ints:
        """Index into `moments` of the worst one, `(n,)`."""
        worst: Ints = np.argmax(self.moment_bytes, axis=0)
        return worst

    @cached_property
    def temp_bytes(self) -> Floats:
        """Temporaries at the worst moment, less what the compiler saves if they do not fit."""
        return self.worst_bytes + self.relief.value

    @cached_property
    def worst_bytes(self) -> Floats:
        """Temporaries at the worst moment."""
        return _worst(self.moments)

    @cached_property
    def error_band(self) -> Floats:
        """Share of the total by which the compiler may differ, `(n,)`."""
        beyond = np.maximum(self.usual_band, self.compiler.rescue_band)
        needed = self.arguments_bytes + (self.worst_bytes if self.held is self.moments else _worst(self.held))
        # A rescue we count on may not come: the band reaches to what is needed without.
        beyond = np.maximum(beyond, np.where(self._beyond > 0, 0.0, needed / self.total_bytes - 1))
        return np.where(needed > self.limit_bytes, beyond, self.usual_band)

    @cached_property
    def _beyond(self) -> Floats:
        return np.maximum(self.arguments_bytes + self.worst_bytes - self.limit_bytes, 0.0)

    @cached_property
    def relief(self) -> Term:
        """What the compiler saves before it refuses, as a negative number of bytes."""
        share, most = self.compiler.relief, self.compiler.relief_most
        o = np.minimum(share * self._beyond, most * self.limit_bytes)
        return Term("relief_bytes", relief_bytes, {"o": o})

    @property
    def total_bytes(self) -> Floats:
        """What must stay under the device's usable HBM."""
        return self.arguments_bytes + self.temp_bytes

    @property
    def host_bytes(self) -> Floats:
        """Host memory the device needs: offloaded state and activations."""
        return self.state.host_bytes + self.offloaded_bytes

    def moment_at(self, row: int) -> Moment:
        """The worst moment of one candidate."""
        return self.moments[int(self.binding[row])]

    def breakdown_at(self, row: int) -> dict[str, float]:
        """Bytes by kind of one candidate at its worst moment, 0 for the usual kinds not alive then; they add up to the total."""
        state = self.state
        found = dict.fromkeys(KINDS, 0.0) | {"weights_bytes": state.weights.value_at(row)}
        if not state.moments_on_host:
            found["optimizer_bytes"] = state.first_moment.value_at(row) + state.second_moment.value_at(row)
        found["batch_bytes"] = float(self.arguments_bytes[row]) - sum(found.values())
        for kind, term in self.moment_at(row).terms:
            if (value := term.value_at(row)) or kind in found:
                found[kind] = found.get(kind, 0.0) + value
        if self.relief.value_at(row):
            found["relief_bytes"] = self.relief.value_at(row)
        return found

    def moments_at(self, row: int) -> dict[str, float]:
        """Temporaries of one candidate at each moment of its step, by name."""
        found = {moment.name: float(self.moment_bytes[i, row]) for i, moment in enumerate(self.moments)}
        return {name: bytes_ for name, bytes_ in found.items() if bytes_}

    def terms_at(self, row: int) -> tuple[Term, ...]:
        """Every line of one candidate's arithmetic: the state, then the worst moment."""
        relief = (self.relief,) if self.relief.value_at(row) else ()
        return (*self.state.terms, *(term for _, term in self.moment_at(row).terms), *relief)


def _worst(moments: tuple[Moment, ...]) -> Floats:
    worst = moments[0].bytes
    for moment in moments[1:]:
        worst = np.maximum(worst, moment.bytes)
    return worst


def memory(case: Case, candidates: Candidates) -> Memory:
    """Memory of every candidate."""
    setting = Setting(case, candidates)
    held = moments(setting)
    return Memory(
        state=setting.state,
        held=held,
        moments=without_waiting_logits(held, setting),
        usual_band=usual_band(setting),
        compiler=setting.compiler,
        limit_bytes=case.cluster.hbm_limit_bytes,
        offloaded_bytes=offloaded_bytes(setting),
    )
