from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from maxtext_points import FOLDER

from shardplan.cost.tensors.parameters import (
    active_parameters,
    layer_parameters,
    layer_tensors,
    parameter_tensors,
    pipelined_groups,
    routed_expert_parameters,
    scanned_groups,
    total_parameters,
    variable_tensors,
)
from shardplan.loaders.presets import architecture_names, load_architecture
from shardplan.spec import Architecture, Attention, FeedForward, Layer, LayerGroup

COUNTS = json.loads((FOLDER / "parameters.json").read_text())
"""Total, routed, active, active without input embedding. Source: MaxText 0.2.5 abstract state."""


def model_of(key: str) -> Architecture:
    name, _, mtp = key.partition(" [mtp_num_layers=1]")
    architecture = load_architecture(name)
    return architecture.model_copy(update={"n_mtp_layers": 1}) if mtp or key.endswith("]") else architecture


@pytest.mark.parametrize("key", COUNTS)
def test_counts_equal_maxtext_to_the_digit(key: str) -> None:
    model = model_of(key)
    found = [
        total_parameters(model),
        routed_expert_parameters(model),
        active_parameters(model),
        active_parameters(model, with_input_embedding=False),
    ]
    assert found == COUNTS[key]


def test_every_preset_is_counted_by_maxtext() -> None:
    named = {name for name in architecture_names() if load_architecture(name).maxtext_model_name}
    assert len(named) > 50
    assert named <= set(COUNTS)


def layers_of(data: st.DataObject) -> Layer:
    heads = data.draw(st.sampled_from([1, 2, 4]))
    kind = data.draw(st.sampled_from(["gqa", "mla"]))
    if kind == "mla":
        attention = Attention(
            kind="mla", n_query_heads=4, n_key_value_heads=4, query_rank=data.draw(st.sampled_from([0, 8])),
            key_value_rank=8, nope_width=4, rope_width=2, value_width=6,
        )  # fmt: skip
    else:
        attention = Attention(
            n_query_heads=4,
            n_key_value_heads=heads,
            head_width=8,
            qk_norm=data.draw(st.sampled_from(["none", "head", "full"])),
            bias=data.draw(st.booleans()),
            output_bias=data.draw(st.booleans()),
            sinks=data.draw(st.booleans()),
        )
    gated, bias = data.draw(st.booleans()), data.draw(st.booleans())
    if data.draw(st.booleans()):
        shared = data.draw(st.integers(0, 2))
        feed_forward = FeedForward(
            kind="moe", width=16, gated=gated, bias=bias, n_experts=8, n_active_experts=data.draw(st.integers(1, 8)),
            n_shared_experts=shared, shared_gate=shared > 0 and data.draw(st.booleans()),
            score_bias=data.draw(st.booleans()),
        )  # fmt: skip
    else:
        feed_forward = FeedForward(width=16, gated=gated, bias=bias)
    return Layer(attention=attention, feed_forward=feed_forward, n_norms=data.draw(st.sampled_from([2, 4])))


def model_with(layer: Layer, count: int, **more: Any) -> Architecture:
    groups = (LayerGroup(count=count, layers=(layer,)),)
    return Architecture(model_width=32, vocab_size=64, layer_groups=groups, **more)


@given(st.data(), st.integers(1, 50), st.integers(1, 50))
def test_total_is_linear_in_layers(data: st.DataObject, a: int, b: int) -> None:
    layer = layers_of(data)
    more = {"tied_embeddings": data.draw(st.booleans()), "norm_bias": data.draw(st.booleans())}
    difference = total_parameters(model_with(layer, a + b, **more)) - total_parameters(model_with(layer, a, **more))
    assert difference == b * layer_parameters(layer, model_with(layer, 1, **more))


@given(st.data())
def test_a_block_counts_like_its_layers_apart(data: st.DataObject) -> None:
    first, second = layers_of(data), layers_of(data)
    block = Architecture(
        model_width=32,
        vocab_size=64,
        layer_groups=(LayerGroup(count=3, layers=(first.model_copy(update={"count": 2}), second)),),
    )
    apart = Architecture(
        model_width=32,
        vocab_size=64,
        layer_groups=(LayerGroup(count=6, layers=(first,)), LayerGroup(count=3, layers=(second,))),
    )
    assert total_parameters(block) == total_parameters(apart)
    assert active_parameters(block) == active_parameters(apart)


@given(st.data())
def test_active_is_total_when_every_expert_is(data: st.DataObject) -> None:
    layer = layers_of(data)
    model = model_with(layer, 4)
    ff = layer.feed_forward
    assert active_parameters(model) <= total_parameters(model)
    assert (active_parameters(model) == total_parameters(model)) == (ff.n_active_experts == ff.n_experts)


def test_tying_saves_the_head_and_positions_add_rows() -> None:
    layer = Layer(
        attention=Attention(n_query_heads=4, n_key_value_heads=4, head_width=8), feed_forward=FeedForward(width=16)
    )
    untied = total_parameters(model_with(layer, 1))
    assert untied - total_parameters(model_with(layer, 1, tied_embeddings=True)) == 64 * 32
    assert total_parameters(model_with(layer, 1, n_positions=10)) - untied == 10 * 32
    assert active_parameters(model_with(layer, 1), with_input_embedding=False) == untied - 64 * 32


def test_tensors_carry_their_place() -> None:
    model = load_architecture("gemma3-4b")
    tensors = {t.name: t for t in parameter_tensors(model)}
    query = tensors["group0.layer0.query"]
    assert (query.copies, query.stack, query.group, query.layer) == (25, 5, 0, 0)
    assert query.elements == 25 * query.size == 25 * 2560 * 8 * 256
    assert query.is_matrix
    assert not tensors["embedding"].is_matrix
    assert len({t.name for t in parameter_tensors(model)}) == len(parameter_tensors(model))
    assert {t.copies for t in layer_tensors(model.layer_groups[0].layers[0], model)} == {1}


def test_dense_first_layers_stay_outside_the_pipeline_and_remainders_do_not() -> None:
    assert pipelined_groups(load_architecture("deepseek3-671b")) == {1}
    assert scanned_groups(load_architecture("deepseek3-671b")) == (0, 1)
    assert pipelined_groups(load_architecture("gemma3-4b")) == {0, 1}
    assert scanned_groups(load_architecture("gemma3-4b")) == (0,)


def test_score_biases_are_stored_but_not_parameters() -> None:
    model = load_architecture("deepseek3-671b")
    assert sum(t.elements for t in variable_tensors(model)) == 58 * 256
    with_mtp = model.model_copy(update={"n_mtp_layers": 2})
    assert sum(t.elements for t in variable_tensors(with_mtp)) == 60 * 256
    assert variable_tensors(load_architecture("llama3.1-8b")) == ()


def test_layer_tensors_add_up_to_known_formulas() -> None:
    model = load_architecture("llama3.1-8b")
    D, F, N, K, H = 4096, 14336, 32, 8, 128
    layer = model.layer_groups[0].layers[0]
    assert layer_parameters(layer, model) == 2 * D * N * H + 2 * D * K * H + 3 * D * F + 2 * D
