from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from shardplan.errors import ExitCode
from shardplan.source import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

FORMATS = ("maxtext", "xpk", "jobset", "shell", "jax")


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "case.yaml"
    path.write_text(
        "model: llama3.1-8b\nworkload: {sequence_length: 4096, global_batch: 64}\ncluster: {accelerator: tpu7x-16}\n"
        "constraints: {remat: full, num_vocab_tiling: 1, gradient_accumulation: 1, max_pipeline_parallelism: 1}\n"
    )
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_a_plan_is_printed_for_its_program(name: str, case: Path, run: Callable[..., Ran]) -> None:
    ran = run("export", name, case)
    assert ran.code == ExitCode.YES
    assert not ran.err
    assert "fsdp" in ran.out
    assert run("export", name, case, "--rank", "2").out != ran.out


def test_names_given_as_options_take_the_place_of_variables(case: Path, run: Callable[..., Ran]) -> None:
    folder, image = ("--base-output-directory", "gs://b/runs"), ("--image", "r/maxtext")
    xpk = run("export", "xpk", case, "--cluster", "mine", *image, *folder).out
    assert all(word in xpk for word in ("--cluster mine", "--docker-image r/maxtext", "=gs://b/runs"))
    assert "${" not in xpk
    pod = parse_yaml(run("export", "jobset", case, *image, *folder).out, "jobset.yaml").value["spec"]["replicatedJobs"][
        0
    ]
    (container,) = pod["template"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r/maxtext"
    assert "BASE_OUTPUT_DIRECTORY=gs://b/runs\n" in run("export", "shell", case, *folder).out


@pytest.mark.parametrize("form", ["flags", "yml", "command"])
def test_maxtext_takes_three_forms(form: str, case: Path, run: Callable[..., Ran]) -> None:
    assert "ici_fsdp_parallelism" in run("export", "maxtext", case, "--format", form).out


@pytest.mark.parametrize("name", FORMATS)
def test_where_nothing_fits_nothing_is_exported(name: str, case: Path, run: Callable[..., Ran]) -> None:
    case.write_text(case.read_text().replace("tpu7x-16", "v5e-1").replace("global_batch: 64", "per_device_batch: 1"))
    ran = run("export", name, case)
    assert ran.code == ExitCode.NO
    assert not ran.out
    assert "nothing fits" in ran.err


@pytest.mark.parametrize("name", ["maxtext", "jax"])
def test_a_rank_there_is_not_is_an_error(name: str, case: Path, run: Callable[..., Ran]) -> None:
    ran = run("export", name, case, "--rank", "999")
    assert ran.code == ExitCode.CANNOT_RUN
    assert "no plan of rank 999" in ran.err


def test_a_model_maxtext_cannot_express_is_exported_to_jax_only(case: Path, run: Callable[..., Ran]) -> None:
    inline = """{
  model_width: 1024, vocab_size: 32000,
  layer_groups: [{count: 4, attention: {n_query_heads: 8, n_key_value_heads: 8, head_width: 128, window: 512},
                  feed_forward: {width: 4096}}]}"""
    case.write_text(case.read_text().replace("model: llama3.1-8b", f"model: {inline}"))
    assert run("export", "xpk", case).code == ExitCode.CANNOT_RUN
    ran = run("export", "jax", case)
    assert ran.code == ExitCode.YES
    ast.parse(ran.out)
