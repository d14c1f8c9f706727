from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import DATA

from shardplan.cost.tensors.parameters import active_parameters, total_parameters
from shardplan.errors import InputError
from shardplan.loaders.huggingface_decoder import HuggingFaceConfig
from shardplan.loaders.huggingface_families import FAMILIES, SAME_AS
from shardplan.loaders.huggingface_model import read_huggingface_config, recognises
from shardplan.loaders.huggingface_unsupported import TELLING_KEYS, UNSUPPORTED
from shardplan.loaders.patterns import layer_groups
from shardplan.loaders.presets import load_architecture, read_architecture
from shardplan.source import Document, parse_json

if TYPE_CHECKING:
    from shardplan.spec import Architecture

HF = DATA / "hf"
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-3.1-8b": 8_030_261_248,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-vl-3b": 3_085_938_688,  # that of Qwen2.5-3B, its text decoder
    "qwen3-8b": 8_190_735_360,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-4b-it": 4_300_079_472 - 419_816_304,  # less the vision tower
    "olmo-2-7b": 7_298_617_344,
    "olmo-3-7b": 7_298_011_136,
    "olmoe-1b-7b": 6_919_161_856,
    "gpt-oss-20b": 20_914_757_184,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_404_352,
    "kimi-k2": 1_026_408_209_408,
    "llama-4-scout": 107_769_861_120,  # text decoder
    "llama-4-maverick": 400_711_848_960,  # text decoder
    "phi-3-mini": 3_821_079_552,
    "smollm3-3b": 3_075_098_624,
    "starcoder2-3b": 3_030_371_328,
    "gpt2": 124_439_808,
    "gpt-neox-20b": 20_554_567_680,
    "glm-4.5-air": 106_852_245_504,
}
"""Parameters as the hub counts them in the checkpoints, without multi-token prediction."""


def read(**keys: Any) -> Architecture:
    return read_huggingface_config(Document({"model_type": "llama", **keys}, "config.json"), "model")


def refusal(**keys: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(**keys)
    return str(caught.value)


@pytest.mark.parametrize("name", PUBLISHED)
def test_totals_are_those_of_the_checkpoints(name: str) -> None:
    assert total_parameters(load_architecture(str(HF / f"{name}.json"))) == PUBLISHED[name]


def test_every_fixture_is_counted() -> None:
    assert {path.stem for path in HF.glob("*.json")} == set(PUBLISHED)


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("llama-3.1-8b", "llama3.1-8b"),
        ("mixtral-8x7b", "mixtral-8x7b"),
        ("qwen2.5-7b", "qwen2.5-7b"),
        ("qwen3-8b", "qwen3-8b"),
        ("qwen3-30b-a3b", "qwen3-30b-a3b"),
        ("olmo-3-7b", "olmo3-7b"),
        ("gpt-oss-20b", "gpt-oss-20b"),
        ("deepseek-v2-lite", "deepseek2-16b"),
        ("deepseek-v3", "deepseek3-671b"),
        ("kimi-k2", "kimi-k2-1t"),
        ("llama-4-scout", "llama4-17b-16e"),
        ("llama-4-maverick", "llama4-17b-128e"),
    ],
)
def test_a_config_is_built_like_its_preset(name: str, preset: str) -> None:
    found, expected = load_architecture(str(HF / f"{name}.json")), load_architecture(preset)
    plain = {"name": "", "notes": (), "maxtext_keys": ()}
    assert found.model_copy(update=plain) == expected.model_copy(update=plain)


# --- odd configurations ----------------------------------------------------------------------------------------------


def test_an_explicit_head_dim_wins_over_the_quotient() -> None:
    """Case O01: 3584 / 16 is 224, but Gemma 2 9B has heads of 256."""
    model = read(model_type="gemma2", hidden_size=3584, num_attention_heads=16, num_key_value_heads=8, head_dim=256)
    assert model.layer_groups[0].layers[0].attention.head_width == 256
    assert read(hidden_size=3584, num_attention_heads=16).layer_groups[0].layers[0].attention.head_width == 224


def test_heads_need_not_fill_the_model_width() -> None:
    """Case O03: 64 heads of 128 in a width of 6144; the query projection is 6144 x 8192."""
    odd = read(hidden_size=6144, num_attention_heads=64, head_dim=128, num_hidden_layers=1)
    square = read(hidden_size=6144, num_attention_heads=48, head_dim=128, num_hidden_layers=1)
    assert total_parameters(odd) - total_parameters(square) == 4 * 6144 * 16 * 128


@pytest.mark.parametrize("heads", [{}, {"num_key_value_heads": None}])
def test_missing_or_null_key_value_heads_are_as_many_as_queries(heads: dict[str, Any]) -> None:
    assert read(num_attention_heads=8, **heads).layer_groups[0].layers[0].attention.n_key_value_heads == 8


