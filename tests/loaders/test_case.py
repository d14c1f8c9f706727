"""Cases as people write them: what each spelling comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shardplan import data
from shardplan.errors import InputError
from shardplan.loaders.load import load_case, parse_case
from shardplan.source import parse_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from shardplan.spec import Case

CASES = sorted((data.model_configs_folder() / "cases").glob("*.yaml"))
TEXT = """\
model: llama3.1-8b
workload:
  sequence_length: 4096
  global_batch: 64
cluster:
  chip: tpu7x
  topology: 2x2x2
"""


def read(text: str) -> Case:
    return parse_case(parse_yaml(text, "my-case.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_every_shipped_case_loads_and_says_what_it_shows(path: Path) -> None:
    case = load_case(path)
    assert case.name == path.stem
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_the_shipped_cases_cover_the_families() -> None:
    cases = {path.stem: load_case(path) for path in CASES}
    assert {"llama3.1-8b", "llama3.1-70b-8k", "llama3.1-70b-128k", "llama3.1-405b", "mixtral-8x7b"} <= cases.keys()
    assert {"qwen3-235b-a22b", "deepseek3-671b", "gpt-oss-120b"} <= cases.keys()
    assert cases["deepseek3-671b-9216-chips"].cluster.chips == 9216
    assert cases["llama3.1-70b-4-slices-v6e"].cluster.slices == 4
    assert cases["llama3.1-70b-8k"].cluster.chips == 64
    assert cases["llama3.1-70b-8k"].workload.global_batch == 256
    assert cases["llama3.1-70b-128k"].cluster.chips == 256
    assert cases["llama3.1-70b-128k"].workload.global_batch == 64


@pytest.mark.parametrize(
    ("cluster", "chips", "devices"),
    [
        ("chip: tpu7x\n  topology: 4x4x8", 128, 256),
        ("chip: tpu7x\n  chips: 128", 128, 256),
        ("accelerator: tpu7x-256", 128, 256),
        ("accelerator: tpu7x-4x4x8", 128, 256),
        ("chip: ironwood\n  chips: 128", 128, 256),
        ("accelerator: v5p-256", 128, 128),
        ("accelerator: v6e-256", 256, 256),
        ("chip: v5e\n  topology: 4x8", 32, 32),
    ],
)
def test_a_slice_is_a_shape_a_number_of_chips_or_the_clouds_name(cluster: str, chips: int, devices: int) -> None:
    case = read(TEXT.replace("chip: tpu7x\n  topology: 2x2x2", cluster))
    assert (case.cluster.chips, case.cluster.devices) == (chips, devices)


@pytest.mark.parametrize(
    ("batch", "sequences"),
    [("global_batch: 64", 64), ("global_batch_tokens: 262144", 64), ("global_batch_tokens: 256Ki", 64),
     ("global_batch_tokens: 2.62144e5", 64), ("per_device_batch: 4", None), ("per_device_batch: auto", None)],
)  # fmt: skip
def test_a_batch_is_sequences_tokens_or_per_device(batch: str, sequences: int | None) -> None:
    assert read(TEXT.replace("global_batch: 64", batch)).workload.global_sequences == sequences


def test_counts_of_tokens_may_have_letters() -> None:
    case = read(TEXT.replace("  global_batch: 64\n", "  global_batch: 64\n  training_tokens: 15T\n"))
    assert case.workload.training_tokens == 15 * 10**12


def test_names_default_to_the_file_and_prices_to_the_chip() -> None:
    assert read(TEXT).name == "my-case"
    assert read(TEXT + "name: run 7\n").name == "run 7"
    priced = read(TEXT.replace("topology: 2x2x2", "topology: 2x2x2\n  usd_per_chip_hour: 3.5"))
    assert priced.cluster.usd_per_chip_hour == 3.5


def test_headroom_is_a_percentage_or_a_fraction() -> None:
    for written in ("5%", "0.05"):
        found = read(TEXT + f"constraints: {{hbm_headroom: {written}}}\n").constraints.hbm_headroom
        assert found == pytest.approx(0.05)


def test_empty_sections_are_defaults() -> None:
    assert read(TEXT + "constraints:\nruntime:\nplan:\n") == read(TEXT)


def test_a_plan_section_is_a_split() -> None:
    plan = (
        "plan:\n  ici: {fsdp: 16}\n  per_device_batch: 4\n  remat_policy: custom\n"
        "  remat_tensors: {context: device, decoder_layer_input: offload}\n"
    )
    split = read(TEXT + plan).plan
    assert split is not None
    assert split.ici == {"fsdp": 16}
    assert split.remat_tensors == {"context": "device", "decoder_layer_input": "offload"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", ('{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, '
         '"num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": false}')),
        ("model.yml", ("decoder_block: llama2\nbase_emb_dim: 4096\nbase_num_decoder_layers: 32\nbase_num_query_heads: 32\n"
         "base_num_kv_heads: 8\nbase_mlp_dim: 14336\nhead_dim: 128\nvocab_size: 128256\n")),
    ],
)  # fmt: skip
def test_a_model_may_be_a_path_beside_the_case(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "case.yaml").write_text(TEXT.replace("llama3.1-8b", f"./{name}"))
    found, preset = load_case(tmp_path / "case.yaml").architecture, read(TEXT).architecture
    assert found.layer_groups == preset.layer_groups
    assert found.vocab_size == preset.vocab_size


def test_json_cases_load_as_yaml_ones(tmp_path: Path) -> None:
    import json

    value: dict[str, Any] = parse_yaml(TEXT, "x").value
    (tmp_path / "my-case.json").write_text(json.dumps(value))
    assert load_case(tmp_path / "my-case.json") == read(TEXT)


def test_muon_is_refused_where_maxtext_has_none() -> None:
    muon = TEXT.replace("  global_batch: 64\n", "  global_batch: 64\n  optimizer: muon\n")
    assert read(muon).workload.optimizer.name == "muon"
    with pytest.raises(InputError, match="MaxText has no muon for mixtral-8x7b"):
        read(muon.replace("llama3.1-8b", "mixtral-8x7b"))


def test_learned_positions_bound_the_sequence() -> None:
    with pytest.raises(InputError, match="exceeds the 2048 learned positions of gpt3-52k"):
        read(TEXT.replace("llama3.1-8b", "gpt3-52k"))
