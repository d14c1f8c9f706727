"""Flags in the words of other releases: what each knows, what is lost, and that it reads back as the same plan."""

from __future__ import annotations

import pytest

from shardplan.errors import InputError
from shardplan.exporters import maxtext
from shardplan.exporters.maxtext.release import in_words_of
from shardplan.loaders.load import load_record, parse_case
from shardplan.maxtext.releases import release_of, releases
from shardplan.maxtext.tables import table
from shardplan.source import parse_yaml
from shardplan.spec import Case, Split

BASE = {"model_name": "mixtral-8x7b", "per_device_batch_size": 2}


def said(release: str, **flags: maxtext.Value) -> tuple[dict[str, maxtext.Value], dict[str, maxtext.Value]]:
    found, lost = in_words_of(release_of(release).release, {**BASE, **flags})
    return {key: value for key, value in found.items() if key not in BASE}, lost


def test_a_key_is_called_what_the_release_calls_it() -> None:
    assert said("98a3d4c", shard_exp_on_fsdp=True) == ({"fsdp_shard_on_exp": True}, {})
    assert said("0.2.0", shard_exp_on_fsdp=True) == ({"shard_exp_on_fsdp": True}, {})
    assert said("76bd53b", model_name="default", quantization="int8") == ({"int8_training": True}, {})
    assert said("tpu-recipes-v0.1.4", remat_policy="minimal_with_context")[0] == {"remat_policy": "minimal_flash"}


def test_one_old_key_says_what_several_do_if_they_agree() -> None:
    assert said("0.2.1", moe_mlpwo="device") == ({"mlpwo": "device"}, {})
    assert said("0.2.1", mlpwo="device", moe_mlpwo="device") == ({"mlpwo": "device"}, {})
    assert said("0.2.1", mlpwo="offload", moe_mlpwo="device") == ({"mlpwo": "offload"}, {"moe_mlpwo": "device"})
    assert said("0.2.2", mlpwo="offload", moe_mlpwo="device")[1] == {}


def test_what_a_release_does_anyway_is_left_out_and_what_it_cannot_do_is_lost() -> None:
    assert said("tpu-recipes-v0.1.4", num_vocab_tiling=1, kv_proj="device") == ({}, {"kv_proj": "device"})
    assert said("tpu-recipes-v0.1.4", num_vocab_tiling=8) == ({}, {"num_vocab_tiling": 8})
    assert said("261a8be", mu_dtype="float32", weight_dtype="float32")[1] == {}
    assert said("261a8be", mu_dtype="bfloat16", weight_dtype="float32")[1] == {"mu_dtype": "bfloat16"}


def test_a_model_that_came_later_cannot_be_exported() -> None:
    with pytest.raises(InputError, match=r"came with 0\.1\.0"):
        in_words_of(release_of("tpu-recipes-v0.1.4").release, {"model_name": "gpt-oss-20b"})


def case(model: str, release: str) -> Case:
    text = (
        f"model: {model}\nworkload: {{sequence_length: 4096, global_batch: 32}}\ncluster: {{accelerator: tpu7x-16}}\n"
    )
    return parse_case(parse_yaml(text, "case.yaml"), maxtext=release)


@pytest.mark.parametrize("release", [r.name for r in releases() if r.has("tpu-recipes-v0.1.0")])
@pytest.mark.parametrize("policy", ["full", "minimal_with_context", "save_qkv_proj"])
def test_what_is_exported_for_a_release_is_legal_there_and_the_same_plan(release: str, policy: str) -> None:
    of = case("llama3.1-8b", release)
    split = Split(ici={"fsdp": 8, "tensor": 2}, per_device_batch=2, remat_policy=policy)
    flags, lost = maxtext.flags_and_lost(of, split)
    assert flags.keys() <= table(release).keys.keys()
    assert lost == {}
    read = load_record({"id": "x", "topology": "tpu7x-16", "flags": flags, "maxtext": release})
    assert read.drift == ()
    assert (read.split.ici, read.split.remat_policy) == (split.ici, policy)
    assert read.case.runtime.maxtext == (None if release == releases()[-1].name else release)


@pytest.mark.parametrize(
    ("release", "module", "is_told"),
    [("0.2.5", "maxtext.trainers.pre_train.train", False), ("0.2.0", "maxtext.trainers.pre_train.train", True),
     ("0.1.0", "MaxText.train", True)],
)  # fmt: skip
def test_a_release_is_started_by_its_own_trainer(release: str, module: str, is_told: bool) -> None:  # noqa: FBT001
    assert maxtext.launcher(release)[2] == module
    assert ("MaxText/configs/base.yml" in maxtext.launcher(release)) == is_told


def test_a_release_that_refuses_what_the_model_says_again_is_told_to_override() -> None:
    split = Split(ici={"fsdp": 16}, per_device_batch=2)
    of = case("gpt3-6b", "0.2.2").model_copy(update={"name": "gpt3"})
    flags = maxtext.flags(of, split)
    assert table("0.2.2").models["gpt3-6b"].keys() & flags.keys()
    assert flags["override_model_config"] is True
