from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardplan import cli
from shardplan.errors import ExitCode

pytestmark = pytest.mark.slow

WORDS = [
    "recommend",
    "check",
    "explain",
    "export",
    "maxtext",
    "verify",
    "init",
    "models",
    "chips",
    "rules",
    "schema",
    "plan",
    "SP201",
    "tpu7x",
    "-",
    "--",
    "-o",
    "json",
    "table",
    "--top",
    "3",
    "--rank",
    "2",
    "--width",
    "50",
    "--objective",
    "memory",
    "--from",
    "--plan",
    "--accelerator",
    "tpu7x-8",
    "--slices",
    "--strict",
    "--format",
    "yml",
    "--help",
    "none.yaml",
]
words = st.sampled_from(WORDS) | st.text(max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.lists(words, max_size=7))
def test_no_arguments_end_in_a_bug(arguments: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(arguments)
    assert code in set(ExitCode) - {ExitCode.BUG, ExitCode.INTERRUPTED}, err.getvalue()
    assert "Traceback" not in err.getvalue()
    assert bool(err.getvalue()) == (code not in {ExitCode.YES, ExitCode.NO, ExitCode.INVALID}) or not arguments


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=20), max_size=8), st.sampled_from(["tpu7x-8", "v5p-8", "nonsense", ""]))
def test_no_launch_command_ends_in_a_bug(command: list[str], accelerator: str) -> None:
    launch = ["python3", "-m", "maxtext.trainers.pre_train.train", "base.yml", "model_name=llama3.1-8b", *command]
    for line in (command, launch):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
            code = cli.main(["check", "--accelerator", accelerator, "--", *line])
        assert code in set(ExitCode) - {ExitCode.BUG, ExitCode.INTERRUPTED}, err.getvalue()
