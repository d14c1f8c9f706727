"""Exact parameter counts: every weight tensor of an architecture, with the logical axis of each of its dimensions.

Letters: D model width, V vocabulary, N query heads, K key-value heads, H head width, F feed-forward width, E experts.
Source: MaxText 0.2.5 abstract train state, reproduced to the digit for every supported model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Architecture, Attention, FeedForward, Layer, LayerGroup

Role: TypeAlias = Literal[
    "embedding", "head", "position", "attention", "feed_forward", "routed_expert", "shared_expert", "router",
    "norm", "bias", "mtp_projection",
]  # fmt: skip
Dim: TypeAlias = tuple[int, str]
"""A dimension: its size, and MaxText's logical axis for it."""

MATRIX_ROLES = frozenset({"attention", "feed_forward", "routed_expert", "shared_expert", "router", "mtp_projection"})
"""Roles of the weights muon orthogonalises; all others it leaves to AdamW."""


@dataclass(frozen=True, slots=True)
class ParameterTensor:
    """One weight of one layer, or of the model outside its layers, and how many of its kind there are."""

    name: str
    """Path such as `group0.layer1.query`, `embedding`, `mtp.up_0`."""
    dims: tuple[Dim, ...]
    role: Role
    copies: int = 1
    """Tensors of this shape and place in the whole model."""
    stack: int = 1
    """Of those, how many lie in one array, stacked for the scanned loop."""
    is_stacked: bool = False
    """Whether the array has a dimension for the stack, be it of one."""
    group: int | None = None
    """Index of the layer group; None outside the decoder's layers."""
    layer: int | None = None
    """Index of the layer kind inside its group."""
    is_pipelined: bool = False
    """Whether pipeline stages split the copies among them."""

    @property
    def size(self) -> int:
        """Elements of one copy."""
        return math.prod(size for size, _ in self.dims)

    @property
    def elements(self) -> int:
        """Elements of all copies."""
        return self.copies * self.size

    @property
    def is_routed(self) -> bool:
        """Whether it belongs to the routed experts, their biases included."""
        return self.dims[0][1] == "exp"

    @property
    def is_matrix(self) -> bool:
        """Whether the optimizer muon keeps one moment of it instead of two."""
        return self.role in MATRIX_ROLES


@cache
def parameter_tensors(architecture: Architecture) -> tuple[ParameterTensor, ...]:
    """All trained weights of a model, each kind once with its number of copies."""
    D, V = architecture.model_width, architecture.vocab_size
    tensors = [ParameterTensor("embedding", ((V, "vocab"), (D, "embed_vocab")), "embedding")]
    if not architecture.tied_embeddings:
        tensors.append(ParameterTensor("head", ((D, "embed_vocab"), (V, "vocab")), "head"))
    if architecture.n_positions:
        positions = ((architecture.n_positions, "vocab"), (D, "embed_vocab"))
        tensors.append(ParameterTensor("position", positions, "position"))
    tensors += _norms("final", 1, architecture)
    for g, group in enumerate(architecture.layer_groups):
        for i, layer in enumerate(group.layers):
            tensors += [_placed(t, architecture, g, i) for t in layer_tensors(layer, architecture)]
    tensors += [replace(t, name=f"mtp.{t.name}", copies=architecture.n_mtp_layers) for t in _mtp(architecture)]
    return tuple(tensors)


@cache
def layer_tensors(layer: Layer, architecture: Architecture) -> tuple[ParameterTensor, ...]:
    """The weights of one layer, one copy each."""
    D = architecture.model_width
    latent = layer.attention.kind == "mla"
    return (
        *(_mla(layer.attention, D) if latent else _gqa(layer.attention, D)),
        *(_moe(layer.feed_forward, D) if layer.feed_forward.is_moe else _dense(layer.feed_forward, D)),
        *_norms("layer", layer.n_norms, architecture),
    )


@cache
def variable_tensors(architecture: Architecture) -> tuple[ParameterTensor, ...]:
    """State that is stored with the weights but not trained: the routers' score biases. Not parameters."""
    last = architecture.layer_groups[-1].layers[-1].feed_forward
    biases = [
        _placed(_score_bias(layer.feed_forward), architecture, g, i)
        for g, group in enumerate(architecture.layer_groups)
        for i, layer in enumerate(group.layers)
        if layer.feed_forward.score_bias
    ]
    if architecture.n_mtp_layers and last.score_bias:
        biases.append(replace(_score_bias(last), name="mtp.score_bias", copies=architecture.n_mtp_layers))
    return tuple(biases)


