"""What the optimizer update holds: gradients of all weights, moments back from the host, muon's whole matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.cost.memory import terms
from shardplan.cost.memory.setting import Part, Setting, part
from shardplan.cost.tensors.parameters import parameter_tensors

if TYPE_CHECKING:
    from shardplan.units import Floats

PREFETCHED = 0.4
"""Share of offloaded moments that is back on the device while the layers still go back: 0.30 and 0.41 for llama3.1-8b at
batch 1 and 2 a device."""

MUON_COPIES = 6.5
"""Float32 copies of the device's layer weights in a muon update: gradients, moments, orthogonalised updates.

Source: buffer dump of llama3.1-8b on 8 devices.
"""


def update(setting: Setting) -> list[Part]:
    """Everything alive as the weights are updated."""
    P, g = setting.layer_elements + setting.outer_elements, setting.gradient_bytes
    found = [part("gradients", "gradients", terms.layer_gradients_bytes, P=P, g=g), *_returned_moments(setting, 1.0)]
    return found + _orthogonalised(setting) if setting.case.workload.optimizer.name == "muon" else found


def prefetched_moments(setting: Setting) -> list[Part]:
    """Offloaded moments that come back early."""
    return _returned_moments(setting, PREFETCHED)


def _returned_moments(setting: Setting, share: float) -> list[Part]:
    if not setting.state.moments_on_host:
        return []
    a: Floats = setting.state.first_moment.value + setting.state.second_moment.value
    return [part("optimizer", "returned_moments", terms.kept_bytes, L=share, a=a)]


def _orthogonalised(setting: Setting) -> list[Part]:
    """Newton-Schulz iterations on whole stacks of matrices: the stacks gathered, and their products with themselves."""
    tensors = [t for t in parameter_tensors(setting.case.architecture) if t.group is not None and t.is_matrix]
    wide = sum(t.elements for t in tensors if t.role != "attention")
    L = setting.case.architecture.n_layers
    t, P = setting.here.tensor, setting.layer_elements
    return [
        part("optimizer", "muon_copies", terms.accumulated_gradients_bytes, P=MUON_COPIES * P, w=4),
        part("optimizer", "whole_stacks", terms.matrices_bytes, c=setting.gathers, W=wide, t=t),
        part("optimizer", "products", terms.products_bytes, L=L, D=setting.width, t=t),
    ]
