"""The verdict under a release, under the newest that takes a launch, and what a mend does about names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from shardplan.errors import InputError
from shardplan.launch.gate import check_command, check_lines
from shardplan.launch.verdict import accepted_by, verdict_on
from shardplan.loaders.load import load_record
from shardplan.maxtext.releases import releases

if TYPE_CHECKING:
    from pathlib import Path

    from shardplan.plan import CheckOut

FLAGS = {"model_name": "llama3.1-8b", "per_device_batch_size": 1, "remat_policy": "full", "max_target_length": 4096}
OLD = "python3 -m MaxText.train MaxText/configs/base.yml"


def of(flags: dict[str, Any], maxtext: str | None = None) -> CheckOut:
    return verdict_on("x", partial(load_record, {"id": "x", "topology": "tpu7x-16", "flags": FLAGS | flags}), maxtext)


def test_names_alone_make_it_invalid_and_it_is_priced_all_the_same() -> None:
    drifted, plain = of({"fsdp_shard_on_exp": False}), of({})
    assert drifted.verdict == "invalid"
    assert [problem.code for problem in drifted.problems] == ["SP010"]
    assert drifted.choice is not None
    assert plain.choice is not None
    assert drifted.choice.memory == plain.choice.memory
    assert drifted.releases_accepting[0] == "98a3d4c"
    assert drifted.release == plain.release == "0.2.5"


def test_what_is_wrong_besides_keeps_it_from_being_priced() -> None:
    assert of({"fsdp_shard_on_exp": False, "ici_fsdp_parallelism": 3}).choice is None


def test_auto_is_the_newest_release_that_takes_it() -> None:
    found = of({"fsdp_shard_on_exp": False}, "auto")
    assert (found.release, found.verdict) == ("98a3d4c", "fits")
    assert found.releases_accepting[-1] == "3eb77db"
    assert of({}, "auto").release == "0.2.5"


def test_auto_where_none_takes_it_is_the_release_that_minds_least() -> None:
    found = of({"ici_fsdp_parallelism": 3, "fsdp_shard_on_exp": False}, "auto")
    assert (found.verdict, found.releases_accepting) == ("invalid", ())
    assert found.release == "98a3d4c"
    assert of({"no_such_key": 1}, "auto").releases_accepting == ("maxtext-tutorial-v1.3.0",)


def test_auto_of_what_no_release_can_read_is_an_error() -> None:
    with pytest.raises(InputError):
        accepted_by(partial(load_record, {"id": "x", "flags": FLAGS}))


def test_the_compiler_has_confirmed_only_recent_releases() -> None:
    old, new = of({}, "tpu-recipes-v0.1.4"), of({}, "0.2.1")
    assert old.choice is not None
    assert new.choice is not None
    assert old.choice.memory.error_band > new.choice.memory.error_band + 0.04
    assert old.choice.memory.total_bytes == new.choice.memory.total_bytes
    assert any("has not confirmed memory" in note for note in old.notes)
    assert not any("has not confirmed memory" in note for note in new.notes)
    assert of({}, "0.2.4").choice.memory.error_band == of({}).choice.memory.error_band  # type: ignore[union-attr]


def test_the_nearest_release_is_said() -> None:
    found = of({}, "2026-04-10")
    assert found.release == "c73595a"
    assert any("nearest release" in note for note in found.notes)


def test_a_plan_carries_the_release_its_flags_are_for() -> None:
    found = of({}, "0.2.3")
    assert found.choice is not None
    assert found.choice.maxtext_release == "0.2.3"


def test_lines_are_judged_under_the_release_they_name_and_placed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = '{"id": "a", "topology": "tpu7x-16", "flags": {"model_name": "llama2-7b", "fsdp_shard_on_exp": true}%s}\n'
    path.write_text(row % "" + row % ', "maxtext": "98a3d4c"')
    first, second = check_lines(str(path)).results
    assert [problem.place for problem in first.problems] == [f"{path}:1"]
    assert (first.verdict, second.release) == ("invalid", "98a3d4c")
    assert second.verdict != "invalid"
    assert {result.verdict for result in check_lines(str(path), maxtext="98a3d4c").results} == {second.verdict}


def test_a_mend_renames_by_the_history_and_starts_the_release_that_is_asked_for() -> None:
    words = [f"{OLD} model_name=llama3.1-8b per_device_batch_size=1 max_target_length=4096 model_fsdp_ag_once=false"]
    (result,) = check_command(words, "tpu7x-16", 1, fix=True).results
    assert result.patch is not None
    assert "pipeline_fsdp_ag_once=false" in result.patch.command
    assert "-m maxtext.trainers.pre_train.train" in result.patch.command
    assert "MaxText.train " not in result.patch.command
    again = check_command([result.patch.command], "tpu7x-16", 1).results[0]
    assert again.verdict == "fits"


def test_every_release_has_a_verdict() -> None:
    for release in releases():
        assert of({"model_name": "default", "max_target_length": 2048}, release.name).release == release.name