def total_parameters(architecture: Architecture) -> int:
    """Trained parameters of the whole model, embeddings included."""
    return sum(t.elements for t in parameter_tensors(architecture))


def layer_parameters(layer: Layer, architecture: Architecture) -> int:
    """Trained parameters of one layer."""
    return sum(t.size for t in layer_tensors(layer, architecture))


def routed_expert_parameters(architecture: Architecture) -> int:
    """Parameters of the routed experts of all layers."""
    return sum(t.elements for t in parameter_tensors(architecture) if t.is_routed)


def active_parameters(architecture: Architecture, *, with_input_embedding: bool = True) -> int:
    """Parameters one token uses: all but the routed experts it does not visit, that is total - routed * (1 - k/E).

    The embedding counts as stored; without the input embedding, an untied one is left out. That is the
    convention of the published active sizes of gpt-oss and DeepSeek.
    """
    tensors = parameter_tensors(architecture)
    idle = sum(_idle(t, architecture) for t in tensors if t.is_routed)
    embedding = 0 if with_input_embedding or architecture.tied_embeddings else tensors[0].elements
    return total_parameters(architecture) - idle - embedding


@cache
def pipelined_groups(architecture: Architecture) -> frozenset[int]:
    """Layer groups the pipeline stages share: the one with the most layers, and others made of the same layers.

    Dense layers before a mixture of experts stay outside, as in MaxText; the remainder of a block pattern does not.
    """
    groups = architecture.layer_groups
    main = max(range(len(groups)), key=lambda g: groups[g].count * groups[g].layers_per_block)
    shapes = _shapes(groups[main])
    return frozenset(g for g, group in enumerate(groups) if _shapes(group) <= shapes)


@cache
def scanned_groups(architecture: Architecture) -> tuple[int, ...]:
    """Layer groups that are scanned loops; the remainder of a block pattern is unrolled."""
    groups = architecture.layer_groups
    shapes = [_shapes(group) for group in groups]
    return tuple(g for g in range(len(groups)) if not any(shapes[g] <= earlier for earlier in shapes[:g]))


def _shapes(group: LayerGroup) -> frozenset[tuple[Attention, FeedForward]]:
    """Kinds of layers of a group apart from what does not change a tensor: the attention window."""
    unwindowed = {"window": None, "window_kind": "sliding"}
    return frozenset((x.attention.model_copy(update=unwindowed), x.feed_forward) for x in group.layers)


def _placed(tensor: ParameterTensor, architecture: Architecture, g: int, i: int) -> ParameterTensor:
    """All copies of a tensor of one layer kind, at its place in the model."""
    group = architecture.layer_groups[g]
    return replace(
        tensor,
        name=f"group{g}.layer{i}.{tensor.name}",
        copies=group.count * group.layers[i].count,
        stack=group.count,
        is_stacked=g in scanned_groups(architecture),
        group=g,
        layer=i,
        is_pipelined=g in pipelined_groups(architecture),
    )


def _score_bias(ff: FeedForward) -> ParameterTensor:
    return ParameterTensor("score_bias", ((ff.n_experts, "none"),), "bias")


def _idle(tensor: ParameterTensor, architecture: Architecture) -> int:
    """Elements of a routed expert tensor that one token does not use."""
    group = architecture.layer_groups[-1 if tensor.group is None else tensor.group]
    ff = group.layers[-1 if tensor.layer is None else tensor.layer].feed_forward
    return tensor.elements // ff.n_experts * (ff.n_experts - ff.n_active_experts)


def _gqa(a: Attention, D: int) -> Iterator[ParameterTensor]:
    N, K, H = a.n_query_heads, a.n_key_value_heads, a.qk_width
    heads = (("query", N, "q_heads"), ("key", K, "kv_heads"), ("value", K, "kv_heads"))
    for name, count, axis in heads:
        yield ParameterTensor(name, ((D, "embed_attn"), (count, axis), (H, "kv")), "attention")
        if a.bias:
            yield ParameterTensor(f"{name}_bias", ((count, axis), (H, "kv")), "bias")
    yield ParameterTensor("out", ((N, "heads"), (H, "kv"), (D, "embed_attn")), "attention")
    if a.output_bias:
        yield ParameterTensor("out_bias", ((D, "embed_attn"),), "bias")
    if a.sinks:
        yield ParameterTensor("sinks", ((N, "none"),), "bias")
    if a.qk_norm != "none":
        whole = a.qk_norm == "full"
        yield ParameterTensor("query_norm", ((N * H if whole else H, "norm"),), "norm")
        yield ParameterTensor("key_norm", ((K * H if whole else H, "norm"),), "norm")