def test_a_family_with_a_default_uses_it_only_where_the_key_is_missing() -> None:
    missing, null = read(model_type="mistral"), read(model_type="mistral", num_key_value_heads=None)
    assert [m.layer_groups[0].layers[0].attention.n_key_value_heads for m in (missing, null)] == [8, 32]


def test_two_head_widths_in_one_model_are_refused_by_kind() -> None:
    """Case O06."""
    assert "attention layers with heads of two widths cannot be planned" in refusal(model_type="gemma4_text")


def test_key_value_heads_are_read_from_a_nested_text_config() -> None:
    """Case G57."""
    inner = {"model_type": "qwen3", "num_key_value_heads": 2, "num_attention_heads": 16}
    model = read(model_type="qwen3_vl", text_config=inner)
    assert model.layer_groups[0].layers[0].attention.n_key_value_heads == 2
    assert "text decoder" in model.notes[0]


def test_windows_are_per_layer() -> None:
    """Case O12."""
    types = ["sliding_attention", "full_attention", "full_attention"]
    model = read(num_hidden_layers=3, layer_types=types, sliding_window=512)
    windows = [x.attention.window for g in model.layer_groups for x in g.layers for _ in range(g.count * x.count)]
    assert windows == [512, None, None]


@pytest.mark.parametrize(
    ("keys", "tied"),
    [
        pytest.param({"model_type": "llama"}, False, id="llama"),
        pytest.param({"model_type": "llama", "tie_word_embeddings": True}, True, id="llama-says-so"),
        pytest.param({"model_type": "gemma"}, True, id="gemma"),
        pytest.param({"model_type": "gemma", "tie_word_embeddings": False}, False, id="gemma-says-not"),
        pytest.param({"model_type": "gpt2"}, True, id="gpt2"),
        pytest.param({"model_type": "gemma3", "text_config": {}}, True, id="nested-default"),
        pytest.param({"model_type": "llama4", "text_config": {}, "tie_word_embeddings": True}, True, id="outer-wins"),
    ],
)
def test_embeddings_are_tied_as_in_transformers(keys: dict[str, Any], tied: bool) -> None:  # noqa: FBT001
    assert read(**keys).tied_embeddings is tied


@pytest.mark.parametrize(
    ("keys", "windows"),
    [
        pytest.param({"model_type": "mistral", "sliding_window": None}, [None] * 4, id="null"),
        pytest.param({"model_type": "mistral", "sliding_window": 64}, [64] * 4, id="all"),
        pytest.param({"model_type": "qwen2", "sliding_window": 64}, [None] * 4, id="switched-off"),
        pytest.param(
            {"model_type": "qwen2", "sliding_window": 64, "use_sliding_window": True, "max_window_layers": 2},
            [None, None, 64, 64],
            id="from-a-layer-on",
        ),
        pytest.param(
            {"model_type": "qwen3_moe", "sliding_window": 64, "use_sliding_window": True}, [64] * 4, id="switched-on"
        ),
        pytest.param({"model_type": "gemma2"}, [4096, None] * 2, id="alternate"),
        pytest.param({"model_type": "gemma3_text", "sliding_window_pattern": 4}, [4096] * 3 + [None], id="pattern"),
        pytest.param({"model_type": "olmo3"}, [4096] * 3 + [None], id="olmo3"),
        pytest.param({"model_type": "llama4_text"}, [8192] * 3 + [None], id="chunked"),
        pytest.param({"model_type": "llama4_text", "no_rope_layers": [0, 1, 1, 1]}, [None] + [8192] * 3, id="no-rope"),
        pytest.param({"model_type": "llama4_text", "attention_chunk_size": None}, [None] * 4, id="no-chunks"),
    ],
)
def test_windows_by_family(keys: dict[str, Any], windows: list[int | None]) -> None:
    model = read(num_hidden_layers=4, **keys)
    found = [
        x.attention.window for g in model.layer_groups for _ in range(g.count) for x in g.layers for _ in range(x.count)
    ]
    assert found == windows


