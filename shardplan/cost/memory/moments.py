"""The moments of a training step at which a device's temporaries peak, each a sum of buffers alive together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.experts import (
    PRESSURE,
    apart_experts,
    expert_moments,
    held_experts,
    staged_experts,
    unrolled_experts,
)
from shardplan.cost.memory.head import after_loss, before_loss, embedding_scratch, loss, pipeline_outputs
from shardplan.cost.memory.kept import (
    last_iteration,
    layer_gradients,
    relaid_last,
    returned_stack,
    returning,
    saved_activations,
    weight_copies,
)
from shardplan.cost.memory.layers import apart_dense, dense_moments, held_dense, staged_dense, waiting_hidden
from shardplan.cost.memory.setting import Part, Setting, part
from shardplan.cost.memory.update import prefetched_moments, update
from shardplan.cost.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from shardplan.spec import Layer, LayerGroup
    from shardplan.units import Bools, Floats

SOLID = "saved_activations_bytes"

WIDE_HOLES = 0.05
"""Holes in the compiler's heap as a share of the live bytes but kept activations, with SparseCores that gather whole matrices from more devices than a ring has."""

EXPERT_HOLES = (0.048, 0.08)
"""The same where experts go back, whose buffers differ more in size: without and with expert parallelism."""


@dataclass(frozen=True)
class Alive:
    """Buffers that several moments share, summed once."""

    parts: tuple[Part, ...]

    @cached_property
    def bytes(self) -> Floats:
        """Bytes together, `(n,)` or a scalar."""
        return _sum(self.parts)

    @cached_property
    def solid_bytes(self) -> Floats:
        """Bytes of kept activations: stacks that lie in the heap from one pass to the other, without holes."""
        return _sum(tuple(p for p in self.parts if p[0] == SOLID))


@dataclass(frozen=True)
class Moment:
    """A moment of the step with everything alive at it."""

    name: str
    shared: Alive
    own: tuple[Part, ...]
    holes: Floats
    """Share of the live bytes that the heap loses, `(n,)`."""
    here: Bools | None = None
    """Candidates whose step has the moment, `(n,)`; None: all of them."""

    @cached_property
    def live_bytes(self) -> Floats:
        """Bytes of all buffers, `(n,)`."""
        return self.shared.bytes + _sum(self.own)

    @cached_property
    def bytes(self) -> Floats:
        """Temporaries of each candidate, `(n,)`; 0 where its step has no such moment."""
        found = self.live_bytes + self.holes * (self.live_bytes - self.shared.solid_bytes)
        return found if self.here is None else np.where(self.here, found, 0.0)

    @property
    def terms(self) -> tuple[Part, ...]:
        """Every line, with the kind it counts as; the last is the heap's holes."""
        b = self.live_bytes - self.shared.solid_bytes
        holes = part("fragmentation", "fragmentation", terms.fragmentation_bytes, f=self.holes, b=b)
        return (*self.shared.parts, *self.own, holes)


def moments(setting: Setting) -> tuple[Moment, ...]:
    """Every moment of a training step, for each candidate."""
    return tuple(_moments(setting))


def _moments(setting: Setting) -> Iterator[Moment]:
    groups = setting.case.architecture.layer_groups
    looped = [group for group in groups if group.count > 1] or list(groups)
    holes = np.full(len(setting.candidates), setting.compiler.heap_holes)
    holes = np.where(setting.scatters_wide, WIDE_HOLES, holes)
    unrolled = [p for group in groups if group not in looped for p in _together(group, setting, _unrolled)]
    yield Moment("optimizer_update", Alive(()), tuple(update(setting)), holes)
    saved = Alive((*saved_activations(setting), *weight_copies(setting), *embedding_scratch(setting), *unrolled))
    back_again = tuple(returning(setting))
    yield Moment("loss_and_logits", saved, (*loss(setting), *back_again), holes)
    if whole := returned_stack(setting):
        own = (*whole, *back_again, *before_loss(setting))
        yield Moment("returned_stack", saved, own, holes, np.asarray(Alive(tuple(whole)).bytes) > 0)
    if (between := setting.candidates.dcn.pipeline > 1).any():
        yield Moment("pipeline_outputs", saved, tuple(pipeline_outputs(setting)), holes, between)
    through = (
        *saved.parts,
        *layer_gradients(setting),
        *prefetched_moments(setting),
        *back_again,
        *after_loss(setting),
    )
    for group in looped:
        shared = Alive((*through, *_stage(group, setting)))
        for i, layer in enumerate(group.layers):
            beside = tuple(_together(group, setting, _held, without=i))
            if (setting.inputs(group) > 1).any():
                beside = _beside_kept(group, setting, beside, i)
            if not layer.feed_forward.is_moe:
                inner = dense_moments(layer, setting)
                for name, parts in inner.items():
                    yield Moment(name, shared, (*beside, *parts), holes)
                if (last := relaid_last(setting)).any():
                    own = (*beside, *last_iteration(setting), *inner["attention_backward"])
                    yield Moment("peeled_iteration", shared, own, holes, last)
                continue
            free = _expert_layer(setting, shared, beside, expert_moments(layer, setting))
            worst = np.max([moment.bytes for moment in free], axis=0)
            pressed = setting.state.device_bytes + worst > PRESSURE * setting.case.cluster.hbm_limit_bytes
            if pressed.any():
                free = _expert_layer(setting, shared, beside, expert_moments(layer, setting, pressed=pressed))
            yield from free


