"""Logits that the compiler computes twice where that alone makes a step fit.

The gradient of the logits waits through the layers' backward pass until the head's gradient is due. Where a device cannot
hold it and everything else does fit, the compiler frees the logits and computes them again afterwards, or takes the head's
gradient first: one buffer, given back whole. Source: buffer dumps of llama3.1-70b on v6e-256 (`fusion.413.remat` computes
the logits again after the layers) and deepseek2-16b on v5p-8 (the head's gradient first), both counted 2 to 5% beyond
the limit with the logits; they come within 8% of the compiler without them, from 14 and 18%. Where the rest does not fit either nothing
is given back: llama3.1-70b on v6e-16, mistral-7b on v5p-64 and gpt-oss-20b on v5p-64 are refused with the logits waiting.
Chips with SparseCores never do so in the corpus (llama3.1-8b at batch 6 on tpu7x-2 is refused).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.setting import Setting, part

if TYPE_CHECKING:
    from shardplan.cost.memory.moments import Alive, Moment
    from shardplan.units import Floats

WAITING = "logits_gradient_bytes"

MARGIN = 0.02
"""Share of the limit over which the rule comes in beyond it, and goes out again as the rest outgrows it: no plan's memory may
jump because our sum crosses a line it knows to a few percent only. Both dumps lie where all is given back."""


def without_waiting_logits(moments: tuple[Moment, ...], setting: Setting) -> tuple[Moment, ...]:
    """The moments with the waiting logits given back where that makes a candidate fit, else as they are.

    The share given back rises from none at the limit to all MARGIN beyond it.
    """
    if not setting.fuses_matmuls:
        return moments
    shape = (len(setting.candidates),)
    margin = MARGIN * setting.case.cluster.hbm_limit_bytes
    room = setting.case.cluster.hbm_limit_bytes - setting.state.device_bytes
    held, freed = np.zeros(shape), np.zeros(shape)
    for moment in moments:
        held = np.maximum(held, moment.bytes)
        freed = np.maximum(freed, moment.bytes - (1 + moment.holes) * _waiting(moment.shared))
    share = np.clip((held - room) / margin, 0.0, 1.0)
    back = share * np.clip(1 - (freed - room) / margin, 0.0, 1.0)
    return tuple(_given_back(moment, back) for moment in moments) if back.any() else moments


def _given_back(moment: Moment, back: Floats) -> Moment:
    waiting = _waiting(moment.shared)
    if not np.any(waiting):
        return moment
    freed = part("logits", "logits_given_back", terms.given_back_bytes, s=back, b=waiting)
    return replace(moment, shared=replace(moment.shared, parts=(*moment.shared.parts, freed)))


def _waiting(shared: Alive) -> Floats:
    return sum((term.value for _, term in shared.parts if term.name == WAITING), start=np.zeros(()))
