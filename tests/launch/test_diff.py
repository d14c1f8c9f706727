from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from shardplan import cli
from shardplan.engine.decide import check_split
from shardplan.errors import InputError
from shardplan.exporters import xpk
from shardplan.exporters.launch import Job
from shardplan.launch.diff import Planned, diff
from shardplan.launch.planned import read_planned
from shardplan.loaders.load import load_case, parse_case
from shardplan.plan import DiffOut, EffectOut
from shardplan.source import parse_yaml
from shardplan.spec import Optimizer, Runtime, Split
from shardplan.splits.enumeration import split_rows

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """model: {model}
workload: {{sequence_length: 4096, global_batch: 128, optimizer: {{name: adamw, first_moment_dtype: {moment}}}}}
cluster: {{accelerator: {accelerator}}}
constraints: {{hbm_headroom: {headroom}}}
runtime: {runtime}
"""


def planned(name: str = "old", **changes: Any) -> Planned:
    """A plan of llama3.1-8b; keys of `TEXT` change the case, all others the split."""
    keys = {
        "model": "llama3.1-8b", "accelerator": "tpu7x-32", "moment": "float32", "headroom": "0%", "runtime": "{}",
    }  # fmt: skip
    of_case = {key: changes.pop(key) for key in list(changes) if key in keys}
    case = parse_case(parse_yaml(TEXT.format(**keys | of_case), "case.yaml"))
    split = Split(**({"ici": {"fsdp": 32}, "per_device_batch": 4.0} | changes))
    return Planned(name, case.model_copy(update={"plan": split}), split)


CHANGES: dict[str, dict[str, Any]] = {
    "mesh": {"ici": {"fsdp": 16, "tensor": 2}},
    "remat": {"remat_policy": "minimal"},
    "vocabulary tiling": {"num_vocab_tiling": 4},
    "per-device batch": {"per_device_batch": 2.0},
    "per-device batch + gradient accumulation": {"per_device_batch": 2.0, "gradient_accumulation": 2},
    "mesh + microbatches": {"ici": {"fsdp": 16, "pipeline": 2}, "pipeline_microbatches": 4},
    "machine + mesh + per-device batch": {"accelerator": "tpu7x-16", "ici": {"fsdp": 16}, "per_device_batch": 8.0},
    "machine": {"accelerator": "v5p-64"},
    "model": {"model": "qwen3-8b"},
    "optimizer.first_moment_dtype": {"moment": "bfloat16"},
    "headroom": {"headroom": "10%"},
    "runtime.attention": {"runtime": "{attention: dot_product}"},
    "precision": {"runtime": "{quantization: int8}"},
}


def test_a_plan_does_not_differ_from_itself() -> None:
    result = diff(planned(), planned())
    assert result.changes == ()
    assert result.flags == ()
    assert result.total == EffectOut()
    assert result.old == result.new


@pytest.mark.parametrize("name", CHANGES)
def test_a_single_change_is_the_whole_difference(name: str) -> None:
    result = diff(planned(), planned("new", **CHANGES[name]))
    (change,) = result.changes
    assert change.change == name
    assert change.effect == result.total
    assert change.flags == result.flags
    assert change.alone == result.new.model_copy(update={"name": "old"})
    assert change.old != change.new


@pytest.mark.parametrize("name", CHANGES)
def test_the_other_way_round_is_the_opposite(name: str) -> None:
    there, back = diff(planned(), planned("new", **CHANGES[name])), diff(planned(**CHANGES[name]), planned("new"))
    assert {k: -v for k, v in back.total.model_dump().items()} == pytest.approx(there.total.model_dump())
    assert [(flag.key, flag.new, flag.old) for flag in back.flags if flag.old and flag.new] == [
        (flag.key, flag.old, flag.new) for flag in there.flags if flag.old and flag.new
    ]


def test_each_change_is_priced_as_check_prices_it() -> None:
    wanted = {"ici": {"fsdp": 16, "tensor": 2}, "remat_policy": "minimal", "moment": "bfloat16"}
    result = diff(planned(), planned("new", **wanted))
    assert [change.change for change in result.changes] == ["mesh", "remat", "optimizer.first_moment_dtype"]
    for change, (key, value) in zip(result.changes, wanted.items(), strict=True):
        alone = planned(**{key: value})
        choice = check_split(alone.case, split_rows(alone.case, alone.split), "x").choice
        assert choice is not None
        assert change.alone.memory_bytes == choice.memory.total_bytes
        assert change.alone.step_s == choice.time.estimate_s
        assert change.alone.communication_bytes == sum(c.bytes for c in choice.communication)
        assert change.effect.memory_bytes == change.alone.memory_bytes - result.old.memory_bytes
    assert {flag.key for flag in result.flags} == {flag.key for change in result.changes for flag in change.flags}


def test_a_change_that_is_wrong_on_its_own_says_why() -> None:
    result = diff(planned(), planned("new", ici={"fsdp": 2, "tensor": 16}))
    assert result.new.verdict == "invalid"
    assert [problem.code for problem in result.new.problems] == [p.code for p in result.changes[0].alone.problems]
    assert result.new.problems