def _expert_layer(
    setting: Setting, shared: Alive, beside: tuple[Part, ...], inner: dict[str, list[Part]]
) -> list[Moment]:
    usual = np.full(len(setting.candidates), setting.compiler.heap_holes)
    back = np.where(setting.here.expert > 1, EXPERT_HOLES[1], EXPERT_HOLES[0])
    return [
        Moment(name, shared, (*beside, *parts), back if name == "experts_backward" else usual)
        for name, parts in inner.items()
    ]


def _together(
    group: LayerGroup, setting: Setting, hold: Callable[[Layer, Setting], list[Part]], without: int | None = None
) -> Iterator[Part]:
    """What the layers of a block hold, by kind of memory; without one layer of the kind that goes back itself."""
    totals: dict[str, Floats] = {}
    for i, layer in enumerate(group.layers):
        if count := layer.count - (i == without):
            for kind, term in hold(layer, setting):
                totals[kind] = totals.get(kind, 0.0) + count * term.value
    for kind, total in totals.items():
        yield part(kind.removesuffix("_bytes"), "layers_beside", terms.kept_bytes, L=1.0, a=total)


def _beside_kept(group: LayerGroup, setting: Setting, together: tuple[Part, ...], without: int) -> tuple[Part, ...]:
    """What the other layers of a block hold: less where each starts from its own input, which is kept."""
    alone = setting.inputs(group) > 1
    apart = [*_together(group, setting, _apart, without=without)]
    last = group.layers[-1]
    if not last.feed_forward.is_moe:
        apart += waiting_hidden(last, setting)
    return (*_counted(together, ~alone), *_counted(apart, alone))


def _counted(parts: Iterable[Part], where: Bools) -> list[Part]:
    return [
        (kind, Term("layers_beside_bytes", terms.kept_bytes, {"L": 1.0 * where, "a": term.value}))
        for kind, term in parts
    ]


def _stage(group: LayerGroup, setting: Setting) -> list[Part]:
    """What the other blocks of a pipeline stage hold: an iteration recomputes all of them before it goes back."""
    if not (setting.stages > 1).any():
        return []
    L = np.where(setting.stages > 1, setting.blocks_per_stage(group) - 1.0, 0.0)
    a = _sum(tuple(_together(group, setting, _staged)))
    return [part("pipeline", "other_layers_of_stage", terms.kept_bytes, L=L, a=a)]


def _held(layer: Layer, setting: Setting) -> list[Part]:
    return held_experts(layer, setting) if layer.feed_forward.is_moe else held_dense(layer, setting)


def _apart(layer: Layer, setting: Setting) -> list[Part]:
    return apart_experts(layer, setting) if layer.feed_forward.is_moe else apart_dense(layer, setting)


def _staged(layer: Layer, setting: Setting) -> list[Part]:
    return staged_experts(layer, setting) if layer.feed_forward.is_moe else staged_dense(layer, setting)


def _unrolled(layer: Layer, setting: Setting) -> list[Part]:
    return unrolled_experts(layer, setting) if layer.feed_forward.is_moe else held_dense(layer, setting)


def _sum(parts: tuple[Part, ...]) -> Floats:
    return sum((term.value for _, term in parts), start=np.zeros(()))
