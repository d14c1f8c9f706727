"""Models described elsewhere are launched by the name MaxText has for them, with what differs said or exported."""

from __future__ import annotations

from typing import Any

import pytest

from shardplan.cost.tensors.parameters import total_parameters
from shardplan.exporters.maxtext import model_flags
from shardplan.loaders.load import load_record
from shardplan.loaders.presets import load_architecture, read_architecture
from shardplan.source import Document

GEMMA2 = {
    "model_type": "gemma2", "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, "rms_norm_eps": 1e-6,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
}  # fmt: skip


def read(keys: dict[str, Any], name: str = "my-model.json") -> Any:
    return read_architecture(Document(keys, name))


def test_a_vocabulary_that_is_not_padded_is_exported_beside_the_name() -> None:
    model = read(GEMMA2)
    assert model_flags(model) == {"model_name": "gemma2-2b", "vocab_size": 256000, "override_model_config": True}
    assert model.vocab_size == 256000


@pytest.mark.parametrize("name", ["llama3-8b", "llama3.1-8b"])
def test_of_equal_models_the_one_of_the_nearest_name_is_taken(name: str) -> None:
    model = read(LLAMA, f"{name}-instruct.json")
    assert model_flags(model) == {"model_name": name}
    assert any(f"model_name={name}" in note for note in model.notes)


def test_another_rotary_base_is_exported() -> None:
    assert model_flags(read({**LLAMA, "rope_theta": 1000042}))["rope_max_timescale"] == 1_000_042
    assert model_flags(read({**LLAMA, "hidden_size": 3072, "rope_theta": 1000042}))["rope_max_timescale"] == 1_000_042


@pytest.mark.parametrize("changed", [{"hidden_size": 2048}, {"num_hidden_layers": 31}, {"intermediate_size": 14337}])
def test_a_model_of_another_structure_has_no_twin(changed: dict[str, Any]) -> None:
    assert read({**LLAMA, **changed}).maxtext_model_name is None


def test_what_stretches_the_rotary_base_is_exported_or_named() -> None:
    stretched = read({**LLAMA, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}})
    assert model_flags(stretched)["rope_type"] == "llama3.1"
    named = read({**LLAMA, "rope_scaling": {"type": "longrope"}})
    assert any("rope scaling 'longrope' is not exported" in note for note in named.notes)


@pytest.mark.parametrize("keys", [GEMMA2, LLAMA, {**LLAMA, "rope_theta": 7.0, "vocab_size": 128000}])
def test_a_launch_of_the_flags_trains_the_same_model(keys: dict[str, Any]) -> None:
    model = read(keys)
    flags = {**model_flags(model), "per_device_batch_size": 1, "max_target_length": 4096}
    launched = load_record({"id": "x", "topology": "v5p-128", "flags": flags}).case.architecture
    assert total_parameters(launched) == total_parameters(model)
    assert launched.layer_groups == model.layer_groups
    assert launched.vocab_size == model.vocab_size


@pytest.mark.parametrize("name", ["llama3.1-8b", "qwen3-30b-a3b", "gemma3-27b", "deepseek3-671b", "gpt-oss-20b"])
def test_presets_keep_their_own_name(name: str) -> None:
    assert model_flags(load_architecture(name)) == {"model_name": name}