def test_nothing_a_plan_holds_is_forgotten() -> None:
    from shardplan.launch.diff import _parts

    names = " ".join(_parts(planned())).replace("optimizer.", "").replace("runtime.", "")
    renamed = {
        "ici": "mesh", "dcn": "mesh", "per_device_batch": "per-device batch", "gradient_accumulation": "gradient accumulation",
        "pipeline_microbatches": "microbatches", "num_vocab_tiling": "vocabulary tiling", "remat_policy": "remat",
        "remat_tensors": "remat", "allow_split_physical_axes": "allow split axes", "quantization": "precision",
    }  # fmt: skip
    for field in (*Split.model_fields, *Runtime.model_fields, *Optimizer.model_fields):
        assert renamed.get(field, field) in names, field


# --- references -------------------------------------------------------------------------------------------------------


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(
        "model: llama3.1-8b\nworkload: {sequence_length: 4096, global_batch: 128}\ncluster: {accelerator: tpu7x-32}\n"
        "constraints: {remat: full, num_vocab_tiling: 1, gradient_accumulation: 1, max_tensor_parallelism: 1}\n"
    )
    return path


def test_every_way_to_name_a_plan_names_the_same(case: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["recommend", str(case), "--top", "2", "-o", "json"]) == 0
    printed = case.with_name("plan.json")
    printed.write_text(capfd.readouterr().out)
    choice = json.loads(printed.read_text())["plans"][1]
    record = {"id": "r", "topology": "tpu7x-32", "slices": 1, "flags": choice["maxtext_flags"]}
    one, lines = case.with_name("one.json"), case.with_name("lines.jsonl")
    one.write_text(json.dumps(record))
    lines.write_text(f"{json.dumps({**record, 'flags': {'model_name': 'nope'}})}\n\n{json.dumps(record)}\n")
    words = " \\\n ".join(f"{key}={value}" for key, value in choice["maxtext_flags"].items())
    script = case.with_name("run.sh")
    script.write_text(f"LIBTPU_INIT_ARGS='--a' python3 -m maxtext.trainers.pre_train.train {words}\n")
    for same in (
        read_planned(f"{printed}#2"),
        read_planned(str(printed), rank=2),
        read_planned(f"{case}#2"),
        read_planned(str(one)),
        read_planned(f"{lines}#2"),
        read_planned(str(script), accelerator="tpu7x-32"),
    ):
        assert same.split == read_planned(f"{printed}#2").split
        assert diff(read_planned(f"{printed}#2"), same).changes == ()


def test_an_exported_xpk_command_is_a_plan(case: Path) -> None:
    loaded, first = load_case(case), read_planned(f"{case}#1")
    choice = check_split(loaded, split_rows(loaded, first.split), "x").choice
    assert choice is not None
    script = case.with_name("run.sh")
    script.write_text(xpk.export(Job(loaded, choice)))
    assert diff(first, read_planned(str(script))).changes == ()


def test_a_case_with_a_plan_is_that_plan(case: Path) -> None:
    case.write_text(case.read_text() + "plan: {ici: {fsdp: 32}, per_device_batch: 4}\n")
    assert read_planned(str(case)).split.per_device_batch == 4
    assert read_planned(str(case)).name == "case"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("plan.json#9", None, "no plan of rank 9"),
        ("case.yaml#900", None, "no plan of rank 900"),
        ("lines.jsonl#7", '{"flags": {}}\n', "there is no line 7"),
        ("missing.yaml", None, "missing.yaml"),
        ("run.sh", "echo hello\n", "MaxText"),
        ("run.sh", "python3 -m maxtext.trainers.pre_train.train model_name=llama3.1-8b\n", "accelerator"),
    ],
)
def test_a_reference_that_leads_nowhere_says_so(
    name: str, text: str | None, message: str, case: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if name.startswith("plan"):
        assert cli.main(["recommend", str(case), "--top", "1", "-o", "json"]) == 0
        case.with_name("plan.json").write_text(capfd.readouterr().out)
    if text is not None:
        case.with_name(name.partition("#")[0]).write_text(text)
    with pytest.raises(InputError, match=message):
        read_planned(str(case.with_name(name)))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_both_sides_and_each_change(case: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new = case.with_name("old.yaml"), case.with_name("new.yaml")
    old.write_text(case.read_text() + "plan: {ici: {fsdp: 32}, per_device_batch: 4}\n")
    new.write_text(
        case.read_text() + "plan: {ici: {fsdp: 16, tensor: 2}, per_device_batch: 4, remat_policy: minimal}\n"
    )
    assert cli.main(["diff", str(old), str(new), "-o", "json"]) == 0
    result = DiffOut.model_validate_json(capfd.readouterr().out)
    assert [change.change for change in result.changes] == ["mesh", "remat"]
    assert cli.main(["diff", str(old), str(new)]) == 0
    page = capfd.readouterr().out
    assert page.startswith("old -> new: 2 changes\n")
    assert "FSDP 32" in page
    assert "all together" in page
    assert "\n-remat_policy=full\n+remat_policy=minimal\n" in page
    assert cli.main(["diff", str(old), str(old)]) == 0
    assert capfd.readouterr().out.startswith("old -> old: the same plan\n")


def test_a_launch_maxtext_would_refuse_ends_with_3(case: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = case.with_name("run.sh")
    script.write_text("python3 -m maxtext.trainers.pre_train.train model_name=llama3.1-8b ici_tensor_parallelism=3\n")
    assert cli.main(["diff", str(script), str(script), "--accelerator", "tpu7x-32"]) == 3
    assert "SP015" in capfd.readouterr().err