@pytest.mark.parametrize(
    ("keys", "kinds"),
    [
        pytest.param({"model_type": "qwen3_moe", "mlp_only_layers": [0, 2]}, "dmdm", id="mlp_only_layers"),
        pytest.param({"model_type": "qwen3_moe", "decoder_sparse_step": 2}, "dmdm", id="decoder_sparse_step"),
        pytest.param({"model_type": "qwen3_moe", "num_experts": 0}, "dddd", id="no-experts"),
        pytest.param({"model_type": "deepseek_v3", "first_k_dense_replace": 1}, "dmmm", id="first_k_dense_replace"),
        pytest.param({"model_type": "deepseek_v3", "n_routed_experts": None}, "dddd", id="null-experts"),
        pytest.param({"model_type": "llama4_text", "moe_layers": [1, 3]}, "dmdm", id="moe_layers"),
        pytest.param({"model_type": "llama4_text", "interleave_moe_layer_step": 2}, "dmdm", id="interleave"),
        pytest.param({"model_type": "mixtral"}, "mmmm", id="all"),
    ],
)
def test_which_layers_are_mixtures_of_experts(keys: dict[str, Any], kinds: str) -> None:
    model = read(num_hidden_layers=4, **keys)
    found = [
        x.feed_forward.kind[0]
        for g in model.layer_groups
        for _ in range(g.count)
        for x in g.layers
        for _ in range(x.count)
    ]
    assert "".join(found) == kinds


@pytest.mark.parametrize("spelling", ["num_local_experts", "num_experts", "n_routed_experts"])
def test_experts_in_any_spelling(spelling: str) -> None:
    model = read(model_type="qwen3_moe", **{spelling: 16})
    assert model.layer_groups[0].layers[0].feed_forward.n_experts == 16


def test_shared_experts_and_their_gate() -> None:
    model = load_architecture(str(HF / "qwen1.5-moe-a2.7b.json"))
    ff = model.layer_groups[0].layers[0].feed_forward
    assert (ff.n_shared_experts, ff.total_shared_width, ff.shared_gate) == (1, 5632, True)
    none = read(model_type="qwen2_moe", shared_expert_intermediate_size=0).layer_groups[0].layers[0].feed_forward
    assert (none.n_shared_experts, none.shared_gate) == (0, False)
    assert active_parameters(model) < total_parameters(model)


def test_latent_attention_with_a_full_rank_query() -> None:
    attention = load_architecture(str(HF / "deepseek-v2-lite.json")).layer_groups[0].layers[0].attention
    assert (attention.kind, attention.query_rank, attention.qk_width) == ("mla", 0, 192)


def test_biases_follow_their_switches() -> None:
    layer = read(attention_bias=True, mlp_bias=True).layer_groups[0].layers[0]
    assert layer.attention.bias
    assert layer.attention.output_bias
    assert layer.feed_forward.bias
    glm = read(model_type="glm4_moe", attention_bias=True, use_qk_norm=True).layer_groups[0].layers[0].attention
    assert (glm.bias, glm.output_bias, glm.qk_norm) == (True, False, "head")


def test_multi_token_prediction_is_left_out_with_a_note() -> None:
    model = load_architecture(str(HF / "deepseek-v3.json"))
    assert model.n_mtp_layers == 0
    assert any("num_nextn_predict_layers 1" in note for note in model.notes)


@pytest.mark.parametrize(
    ("path", "name"), [("meta-llama/Llama-2-7b-hf", "Llama-2-7b-hf"), ("/x/y/", "y"), ("", "model"), ("/", "model")]
)
def test_a_config_may_name_its_model(path: str, name: str) -> None:
    assert read(_name_or_path=path).name == name


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_type", UNSUPPORTED)
def test_families_that_cannot_be_planned_are_refused_by_kind_of_layer(model_type: str) -> None:
    assert UNSUPPORTED[model_type] in refusal(model_type=model_type)


@pytest.mark.parametrize("key", TELLING_KEYS)
def test_telling_keys_refuse_any_family(key: str) -> None:
    assert TELLING_KEYS[key] in refusal(**{key: [0]})
    assert read(**{key: None}).n_layers == 32


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"layer_types": ["linear_attention"] * 32}, "Gated DeltaNet"),
        ({"layer_types": ["mystery"] * 32}, "layers of kind 'mystery'"),
        ({"layer_types": ["full_attention"]}, "1 entries for 32 layers"),
        ({"num_attention_heads": 6, "num_key_value_heads": 4}, "4 does not divide num_attention_heads 6"),
        ({"hidden_size": 4, "num_attention_heads": 8}, "8 heads in a hidden_size of 4 have no width"),
        ({"num_experts": 8}, "no experts, but the configuration has 8"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "9 of only 8 experts"),
        ({"model_type": "deepseek_v3", "attention_bias": True}, "biases in latent attention"),
        ({"model_type": "deepseek_v2"}, "missing key 'num_experts_per_tok'"),
        ({"hidden_size": None}, "missing key 'hidden_size'"),
        ({"model_type": "gptj", "num_attention_heads": 16}, "by its sizes it has multi-head attention (16 heads)"),
        (
            {"model_type": "zzz", "n_routed_experts": 64},
            "a mixture of 64 experts; if that is all, write the model inline",
        ),
        ({"model_type": None}, "missing key 'model_type'"),
        ({"model_type": 7}, "expected text"),
        ({"text_config": 7}, "expected the configuration"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"vocab_size": True}, "vocab_size"),
        ({"hidden_size": 4096.5}, "hidden_size"),
    ],
)
def test_what_does_not_agree_is_refused(keys: dict[str, Any], message: str) -> None:
    assert message in refusal(**keys)


