"""Models that MaxText lacks are planned, and every command says that MaxText cannot launch them, and what can."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING

import pytest
from places import DATA

from shardplan.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ran

LACKED = {
    "glm-4.5-air": "attention biases with experts",
    "olmo-2-7b": "normalisation over all heads",
    "phi-3-mini": "windowed attention",
    "starcoder2-3b": "windowed attention",
    "qwen1.5-moe-a2.7b": "a gate on the shared expert",
}
"""Hugging Face configurations, with one of the features that no generic decoder block of MaxText has."""


@pytest.fixture
def case(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a case of a Hugging Face configuration; the first plan of a few."""

    def write(name: str) -> Path:
        path = tmp_path / "case.yaml"
        path.write_text(
            f"model: {DATA / 'hf' / f'{name}.json'}\nworkload: {{sequence_length: 2048, global_batch: 64}}\n"
            "cluster: {accelerator: tpu7x-64}\n"
            "constraints: {remat: full, num_vocab_tiling: 1, gradient_accumulation: 1, max_pipeline_parallelism: 1}\n"
        )
        return path

    return write


@pytest.mark.parametrize("name", LACKED)
def test_the_first_line_says_so_with_the_reason_and_the_way_out(
    name: str, case: Callable[[str], Path], run: Callable[..., Ran]
) -> None:
    path = case(name)
    ran = run("recommend", path)
    assert ran.code == ExitCode.YES
    first = ran.out.splitlines()[0]
    assert re.search(r"; not launchable: MaxText lacks .*" + re.escape(LACKED[name]), first)
    assert first.endswith("(shardplan export jax can)")
    assert "shardplan export maxtext" not in ran.out
    plans = json.loads(run("recommend", path, "-o", "json").out)["plans"]
    assert plans
    for plan in plans:
        assert (plan["launchable"], plan["maxtext_flags"]) == (False, {})
        assert LACKED[name] in plan["why_not_launchable"]


def test_a_model_maxtext_has_is_launchable(case: Callable[[str], Path], run: Callable[..., Ran]) -> None:
    path = case("llama-3.1-8b")
    assert "launchable" not in run("recommend", path).out
    (plan, *_) = json.loads(run("recommend", path, "-o", "json").out)["plans"]
    assert (plan["launchable"], plan["why_not_launchable"]) == (True, None)


def test_other_commands_say_so_or_refuse(case: Callable[[str], Path], run: Callable[..., Ran], tmp_path: Path) -> None:
    path = case("olmo-2-7b")
    assert "not launchable" in run("explain", path).out.splitlines()[0]
    printed = tmp_path / "plan.json"
    printed.write_text(run("recommend", path, "-o", "json").out)
    for words in (
        ("check", "--plan", printed),
        ("diff", printed, printed),
        ("export", "maxtext", path),
        ("export", "shell", path),
    ):
        ran = run(*words)
        assert ran.code == ExitCode.CANNOT_RUN, words
        assert "normalisation over all heads" in ran.err, words
        assert not ran.out, words
    ast.parse(run("export", "jax", path).out)
    path.write_text(f"{path.read_text()}plan: {{ici: {{fsdp: 64}}, per_device_batch: 1}}\n")
    assert "not launchable" in run("check", path).out.splitlines()[0]