def _mla(a: Attention, D: int) -> Iterator[ParameterTensor]:
    N, r, kr = a.n_query_heads, a.query_rank, a.key_value_rank
    if r:
        yield ParameterTensor("query_down", ((D, "embed_attn"), (r, "q_lora_up_proj")), "attention")
        yield ParameterTensor("query_up", ((r, "q_lora"), (N, "q_heads"), (a.qk_width, "kv")), "attention")
        yield ParameterTensor("query_rank_norm", ((r, "norm"),), "norm")
    else:
        yield ParameterTensor("query", ((D, "embed_attn"), (N, "q_heads"), (a.qk_width, "kv")), "attention")
    yield ParameterTensor("kv_down", ((D, "embed_attn"), (kr + a.rope_width, "kv_lora_up_proj")), "attention")
    up = ((kr, "kv_lora"), (N, "kv_heads"), (a.nope_width + a.value_width, "kv"))
    yield ParameterTensor("kv_up", up, "attention")
    yield ParameterTensor("kv_rank_norm", ((kr, "norm"),), "norm")
    yield ParameterTensor("out", ((N, "heads"), (a.value_width, "kv"), (D, "embed_attn")), "attention")


def _dense(ff: FeedForward, D: int) -> Iterator[ParameterTensor]:
    yield from _block(ff, ff.width, "feed_forward", D)
    if ff.bias:
        for i in range(ff.n_matrices - 1):
            yield ParameterTensor(f"up_{i}_bias", ((ff.width, "mlp"),), "bias")
        yield ParameterTensor("down_bias", ((D, "embed"),), "bias")


def _moe(ff: FeedForward, D: int) -> Iterator[ParameterTensor]:
    E, F = ff.n_experts, ff.width
    yield ParameterTensor("router", ((D, ff.router_embedding), (E, "none")), "router")
    for i in range(ff.n_matrices - 1):
        yield ParameterTensor(f"expert_up_{i}", ((E, "exp"), (D, "embed_moe"), (F, "mlp_moe")), "routed_expert")
    yield ParameterTensor("expert_down", ((E, "exp"), (F, "mlp_moe"), (D, "embed_moe")), "routed_expert")
    if ff.bias:
        yield ParameterTensor("router_bias", ((E, "none"),), "bias")
        for i in range(ff.n_matrices - 1):
            yield ParameterTensor(f"expert_up_{i}_bias", ((E, "exp"), (F, "activation_mlp")), "bias")
        yield ParameterTensor("expert_down_bias", ((E, "exp"), (D, "activation_mlp")), "bias")
    if ff.n_shared_experts:
        yield from _block(ff, ff.total_shared_width, "shared_expert", D)
    if ff.shared_gate:
        yield ParameterTensor("shared_gate", ((D, "embed"), (1, "none")), "bias")


def _block(
    ff: FeedForward, F: int, role: Literal["feed_forward", "shared_expert"], D: int
) -> Iterator[ParameterTensor]:
    prefix = "shared_" if role == "shared_expert" else ""
    for i in range(ff.n_matrices - 1):
        yield ParameterTensor(f"{prefix}up_{i}", ((D, "embed"), (F, "mlp")), role)
    yield ParameterTensor(f"{prefix}down", ((F, "mlp"), (D, "embed")), role)


def _norms(place: str, count: int, architecture: Architecture) -> Iterator[ParameterTensor]:
    axis = "norm" if architecture.norm_axis == "tensor" else "norm_fsdp"
    for i in range(count):
        yield ParameterTensor(f"{place}_norm_{i}", ((architecture.model_width, axis),), "norm")
        if architecture.norm_bias:
            yield ParameterTensor(f"{place}_norm_{i}_bias", ((architecture.model_width, axis),), "norm")


def _mtp(architecture: Architecture) -> Iterator[ParameterTensor]:
    """One multi-token-prediction module: three norms, the projection of two streams to one, and a layer."""
    if architecture.n_mtp_layers:
        D = architecture.model_width
        yield from _norms("mtp", 3, architecture)
        yield ParameterTensor("projection", ((2 * D, "embed"), (D, "none")), "mtp_projection")
        yield from layer_tensors(architecture.layer_groups[-1].layers[-1], architecture)
