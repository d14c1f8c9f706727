"""One launch under several releases: names, defaults, strictness, checks, entry points, configuration files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import load_command, load_record, parse_case
from shardplan.source import parse_yaml

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags import Launch

OLD = "python3 -m MaxText.train MaxText/configs/base.yml"
NEW = "python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml"
MIXTURE = "model_name=deepseek3-671b per_device_batch_size=1 max_target_length=4096 remat_policy=full"


def launch(start: str, flags: str, release: str, accelerator: str = "tpu7x-512") -> Launch:
    return load_command([f"{start} {flags}"], accelerator=accelerator, maxtext=release)


def said(found: Launch) -> str:
    return " | ".join(map(str, found.drift))


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_renamed_key_is_refused_by_name_and_priced_as_what_it_is_now() -> None:
    flags = f"{MIXTURE} fsdp_shard_on_exp=true"
    old, new = launch(OLD, flags, "98a3d4c"), launch(NEW, flags, "0.2.5")
    assert not old.drift
    assert "known until 98a3d4c (2026-01-02), now shard_exp_on_fsdp" in said(new)
    assert any("shard_exp_on_fsdp=true" in note for note in new.notes)
    assert new.split == old.split


def test_a_key_that_came_later_is_not_there_yet_and_its_old_name_is_the_hint() -> None:
    found = launch(OLD, f"{MIXTURE} shard_exp_on_fsdp=true", "98a3d4c")
    assert "has no key 'shard_exp_on_fsdp' yet: known since bf174d6" in said(found)
    assert "this release calls it fsdp_shard_on_exp" in said(found)
    assert "known since 0.2.4" in said(launch(NEW, f"{MIXTURE} kv_proj=device", "0.2.1"))


def test_a_key_that_went_for_good_says_what_to_do() -> None:
    assert "leave out" in said(launch(NEW, f"{MIXTURE} enable_nnx=true", "0.2.5"))
    assert "quantization=int8 for true" in said(launch(NEW, "int8_training=true model_name=llama2-7b", "0.2.5"))


def test_a_word_that_never_was_a_key_is_left_out_of_the_estimate() -> None:
    found = launch(NEW, f"{MIXTURE} output_dir=gs://x", "a0fceb5")
    assert [d.message for d in found.drift] == ["MaxText a0fceb5 (2026-03-06) has no key 'output_dir'"]


def test_one_old_key_may_stand_for_several() -> None:
    old = launch("python3 MaxText/train.py MaxText/configs/base.yml", "base_num_heads=16", "76bd53b", "v4-128")
    attention = old.case.architecture.layer_groups[0].layers[0].attention
    assert (attention.n_query_heads, attention.n_key_value_heads) == (16, 16)


def test_products_of_experts_had_the_names_of_dense_ones() -> None:
    flags = "model_name=mixtral-8x7b per_device_batch_size=1 remat_policy=custom mlpwi_0=offload"
    assert launch(NEW, flags, "0.2.1").split.remat_tensors == {"mlpwi_0": "offload", "moe_mlpwi_0": "offload"}
    assert launch(NEW, flags, "0.2.2").split.remat_tensors == {"mlpwi_0": "offload"}
    named = launch(NEW, "model_name=mixtral-8x7b remat_policy=minimal", "0.2.1")
    assert named.split.remat_policy == "custom"
    assert named.split.remat_tensors["moe_mlpwo"] == "device"
    assert launch(NEW, "model_name=mixtral-8x7b remat_policy=minimal", "0.2.2").split.remat_policy == "minimal"
    assert launch(NEW, "model_name=llama2-7b remat_policy=minimal", "0.2.1").split.remat_policy == "minimal"


# --- strictness ------------------------------------------------------------------------------------------------------


def test_one_release_ignores_what_it_does_not_know() -> None:
    found = launch(OLD, f"{MIXTURE} output_dir=gs://x", "maxtext-tutorial-v1.3.0")
    assert not found.drift
    assert any("output_dir" in note and "ignores" in note for note in found.notes)


@pytest.mark.parametrize(
    ("release", "value", "is_legal"),
    [
        ("maxtext-tutorial-v1.2.0", 32000, False),
        ("maxtext-tutorial-v1.4.0", 4096, True),
        ("0.2.2", 32000, False),
        ("0.2.3", 32000, True),
        ("0.2.3", 4096, False),
    ],
)
def test_a_key_that_the_model_sets_too(release: str, value: int, is_legal: bool) -> None:  # noqa: FBT001 - a column
    start = OLD if release.startswith("maxtext-tutorial") else NEW
    flags = f"model_name=llama2-7b vocab_size={value}"
    if is_legal:
        assert launch(start, flags, release).case.architecture.vocab_size == value
        return
    with pytest.raises(InvalidShardingError, match="vocab_size"):
        launch(start, flags, release)


def test_an_unknown_variable_counts_only_where_it_is_read() -> None:
    line = "M_NO_SUCH_KEY=1 {} model_name=llama2-7b"
    assert not load_command([line.format(NEW)], accelerator="tpu7x-16").drift
    old = load_command([line.format(OLD)], accelerator="tpu7x-16", maxtext="0.1.0")
    assert "no_such_key" in said(old)


# --- defaults and checks ---------------------------------------------------------------------------------------------


def test_the_default_model_of_2023_is_another_one() -> None:
    start = "python3 MaxText/train.py MaxText/configs/base.yml"
    old, new = launch(start, "steps=2", "76bd53b", "v4-128"), launch(start, "steps=2", "jetstream-v0.2.0", "v4-128")
    assert old.case.architecture.model_width == 2560
    assert new.case.architecture.model_width == 2048
    assert old.case.architecture.tied_embeddings


def test_checks_hold_from_their_release_on() -> None:
    flags = f"{MIXTURE} use_random_routing=true"
    assert launch(NEW, flags, "0.2.3").split
    with pytest.raises(InvalidShardingError, match="use_random_routing"):
        launch(NEW, flags, "0.2.4")


def test_checks_that_were_dropped_hold_until_then() -> None:
    flags = "model_name=mixtral-8x7b ici_fsdp_parallelism=4 ici_expert_parallelism=2 ici_tensor_parallelism=2"
    with pytest.raises(InvalidShardingError, match="fsdp, expert and tensor"):
        launch(OLD, flags, "0.1.0", "tpu7x-16")
    assert launch(OLD, flags, "maxtext-tutorial-v1.4.0", "tpu7x-16").split


@pytest.mark.parametrize(("strategy", "is_legal"), [("ring", False), ("ulysses", True), ("all_gather", True)])
def test_only_ring_was_refused_on_tpus_and_nothing_else_had_an_effect(strategy: str, is_legal: bool) -> None:  # noqa: FBT001
    flags = f"model_name=llama3.1-8b ici_context_parallelism=4 context_parallel_strategy={strategy}"
    if not is_legal:
        with pytest.raises(InvalidShardingError, match="ring on TPUs"):
            launch(NEW, flags, "0.2.3", "tpu7x-16")
        return
    assert launch(NEW, flags, "0.2.3", "tpu7x-16").case.runtime.context_strategy == "all_gather"


# --- starts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "first", "last"),
    [
        ("python3 MaxText/train.py MaxText/configs/base.yml", "76bd53b", "0.2.1"),
        ("python3 /deps/src/MaxText/train.py src/MaxText/configs/base.yml", "76bd53b", "0.2.1"),
        ("python -m MaxText.train_compile MaxText/configs/base.yml", "tpu-recipes-v0.1.2", "0.2.1"),
        ("python3 -m src.maxtext.trainers.pre_train.train base.yml", "bf174d6", None),
        ("python3 src/maxtext/trainers/pre_train/train.py base.yml", "bf174d6", None),
    ],
)
def test_entry_points_of_every_release_are_recognised(start: str, first: str, last: str | None) -> None:
    assert not launch(start, "steps=2", first, "v5p-16").drift
    if last:
        assert not launch(start, "steps=2", last, "v5p-16").drift
        assert "no longer has MaxText.train" in said(launch(start, "steps=2", "0.2.2", "v5p-16"))
    else:
        assert "does not have maxtext.trainers.pre_train.train yet" in said(
            launch(start, "steps=2", "98a3d4c", "v5p-16")
        )


def test_a_path_that_tells_no_release_is_taken_for_any() -> None:
    assert not launch("python3 train.py base.yml", "steps=2", "0.2.5", "v5p-16").drift


def test_older_releases_must_be_told_their_configuration() -> None:
    start = "python3 -m maxtext.trainers.pre_train.train"
    assert "needs a configuration file" in said(launch(start, "steps=2", "a0fceb5", "v5p-16"))
    assert not launch(start, "steps=2", "cf051eb", "v5p-16").drift


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("maxtext.trainers.post_train.sft.train_sft", "Tunix"),
        ("maxtext.trainers.post_train.sft.train_sft_native", "supervised fine-tuning is judged as training"),
    ],
)
def test_supervised_fine_tuning_is_judged_as_training(module: str, words: str) -> None:
    found = launch(
        f"python3 -m {module} src/maxtext/configs/post_train/sft.yml", "model_name=llama3.1-8b", "0.2.5", "v5p-16"
    )
    assert any(words in note for note in found.notes)
    assert found.case.workload.sequence_length == 2048


@pytest.mark.parametrize(
    ("module", "lacks"),
    [("dpo.train_dpo", "reference model"), ("rl.train_rl", "rollouts"), ("distillation.train_distill", "teacher")],
)
def test_other_post_training_says_what_is_missing(module: str, lacks: str) -> None:
    with pytest.raises(InputError, match=lacks):
        launch(f"python3 -m maxtext.trainers.post_train.{module}", "model_name=llama3.1-8b", "0.2.5", "v5p-16")


def test_the_rl_trainer_knows_keys_of_its_own_and_still_not_every_key() -> None:
    start = "python3 -m maxtext.trainers.post_train.rl.train_rl"
    with pytest.raises(InputError, match="rollouts"):
        launch(start, "model_name=llama3.1-8b num_batches=4 rl.num_generations=8", "0.2.4", "v5p-16")
    with pytest.raises(InvalidShardingError, match=r"debug\.rl"):
        launch(start, "model_name=llama3.1-8b debug.rl=true", "0.2.4", "v5p-16")
    assert "since then only the RL trainer knows it" in said(
        launch(NEW, "model_name=llama3.1-8b num_batches=4", "0.2.4", "v5p-16")
    )


def test_keys_of_diloco_are_keys_and_say_what_is_missing() -> None:
    with pytest.raises(InputError, match="outer optimizer"):
        launch(NEW, "model_name=llama3.1-8b enable_diloco=true", "0.2.4", "v5p-16")


def test_nested_keys_are_keys() -> None:
    assert not launch(NEW, "model_name=llama3.1-8b lora.lora_rank=16 dpo.dpo_beta=0.1", "0.2.5", "v5p-16").drift
    with pytest.raises(InputError, match="frozen weights"):
        launch(NEW, "model_name=llama3.1-8b lora.enable_lora=true", "0.2.5", "v5p-16")


# --- records and cases -----------------------------------------------------------------------------------------------


def test_a_record_may_name_its_release() -> None:
    record = {"id": "a", "topology": "tpu7x-16", "flags": {"model_name": "mixtral-8x7b", "moe_mlpwo": "device"}}
    assert not load_record(record).drift
    assert load_record(record | {"maxtext": "0.2.1"}).release == "0.2.1"
    assert "moe_mlpwo" in said(load_record(record | {"maxtext": "0.2.1"}))
    assert not load_record(record | {"maxtext": "0.2.1"}, "0.2.5").drift
    with pytest.raises(InputError, match="maxtext"):
        load_record(record | {"maxtext": 5})


CASE = "model: {}\nworkload: {{sequence_length: 4096, global_batch: 32}}\ncluster: {{accelerator: tpu7x-16}}\nruntime: {{{}}}\n"


def test_a_case_names_its_release_and_the_option_goes_first() -> None:
    document = parse_yaml(CASE.format("llama3.1-8b", "maxtext: 0.2.1"), "case.yaml")
    assert parse_case(document).runtime.maxtext == "0.2.1"
    assert parse_case(document, maxtext="0.2.3").runtime.maxtext == "0.2.3"


@pytest.mark.parametrize(
    ("model", "runtime", "words"),
    [
        ("llama3.1-8b", "maxtext: banana", "not a release"),
        ("gpt-oss-20b", "maxtext: tpu-recipes-v0.1.4", "came with 0.1.0"),
        ("llama3.1-8b", "maxtext: 0.2.1, context_strategy: ring", "no context_strategy ring"),
    ],
)
def test_what_a_release_does_not_have_is_placed_in_the_case(model: str, runtime: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_case(parse_yaml(CASE.format(model, runtime), "case.yaml"))
    assert str(caught.value.diagnostics[0].mark).startswith("case.yaml:4")


def test_a_case_does_not_tell_its_release() -> None:
    with pytest.raises(InputError, match="auto"):
        parse_case(parse_yaml(CASE.format("llama3.1-8b", ""), "case.yaml"), maxtext="auto")


def test_the_kernel_of_a_case_is_one_its_release_has() -> None:
    document = parse_yaml(CASE.format("llama3.1-8b", ""), "case.yaml")
    assert parse_case(document).runtime.tokamax_splash
    assert not parse_case(document, maxtext="tpu-recipes-v0.1.4").runtime.tokamax_splash
