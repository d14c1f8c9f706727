"""What persists through the step beside the state: kept activations, copies of weights, gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost import memory_terms as terms
from shardplan.cost.activations import POLICY_NAMES, named_bytes
from shardplan.cost.memory_experts import expert_rows
from shardplan.cost.memory_setting import Part, Setting, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.units import Bools, Floats

INPUT = "decoder_layer_input"
BFLOAT16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Named:
    """One named activation of one kind of layer."""

    name: str
    policy_names: tuple[str, ...]
    """Names in a remat policy that keep it."""
    passes: Floats
    """How many of it a device makes in a micro-step, `(n,)`."""
    bytes: Floats
    """Bytes of one, `(n,)`."""


def saved_activations(setting: Setting) -> list[Part]:
    """Activations kept from the forward to the backward pass: block inputs, and what the remat policy names."""
    here, copies = setting.here, 1.0 + relaid(setting)
    L = _blocks(setting) * ~setting.offloaded(INPUT) * copies
    found = [
        part(
            "saved_activations",
            "block_inputs",
            terms.layer_inputs_bytes,
            L=L,
            n=here.tokens,
            D=setting.width,
            t=here.tensor,
        )
    ]
    for named in named_activations(setting):
        if (stays := setting.kept(*named.policy_names)).any():
            L = stays * named.passes * copies
            found.append(part("saved_activations", f"saved_{named.name}", terms.kept_bytes, L=L, a=named.bytes))
    return found


def offloaded_bytes(setting: Setting) -> Floats:
    """Activations kept in host memory, `(n,)`."""
    here = setting.here
    inputs = terms.layer_inputs_bytes(_blocks(setting), here.tokens, setting.width, here.tensor)
    total: Floats = inputs * setting.offloaded(INPUT)
    for named in named_activations(setting):
        if (goes := setting.offloaded(*named.policy_names)).any():
            total = total + goes * named.passes * named.bytes
    return total


def relaid(setting: Setting) -> Bools:
    """Whether a policy sends activations inside a layer to the host, `(n,)`.

    The compiler then peels iterations off both loops and changes the layout of what stays on the device between them:
    there are two copies of every stack. Source: buffer dumps of llama3.1-8b.
    """
    policies = setting.candidates.remat_policies
    return np.array([bool(policy.offload - {INPUT}) for policy in policies])[setting.candidates.remat]


def named_activations(setting: Setting) -> Iterator[Named]:
    """Every named activation that some candidate's policy keeps or offloads."""
    wanted = {name for policy in setting.candidates.remat_policies for name in policy.device | policy.offload}
    for group in setting.case.architecture.layer_groups:
        for layer in group.layers:
            ff = layer.feed_forward
            rows = expert_rows(ff, setting) if ff.is_moe else setting.here.tokens
            for name, size in named_bytes(layer, setting.width, setting.here, rows).items():
                names = POLICY_NAMES.get(name, (name,))
                if wanted & set(names):
                    yield Named(name, names, setting.passes(group) * layer.count, size)


def weight_copies(setting: Setting) -> list[Part]:
    """Bfloat16 copies of float32 weights; with gradient accumulation also the running sums, all through the step."""
    accumulates = setting.candidates.gradient_accumulation > 1
    found = []
    if setting.weight_bytes > BFLOAT16_BYTES:
        P = setting.scanned_matrix_elements + setting.outer_elements * accumulates
        found.append(part("weight_copies", "weight_copies", terms.weight_copies_bytes, P=P))
    if accumulates.any():
        P = (setting.outer_elements + setting.layer_elements) * accumulates
        found.append(part("gradients", "gradient_sums", terms.accumulated_gradients_bytes, P=P, w=setting.weight_bytes))
    return found


def layer_gradients(setting: Setting) -> list[Part]:
    """Gradients of all layers, which the backward pass fills one by one."""
    P, g = setting.layer_elements, setting.gradient_bytes
    return [part("gradients", "layer_gradients", terms.layer_gradients_bytes, P=P, g=g)]


def _blocks(setting: Setting) -> Floats:
    total: Floats = np.sum([setting.passes(group) for group in setting.case.architecture.layer_groups], axis=0)
    return total
