from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from places import DATA

from shardplan.data import model_configs_folder
from shardplan.errors import InputError, Mark
from shardplan.loaders.presets import architecture_names, load_architecture
from shardplan.spec import Architecture

if TYPE_CHECKING:
    from pathlib import Path

HF = DATA / "hf"
INLINE = """\
model_width: 64
vocab_size: 128
layer_groups:
  - count: 2
    attention: {n_query_heads: 4, n_key_value_heads: 2, head_width: 16}
    feed_forward: {width: 256}
"""


@pytest.mark.parametrize("name", architecture_names())
def test_a_preset_is_named_after_its_file_and_says_where_it_is_from(name: str) -> None:
    assert load_architecture(name).name == name
    first, *rest = (model_configs_folder() / f"{name}.yaml").read_text().splitlines()
    assert first.startswith("# ")
    assert "Source: " in first
    assert not any(line.startswith("#") for line in rest)


def test_names_ignore_case() -> None:
    assert load_architecture("LLAMA3.1-70B") == load_architecture("llama3.1-70b")


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        pytest.param("gemma2-9b", [(21, [(1, 4096), (1, None)])], id="local-global-pairs"),
        pytest.param("gemma3-27b", [(10, [(5, 1024), (1, None)]), (1, [(2, 1024)])], id="five-local-one-global"),
        pytest.param("gpt-oss-120b", [(18, [(1, 128), (1, None)])], id="alternating"),
        pytest.param("olmo3-32b", [(16, [(3, 4096), (1, None)])], id="three-local-one-global"),
        pytest.param("llama4-17b-16e", [(12, [(3, 8192), (1, None)])], id="chunked"),
        pytest.param("deepseek3-671b", [(3, [(1, None)]), (58, [(1, None)])], id="dense-first"),
    ],
)
def test_blocks_repeat_as_maxtext_scans_them(name: str, blocks: list[tuple[int, list[tuple[int, int | None]]]]) -> None:
    groups = load_architecture(name).layer_groups
    assert [(g.count, [(x.count, x.attention.window) for x in g.layers]) for g in groups] == blocks


def test_maverick_interleaves_dense_layers_and_experts() -> None:
    (group,) = load_architecture("llama4-17b-128e").layer_groups
    assert [x.feed_forward.kind for x in group.layers] == ["dense", "moe", "dense", "moe"]
    assert [x.feed_forward.width for x in group.layers] == [16384, 8192, 16384, 8192]
    assert [x.attention.window_kind for x in group.layers[:3]] == ["chunked"] * 3


def test_variants_with_axis_rules_of_their_own_go_by_the_plain_name_in_maxtext() -> None:
    assert load_architecture("deepseek3-671b-2dfsdp").maxtext_model_name == "deepseek3-671b"


def test_an_unknown_name_is_refused_with_a_suggestion_and_the_command_that_lists_them() -> None:
    mark = Mark("case.yaml", 1, 8)
    with pytest.raises(InputError) as caught:
        load_architecture("lama3.1-70b", mark)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.mark == mark
    assert diagnostic.hint is not None
    assert "'llama3.1-70b'" in diagnostic.hint
    assert "shardplan models" in diagnostic.hint


def test_a_name_like_no_other_still_says_where_the_list_is() -> None:
    with pytest.raises(InputError, match="shardplan models"):
        load_architecture("zzzzzz")


def test_a_path_is_relative_to_the_folder_of_the_case(tmp_path: Path) -> None:
    (tmp_path / "my-model.yaml").write_text(INLINE)
    model = load_architecture("my-model.yaml", folder=tmp_path)
    assert (model.name, model.n_layers) == ("my-model", 2)
    with pytest.raises(InputError, match="no such file"):
        load_architecture("other/my-model.yaml", folder=tmp_path)


def test_a_file_may_name_its_model(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(f"name: mine\n{INLINE}")
    assert load_architecture("./file.yaml", folder=tmp_path).name == "mine"


def test_a_folder_stands_for_its_config_json(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    (folder / "config.json").write_text((HF / "llama-3.1-8b.json").read_text())
    model = load_architecture("./Llama-3.1-8B", folder=tmp_path)
    assert model.name == "Llama-3.1-8B"
    preset = load_architecture("llama3.1-8b")
    same = {"name": model.name, "notes": model.notes, "maxtext_keys": (("rope_type", "llama3.1"),)}
    assert model == preset.model_copy(update=same)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        load_architecture("./", folder=tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "42", "just text", "a: b", "model_type: 3", "decoder_block: []", "{text_config: 5, model_type: llama}"],
)
def test_what_is_no_model_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError):
        load_architecture("x.yaml", folder=tmp_path)


def test_sizes_beyond_any_machine_are_refused() -> None:
    huge = {
        "model_width": 10**9,
        "vocab_size": 10**9,
        "layer_groups": [
            {"count": 10**9, "attention": {"n_query_heads": 1, "n_key_value_heads": 1, "head_width": 1},
             "feed_forward": {"width": 10**9}}
        ],
    }  # fmt: skip
    with pytest.raises(ValueError, match="beyond planning"):
        Architecture.model_validate(huge)
