from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardplan.cli.completion import chip_names, model_names

SHARDPLAN = str(Path(sys.executable).with_name("shardplan"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [("chips tpu", "tpu7x"), ("models llama3.1-7", "llama3.1-70b"), ("rec", "recommend"), ("schema ch", "check")],
)
def test_names_are_completed_in_a_shell(words: str, expected: str) -> None:
    environment = {
        **os.environ,
        "_SHARDPLAN_COMPLETE": "complete_bash",
        "COMP_WORDS": f"shardplan {words}",
        "COMP_CWORD": str(len(words.split())),
    }
    done = subprocess.run([SHARDPLAN], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [expected]


def test_names_are_completed_from_their_beginning() -> None:
    assert chip_names("V5") == ["v5e", "v5p"]
    assert model_names("llama3.1-4") == ["llama3.1-405b"]
    assert model_names("x") == []
