"""`check --fix`: broken launches, the change that mends each, and the command with it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest

from shardplan import cli
from shardplan.launch import gate
from shardplan.launch.repair.edits import Machine
from shardplan.launch.repair.patch import Attempt, as_text, patch_for, patched

if TYPE_CHECKING:
    from pathlib import Path

    from shardplan.plan import PatchOut

TRAINER = "maxtext.trainers.pre_train.train"
DENSE = {
    "model_name": "llama3.1-70b",
    "max_target_length": 8192,
    "per_device_batch_size": 2,
    "ici_fsdp_parallelism": -1,
}

BROKEN: dict[str, tuple[str, int, dict[str, Any], dict[str, Any]]] = {
    "degree that divides nothing": ("tpu7x-256", 1, {"ici_tensor_parallelism": 3}, {"ici_tensor_parallelism": 4}),
    "degrees that do not multiply to the devices": (
        "tpu7x-256", 1, {"ici_fsdp_parallelism": 128}, {"ici_fsdp_parallelism": 256},
    ),
    "degrees that do not multiply to the slices": (
        "tpu7x-256", 2, {"dcn_fsdp_parallelism": 4}, {"dcn_fsdp_parallelism": 2},
    ),
    "tensor beyond the key-value heads": (
        "tpu7x-256", 1, {"ici_fsdp_parallelism": 16, "ici_tensor_parallelism": 16},
        {"ici_fsdp_parallelism": 32, "ici_tensor_parallelism": 8},
    ),
    "a policy misspelt": ("tpu7x-256", 1, {"remat_policy": "fulll"}, {"remat_policy": "full"}),
    "a split axis without leave": (
        "v6e-256", 1, {"model_name": "llama3.1-8b", "ici_fsdp_parallelism": 64, "ici_tensor_parallelism": 4},
        {"allow_split_physical_axes": True},
    ),
    "rows that do not spread over the devices": (
        "tpu7x-256", 1, {"per_device_batch_size": 0.3}, {"per_device_batch_size": 1},
    ),
    "stages, layers and microbatches that disagree": (
        "tpu7x-256", 1,
        {"ici_fsdp_parallelism": 64, "ici_pipeline_parallelism": 4, "num_pipeline_microbatches": 6,
         "num_layers_per_pipeline_stage": 3},
        {"num_pipeline_microbatches": 8, "num_layers_per_pipeline_stage": 4},
    ),
    "tile that does not divide the sequence": ("tpu7x-256", 1, {"sa_block_q": 500}, {"sa_block_q": 512}),
    "sequence of no whole tile": (
        "v6e-64", 1, {"model_name": "llama3.1-8b", "max_target_length": 1000}, {"attention": "dot_product"},
    ),
    "values of another type": (
        "tpu7x-256", 1, {"scan_layers": "maybe", "attention": "flsh"}, {"scan_layers": None, "attention": "flash"},
    ),
    "no micro-steps": ("tpu7x-256", 1, {"gradient_accumulation_steps": 0}, {"gradient_accumulation_steps": 1}),
    "no batch": ("tpu7x-256", 1, {"per_device_batch_size": 0}, {"per_device_batch_size": 1}),
    "width the model has not": ("tpu7x-256", 1, {"base_emb_dim": 1234}, {"base_emb_dim": None}),
    "too large a batch": (
        "tpu7x-256", 1, {"per_device_batch_size": 64}, {"per_device_batch_size": 4, "gradient_accumulation_steps": 16},
    ),
    "too much kept": (
        "tpu7x-256", 1, {"per_device_batch_size": 8, "remat_policy": "minimal"},
        {"remat_policy": "custom", "decoder_layer_input": "offload"},
    ),
}  # fmt: skip
"""By what is wrong: accelerator, slices, flags over DENSE, and what the smallest change sets."""


def flags_of(name: str) -> dict[str, Any]:
    return DENSE | BROKEN[name][2]


def patch_of(name: str) -> PatchOut | None:
    accelerator, slices, _, _ = BROKEN[name]
    return patch_for(Attempt(flags_of(name), Machine(accelerator, slices)))


def applied(old: list[str], patch: tuple[str, ...]) -> list[str]:
    """The lines after a unified diff."""
    new, at = list[str](), 0
    for line in patch[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0].removeprefix("-")) - 1
            new += old[at:start]
            at = start
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            new += [line[1:]] if line.startswith(" ") else []
            at += 1
    return new + old[at:]


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_smallest_change_mends_the_launch(name: str) -> None:
    accelerator, slices, _, expected = BROKEN[name]
    patch = patch_of(name)
    assert patch is not None
    assert {change.key: change.new for change in patch.changes} == expected
    assert all(change.old == flags_of(name).get(change.key) for change in patch.changes)
    (result,) = gate.check_command([patch.command], accelerator, slices).results
    assert result.verdict == patch.verdict == "fits"
    assert result.choice is not None
    assert result.choice.memory.total_bytes == patch.total_bytes <= patch.limit_bytes
    old = [f"{key}={value}" for key, value in flags_of(name).items()]
    assert applied(old, patch.patch) == [word for word in shlex.split(patch.command) if "=" in word]


def test_names_that_were_meant_are_put_in_place_of_those_written() -> None:
    flags = {key: value for key, value in DENSE.items() if key != "ici_fsdp_parallelism"}
    patch = patch_for(Attempt({**flags, "ici_fsdp_paralelism": 256, "remat_polcy": "full"}, Machine("tpu7x-256", 1)))
    assert patch is not None
    assert {change.key: (change.old, change.new) for change in patch.changes} == {
        "ici_fsdp_paralelism": (256, None),
        "remat_polcy": ("full", None),
        "ici_fsdp_parallelism": (None, 256),
        "remat_policy": (None, "full"),
    }


def test_the_global_batch_is_kept_where_it_can_be() -> None:
    patch = patch_of("too large a batch")
    assert patch is not None
    assert patch.global_batch == 64 * 256


def test_the_same_launch_is_mended_the_same_way() -> None:
    assert patch_of("too much kept") == patch_of("too much kept")


@pytest.mark.slow
def test_what_no_change_mends_has_no_patch() -> None:
    flags = DENSE | {"model_name": "llama3.1-405b", "per_device_batch_size": 1}
    assert patch_for(Attempt(flags, Machine("v5e-16", 1))) is None


# --- words ------------------------------------------------------------------------------------------------------------

GIVEN = {"model_name": "x", "per_device_batch_size": "8"}
CHANGES = {"per_device_batch_size": 4, "remat_policy": "full"}


def test_words_are_changed_in_place_and_new_ones_follow_the_last() -> None:
    words = [
        "A=1 2",
        "python3",
        "-m",
        TRAINER,
        "base.yml",
        "model_name=x",
        "per_device_batch_size=8",
        ";",
        "echo",
        "b=1",
    ]
    new = patched(words, CHANGES, GIVEN)
    assert new == [*words[:6], "per_device_batch_size=4", "remat_policy=full", *words[7:]]
    assert as_text(new) == (
        f"A='1 2' python3 -m {TRAINER} base.yml \\\n  model_name=x \\\n  per_device_batch_size=4 \\\n  remat_policy=full ; "
        "echo \\\n  b=1"
    )
    assert patched(words, {"per_device_batch_size": None}, GIVEN) == [*words[:6], *words[7:]]


def test_a_shell_line_stays_one_and_its_variables_variables() -> None:
    line = f"python3 -m {TRAINER} model_name=x per_device_batch_size=8 base_output_directory=$OUT && echo done"
    (text,) = patched([line], CHANGES, GIVEN)
    assert 'base_output_directory="$OUT"' in text
    assert "remat_policy=full" in text
    assert text.endswith("&& echo done")


@pytest.mark.parametrize("form", [["--command", "{}"], ["--command={}"]])
def test_an_xpk_command_is_changed_inside(form: list[str]) -> None:
    line = f"export A='b c'; python3 -m {TRAINER} model_name=x per_device_batch_size=8"
    words = ["xpk", "workload", "create", *(part.format(line) for part in form), "--tpu-type=v6e-256"]
    new = patched(words, CHANGES, GIVEN)
    assert new[-1] == "--tpu-type=v6e-256"
    inner = new[new.index("--command") + 1]
    assert inner.startswith("export A='b c' ; python3")
    assert inner.endswith("per_device_batch_size=4 remat_policy=full")


@pytest.mark.parametrize(
    "words",
    [
        ["M_REMAT_POLICY=full", "python3", "-m", TRAINER, "model_name=llama3.1-8b"],
        ["python3", "-m", TRAINER, "model_name=llama3.1-8b", "compile_topology_num_slices=x", "compile_topology=v6e-8"],
    ],
)
def test_launches_that_say_too_little_or_elsewhere_are_left_alone(words: list[str]) -> None:
    assert Attempt.of_command(words, None, None) is None


def test_the_accelerator_may_come_from_the_launch() -> None:
    words = ["python3", "-m", TRAINER, "model_name=llama3.1-8b", "compile_topology=v6e-8"]
    attempt = Attempt.of_command(words, None, 2)
    assert attempt is not None
    assert attempt.machine == Machine("v6e-8", 2)


# --- the command ------------------------------------------------------------------------------------------------------


def words_of(name: str) -> list[str]:
    return ["python3", "-m", TRAINER, *(f"{key}={value}" for key, value in flags_of(name).items())]


@pytest.mark.parametrize(
    ("name", "code", "setting"),
    [
        ("degree that divides nothing", 3, "ici_tensor_parallelism=4"),
        ("too large a batch", 1, "per_device_batch_size=4"),
    ],
)
def test_the_exit_code_stays_that_of_the_launch(
    name: str, code: int, setting: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "--fix", "--accelerator", "tpu7x-256", "--", *words_of(name)]) == code
    out = capfd.readouterr().out
    assert f"\n+{setting}\n" in out
    assert f"\n  {setting}" in out


def test_a_launch_that_fits_needs_no_patch(capfd: pytest.CaptureFixture[str]) -> None:
    words = words_of("a policy misspelt")[:-1]
    assert cli.main(["check", "--fix", "-o", "json", "--accelerator", "tpu7x-256", "--", *words]) == 0
    (result,) = json.loads(capfd.readouterr().out)
    assert result["patch"] is None


def test_lines_and_printed_plans_are_mended_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    names = ["degree that divides nothing", "a policy misspelt"]
    lines = tmp_path / "lines.jsonl"
    records = [{"id": name, "topology": "tpu7x-256", "flags": flags_of(name)} for name in names]
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert cli.main(["check", "--fix", "--from", str(lines)]) == 3
    out = capfd.readouterr().out
    assert all(f"{name}: smallest change that fits" in out for name in names)


def test_a_case_has_no_flags_to_fix(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--fix", "case.yaml"]) == 2
    assert "--fix changes flags" in capfd.readouterr().err
