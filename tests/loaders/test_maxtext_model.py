from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from shardplan.cost.tensors.parameters import total_parameters
from shardplan.errors import InputError
from shardplan.loaders.maxtext_blocks import BLOCKS
from shardplan.loaders.maxtext_model import UNSUPPORTED_BLOCKS, read_maxtext_model, recognises
from shardplan.loaders.maxtext_schema import MaxTextModel, Scale
from shardplan.loaders.presets import load_architecture
from shardplan.source import Document, parse_yaml

if TYPE_CHECKING:
    from shardplan.spec import Architecture

MODELS = json.loads((DATA / "maxtext" / "models.json").read_text())
"""Keys that shape tensors, of MaxText 0.2.5 configs/models/*.yml."""


def read(**keys: Any) -> Architecture:
    return read_maxtext_model(Document(keys, "model.yml"), "model")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_file_and_its_preset_are_the_same(name: str) -> None:
    preset = load_architecture(name)
    read_ = read_maxtext_model(Document(MODELS[name], f"{name}.yml"), name, preset.maxtext_model_name)
    assert read_.model_copy(update={"notes": ()}) == preset


def test_sizes_left_out_are_those_of_base_yml() -> None:
    model = read(decoder_block="llama2")
    attention = model.layer_groups[0].layers[0].attention
    assert (model.n_layers, model.model_width, model.vocab_size) == (16, 2048, 32000)
    assert (attention.n_query_heads, attention.head_width) == (16, 128)


@pytest.mark.parametrize(
    ("scale", "emb", "heads", "layers"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (4, 2, 2, 1), (8, 2, 2, 2), (16, 2, 4, 2), (64, 4, 4, 4)],
)
def test_global_parameter_scale_grows_heads_then_width_then_layers(
    scale: int, emb: int, heads: int, layers: int
) -> None:
    """Source: MaxText 0.2.5 configs/types.py get_individual_scales."""
    assert Scale.of(scale) == Scale(emb=emb, heads=heads, layers=layers)
    model = read(decoder_block="llama2", global_parameter_scale=scale)
    layer = model.layer_groups[0].layers[0]
    assert (model.model_width, model.n_layers) == (2048 * emb, 16 * layers)
    assert (layer.attention.n_query_heads, layer.feed_forward.width) == (16 * heads, 7168 * heads)
    assert layer.attention.head_width == 128


@pytest.mark.parametrize("scale", [0, 3, 6, -1, 2**16])
def test_a_scale_that_is_no_power_of_two_is_refused(scale: int) -> None:
    with pytest.raises(InputError, match="global_parameter_scale"):
        read(decoder_block="llama2", global_parameter_scale=scale)


@pytest.mark.parametrize("block", UNSUPPORTED_BLOCKS)
def test_blocks_that_cannot_be_planned_are_refused_by_kind(block: str) -> None:
    document = parse_yaml(f"base_emb_dim: 64\ndecoder_block: {block}\n", "model.yml")
    with pytest.raises(InputError) as caught:
        read_maxtext_model(document, "model")
    (diagnostic,) = caught.value.diagnostics
    assert UNSUPPORTED_BLOCKS[block] in diagnostic.message
    assert (diagnostic.mark and diagnostic.mark.line) == 2


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"use_indexer": True}, "sparse attention indexer"),
        ({"use_multimodal": True}, "encoder"),
        ({"share_kv_projections": True}, "one projection"),
        ({"num_kv_shared_layers": 4}, "share keys and values"),
        ({"engram_layers": [1]}, "engram"),
        ({"attention_type": "compressed"}, "attention of a kind"),
    ],
)
def test_parts_that_cannot_be_planned_are_refused(keys: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        read(decoder_block="llama2", **keys)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as caught:
        read(decoder_block="deepseek", use_indexer=True, use_multimodal=True, global_parameter_scale=3)
    assert len(caught.value.diagnostics) == 3


def test_an_unknown_block_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="did you mean 'llama2'"):
        read(decoder_block="lama2")
    with pytest.raises(InputError, match="known here"):
        read(decoder_block="zzzzz")


def test_windows_follow_attention_type() -> None:
    sliding = read(decoder_block="mistral", attention_type="local_sliding", sliding_window_size=4096)
    chunked = read(decoder_block="llama2", attention_type="chunk", chunk_attn_window_size=8192)
    full = read(decoder_block="mistral", attention_type="local_sliding")
    found = [m.layer_groups[0].layers[0].attention for m in (sliding, chunked, full)]
    assert [(a.window, a.window_kind) for a in found] == [(4096, "sliding"), (8192, "chunked"), (None, "sliding")]


def test_experts_in_a_dense_block_have_no_effect_but_a_note() -> None:
    model = read(decoder_block="llama2", num_experts=8)
    assert not model.is_moe
    assert "num_experts 8 has no effect" in model.notes[0]


def test_axis_rules_of_a_file_are_noted_and_its_norm_rule_is_read() -> None:
    model = read(decoder_block="llama2", logical_axis_rules=[["norm", "fsdp"]], override_logical_axis_rules=True)
    assert model.norm_axis == "fsdp"
    assert "axis rules" in model.notes[0]
    assert read(decoder_block="llama2", logical_axis_rules=["odd"]).norm_axis == "tensor"


def test_a_deepseek_model_may_be_dense_or_all_experts() -> None:
    keys: dict[str, Any] = {
        "decoder_block": "deepseek",
        "base_num_decoder_layers": 4,
        "num_experts": 4,
        "base_moe_mlp_dim": 32,
    }
    assert not read(**keys, first_num_dense_layers=4).is_moe
    assert [g.count for g in read(**keys).layer_groups] == [4]


def test_what_looks_like_a_model_file() -> None:
    assert recognises(Document({"base_emb_dim": 64}, "x"))
    assert not recognises(Document({"model_width": 64}, "x"))
    assert not recognises(Document(["base_emb_dim"], "x"))


words = st.text(st.characters(codec="ascii"), max_size=8)
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats() | words,
    lambda x: st.lists(x, max_size=3),
    max_leaves=4,
)


@given(
    st.sampled_from(sorted(BLOCKS)),
    st.dictionaries(st.sampled_from(sorted(MaxTextModel.model_fields)), junk | st.integers(1, 64), max_size=8),
)
def test_any_values_give_a_model_or_a_diagnosis(block: str, keys: dict[str, Any]) -> None:
    try:
        model = read(**{"decoder_block": block, **keys})
    except InputError as error:
        assert error.diagnostics
    else:
        assert total_parameters(model) > 0