def test_faults_are_found_together_and_placed() -> None:
    text = """{
  "model_type": "mixtral",
  "num_attention_heads": 6,
  "num_key_value_heads": 4,
  "num_experts_per_tok": 9
}"""
    with pytest.raises(InputError) as caught:
        read_architecture(parse_json(text, "config.json"))
    places = [(d.mark.line, d.mark.column) for d in caught.value.diagnostics if d.mark]
    assert [line for line, _ in places] == [4, 5]


def test_what_looks_like_a_config() -> None:
    assert recognises(Document({"architectures": ["X"]}, "x"))
    assert not recognises(Document({"layer_groups": []}, "x"))
    assert not recognises(Document([], "x"))


def test_other_names_belong_to_families() -> None:
    assert set(SAME_AS.values()) <= set(FAMILIES)
    assert not set(FAMILIES) & set(UNSUPPORTED)


# --- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "groups"),
    [
        pytest.param("aaaa", [(4, "a")], id="uniform"),
        pytest.param("abbb", [(1, "a"), (3, "b")], id="dense-first"),
        pytest.param("ababab", [(3, "ab")], id="pairs"),
        pytest.param("aabaabaa", [(2, "aab"), (1, "aa")], id="remainder"),
        pytest.param("cababab", [(1, "c"), (3, "ab")], id="prefix-and-blocks"),
        pytest.param("abcdea", [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (1, "e"), (1, "a")], id="no-pattern"),
    ],
)
def test_blocks_are_found(letters: str, groups: list[tuple[int, str]]) -> None:
    found = layer_groups([{"kind": letter} for letter in letters])
    assert [(g["count"], "".join(x["kind"] * x["count"] for x in g["layers"])) for g in found] == groups


@given(st.text("ab", min_size=1, max_size=24))
def test_groups_write_out_to_the_layers_they_are_made_of(letters: str) -> None:
    groups = layer_groups([{"kind": letter} for letter in letters])
    written = "".join("".join(x["kind"] * x["count"] for x in g["layers"]) * g["count"] for g in groups)
    assert written == letters


# --- fuzz ------------------------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-10, 10**12) | st.floats() | st.text(max_size=8)
junk = st.recursive(
    scalars, lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(max_size=5), x, max_size=3), max_leaves=5
)
keys = st.sampled_from(
    sorted({*HuggingFaceConfig.model_fields, "text_config", "model_type", "architectures", "_name_or_path"})
)


@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(keys, junk | st.integers(1, 64), max_size=8))
def test_any_config_gives_a_model_or_a_diagnosis(model_type: str, given_keys: dict[str, Any]) -> None:
    try:
        model = read_architecture(Document({"model_type": model_type, **given_keys}, "config.json"))
    except InputError as error:
        assert error.diagnostics
    else:
        assert total_parameters(model) > 0


@given(junk)
def test_any_json_gives_a_model_or_a_diagnosis(value: Any) -> None:
    try:
        read_architecture(Document(value, "config.json"))
    except InputError as error:
        assert error.diagnostics


@given(st.sampled_from(sorted(PUBLISHED)), st.data())
def test_a_real_config_with_one_key_spoilt_gives_a_model_or_a_diagnosis(name: str, data: st.DataObject) -> None:
    config = json.loads((HF / f"{name}.json").read_text())
    config[data.draw(st.sampled_from(sorted(config)))] = data.draw(junk)
    try:
        read_architecture(Document(config, "config.json"))
    except InputError as error:
        assert error.diagnostics


@pytest.mark.parametrize("model_type", ["gptj", "qwen", "deepseek", "zzz"])
def test_an_unknown_family_is_never_called_another_one(model_type: str) -> None:
    assert "did you mean" not in refusal(model_type=model_type)


@pytest.mark.parametrize(
    "keys",
    [{"layer_types": ["attention", "attention"]}, {"attn_type_list": [1, 1]}, {"layer_types": ["full_attention"]}],
)
def test_layers_that_are_all_softmax_are_not_called_anything_else(keys: dict[str, Any]) -> None:
    said = refusal(model_type="granitemoehybrid", **keys)
    assert "Mamba" not in said
    assert "linear attention" not in said


@pytest.mark.parametrize("keys", [{"layer_types": ["attention", "mamba"]}, {"layer_types": []}, {}])
def test_a_hybrid_family_with_other_layers_is_refused_by_their_kind(keys: dict[str, Any]) -> None:
    assert "Mamba" in refusal(model_type="granitemoehybrid", **keys)
