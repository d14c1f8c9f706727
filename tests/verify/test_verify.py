"""The compiler's process, played by a script: what it says is passed on, and it never outlives us."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from fixtures.fake_maxtext import MEMORY, answer, fake_python

from shardplan.errors import InputError
from shardplan.verify.environment import VARIABLE, find_environment
from shardplan.verify.runner import cache_folder, compile_flags

if TYPE_CHECKING:
    from pathlib import Path


def test_memory_is_passed_on_with_the_stages(tmp_path: Path) -> None:
    environment = find_environment(fake_python(tmp_path, answer(memory=MEMORY)))
    stages: list[str] = []
    got = compile_flags(
        environment, {"per_device_batch_size": 2}, "tpu7x-8", slices=2, progress=lambda stage, _: stages.append(stage)
    )
    assert (got.arguments_bytes, got.temp_bytes, got.peak_bytes) == (10, 20, 25)
    assert not got.out_of_memory
    assert got.error is None
    assert stages[0] == "start"
    assert "compile" in stages
    request = json.loads((tmp_path / "calls").read_text())
    assert request == {
        "flags": {"per_device_batch_size": "2"}, "topology": "tpu7x-8", "slices": 2, "stop_after": "compile"
    }  # fmt: skip


def test_running_out_of_memory_is_an_answer(tmp_path: Path) -> None:
    room = {"what": "HLO temporaries", "needed_bytes": 100.0, "limit_bytes": 90.0}
    environment = find_environment(fake_python(tmp_path, answer(error="RESOURCE_EXHAUSTED", out_of_memory=room)))
    got = compile_flags(environment, {}, "tpu7x-8")
    assert got.out_of_memory
    assert (got.needed_bytes, got.limit_bytes) == (100.0, 90.0)
    assert got.error is None


def test_a_refusal_is_an_answer(tmp_path: Path) -> None:
    environment = find_environment(fake_python(tmp_path, answer(error="ValueError: no")))
    got = compile_flags(environment, {}, "tpu7x-8")
    assert got.error == "ValueError: no"
    assert not got.out_of_memory


def test_a_result_is_kept_until_something_that_matters_changes(tmp_path: Path) -> None:
    environment = find_environment(fake_python(tmp_path, answer(memory=MEMORY)))
    cache = tmp_path / "cache"
    first = compile_flags(environment, {"a": 1}, "tpu7x-8", cache=cache)
    again = compile_flags(environment, {"a": 1}, "tpu7x-8", cache=cache)
    compile_flags(environment, {"a": 2}, "tpu7x-8", cache=cache)
    compile_flags(environment, {"a": 1}, "tpu7x-16", cache=cache)
    newer = type(environment)(environment.python, {**environment.versions, "jax": "0.13"})
    compile_flags(newer, {"a": 1}, "tpu7x-8", cache=cache)
    assert not first.cached
    assert again.cached
    assert len((tmp_path / "calls").read_text().splitlines()) == 4


def test_the_time_limit_ends_the_process(tmp_path: Path) -> None:
    action = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    environment = find_environment(fake_python(tmp_path, action))
    with pytest.raises(InputError, match=r"no verdict within 1 s \(stage: compile\)"):
        compile_flags(environment, {}, "tpu7x-8", time_limit_s=1.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_process_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    environment = find_environment(fake_python(tmp_path, "sys.exit('the end')"))
    with pytest.raises(InputError) as caught:
        compile_flags(environment, {}, "tpu7x-8")
    assert caught.value.diagnostics[0].hint == "the end"


@pytest.mark.parametrize("way", ["missing", "no maxtext", "not a python"])
def test_without_maxtext_the_way_to_get_it_is_told(tmp_path: Path, way: str) -> None:
    python = {
        "missing": str(tmp_path / "nowhere"),
        "no maxtext": fake_python(tmp_path, "", maxtext=None),
        "not a python": "/bin/cat",
    }[way]
    with pytest.raises(InputError) as caught:
        find_environment(python)
    assert caught.value.exit_code == 2
    assert "make maxtext-env" in str(caught.value.diagnostics[0].hint)


def test_the_python_comes_from_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = fake_python(tmp_path, "")
    monkeypatch.setenv(VARIABLE, python)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    assert find_environment().python == python
    assert cache_folder() == tmp_path / "kept" / "shardplan" / "compiled"


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    child = f"os.fork() or time.sleep(60); open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    python = fake_python(tmp_path, child)
    ours = (
        # Guard: a shell that starts tests in the background has them ignore Ctrl-C.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from shardplan.verify.environment import find_environment as f\n"
        "from shardplan.verify.runner import compile_flags as c\n"
        f"c(f({python!r}), {{}}, 'tpu7x-8')"
    )
    process = subprocess.Popen([sys.executable, "-c", ours], stderr=subprocess.DEVNULL)
    pids = tmp_path / "pids"
    for _ in range(1200):
        if pids.exists() and pids.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(60)
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
