"""What persists through the step beside the state: kept activations, copies of weights, gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shardplan.cost.memory import terms
from shardplan.cost.memory.experts import expert_rows
from shardplan.cost.memory.setting import Part, Setting, part
from shardplan.cost.tensors.saved import INPUT, block_layers, saved_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.cost.tensors.saved import Saved
    from shardplan.units import Bools, Floats

BFLOAT16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Named:
    """One named activation of one kind of layer."""

    tensor: Saved
    passes: Floats
    """How many of it a device makes in a micro-step, `(n,)`."""
    bytes: Floats
    """Bytes of one, `(n,)`."""


def saved_activations(setting: Setting) -> list[Part]:
    """Activations kept from the forward to the backward pass: block inputs, and what the remat policy names."""
    here, copies = setting.here, 1.0 + relaid(setting)
    L = _inputs(setting) * ~setting.offloaded(INPUT) * copies
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
        if (stays := setting.kept(*named.tensor.names)).any():
            L = stays * named.passes * (copies if setting.fuses_matmuls else 1.0)
            found.append(part("saved_activations", f"saved_{named.tensor.name}", terms.kept_bytes, L=L, a=named.bytes))
    return found


def offloaded_bytes(setting: Setting) -> Floats:
    """Activations kept in host memory, `(n,)`."""
    here = setting.here
    inputs = terms.layer_inputs_bytes(_inputs(setting), here.tokens, setting.width, here.tensor)
    total: Floats = inputs * setting.offloaded(INPUT)
    for named in named_activations(setting):
        if (goes := setting.offloaded(*named.tensor.names)).any():
            total = total + goes * named.passes * named.bytes
    return total


def relaid(setting: Setting) -> Bools:
    """Whether stacks on the device are there twice through the backward pass, `(n,)`.

    Where activations inside a layer go to the host the compiler peels iterations off both loops. If the feed-forward
    block's are among them and the projections into attention are made again, what stays on the device changes its layout
    for the loop, and the peeled iteration keeps the old one: block inputs on tpu7x, all stacks elsewhere. Source: buffer
    dumps of llama3.1-8b, gemma2-27b, qwen3-32b.
    """
    return _offloads_feed_forward(setting) & (setting.recomputed("query_proj", "key_proj", "value_proj") > 0)


def relaid_last(setting: Setting) -> Bools:
    """Whether the layout changes only for the last, peeled iteration, `(n,)`: attention's activations go to the host."""
    return _offloads(setting, "attention", "feed_forward") & ~relaid(setting)


def returned_stack(setting: Setting) -> list[Part]:
    """The largest stack that went to the host, back on the device whole and again in a second layout.

    Seen with one sequence a device where a second axis beside fsdp splits the weights or the batch: the loop then wants
    the stacks in another layout than they were sent in. Source: buffer dumps of qwen3-8b and llama3.1-8b on tpu7x.
    """
    beside = setting.candidates.degree("data", "fsdp_transpose") > 1
    comes_back = _offloads_feed_forward(setting) & (setting.here.rows <= 1) & beside
    if not comes_back.any():
        return []
    largest = np.zeros(len(setting.candidates))
    for named in named_activations(setting):
        sent = setting.offloaded(*named.tensor.names) * named.passes * named.bytes
        largest = np.maximum(largest, sent)
    return [part("saved_activations", "returned_stack", terms.kept_bytes, L=2.0 * comes_back, a=largest)]


def _offloads_feed_forward(setting: Setting) -> Bools:
    return _offloads(setting, "feed_forward")


def _offloads(setting: Setting, *parts: str) -> Bools:
    """Whether a tensor of those parts of some layer goes to the host, `(n,)`: one that no backward step reads never does."""
    layers = [found for group in setting.case.architecture.layer_groups for found in block_layers(group)]
    tensors = [
        t for layer, _, last in layers for t in saved_tensors(layer, setting.width, is_last=last) if t.part in parts
    ]
    names = frozenset(name for tensor in tensors for name in tensor.names)
    return np.array([bool(names & policy.offload) for policy in setting.candidates.remat_policies])[
        setting.candidates.remat
    ]


def returning(setting: Setting) -> list[Part]:
    """Offloaded activations of the layer that goes back, on the device again."""
    total = np.zeros(len(setting.candidates))
    for named in named_activations(setting):
        total = total + setting.offloaded(*named.tensor.names) * named.bytes
    if not total.any():
        return []
    return [part("layer_work", "returning_activations", terms.kept_bytes, L=1.0, a=total)]


def last_iteration(setting: Setting) -> list[Part]:
    """Block inputs in a second layout."""
    here, L = setting.here, _inputs(setting) * ~setting.offloaded(INPUT) * relaid_last(setting)
    n, t = here.tokens, here.tensor
    return [part("saved_activations", "relaid_inputs", terms.layer_inputs_bytes, L=L, n=n, D=setting.width, t=t)]


def named_activations(setting: Setting) -> Iterator[Named]:
    """Every named activation that some candidate's policy keeps or offloads."""
    wanted = {name for policy in setting.candidates.remat_policies for name in policy.device | policy.offload} - {INPUT}
    here = setting.here
    for group in setting.case.architecture.layer_groups:
        for layer, count, is_last in block_layers(group):
            rows = expert_rows(layer.feed_forward, setting) if layer.feed_forward.is_moe else here.tokens
            for tensor in saved_tensors(layer, setting.width, is_last=is_last):
                if wanted & tensor.names:
                    size = tensor.bytes(here.tokens, rows, here.tensor)
                    yield Named(tensor, setting.passes(group) * count, size)


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


def _inputs(setting: Setting) -> Floats:
    """Inputs of blocks and layers kept through the step."""
    groups = setting.case.architecture.layer_groups
    total: Floats = np.sum([setting.passes(group) * setting.inputs(group) for group in groups], axis=0)
    return total
