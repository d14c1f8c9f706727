from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from fixtures.jobs import AWKWARD, BASH, job_of

from shardplan.exporters import shell
from shardplan.exporters.placeholder import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

    from shardplan.exporters.launch import Job

LAUNCHER = '#!/bin/sh\nprintf "%s\\n" "launched" "$LIBTPU_INIT_ARGS" "$@"\n'


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def submit(job: Job, folder: Path, checker: str, *more: str) -> subprocess.CompletedProcess[str]:
    """The job script run with a fake launcher, and `checker` as the text of the program shardplan."""
    executable(folder / "python3", LAUNCHER)
    executable(folder / "shardplan", checker)
    (folder / "launch.sh").write_text(shell.export(job))
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "BASE_OUTPUT_DIRECTORY": "gs://b/o ut"}
    return subprocess.run(
        [BASH, str(folder / "launch.sh"), *more], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize("code", [1, 2, 3, 70, 130])
def test_the_gate_stops_the_launch_with_its_own_exit_code(code: int, tmp_path: Path) -> None:
    done = submit(job_of(), tmp_path, f"#!/bin/sh\nexit {code}\n")
    assert done.returncode == code
    assert "launched" not in done.stdout
    assert "not launched: " in done.stderr
    assert f"(exit {code})" in done.stderr


def test_a_gate_that_is_not_installed_stops_the_launch(tmp_path: Path) -> None:
    done = submit(job_of(), tmp_path, "#!/no/such/interpreter\n")
    assert done.returncode not in {0, 1, 3}
    assert "launched" not in done.stdout


@pytest.mark.parametrize("name", AWKWARD)
def test_what_is_checked_is_what_is_launched(name: str, tmp_path: Path) -> None:
    job = job_of(name=name, accelerator="v5e-8")
    done = submit(job, tmp_path, f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/seen\necho page\n', "steps=1 0", "x='y'")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "page\n"
    title, libtpu, *launched = done.stdout.splitlines()
    assert (title, libtpu) == ("launched", job.libtpu_init_args)
    assert launched == [*job.words[1:], "base_output_directory=gs://b/o ut", "steps=1 0", "x='y'"]
    checked = (tmp_path / "seen").read_text().splitlines()
    assert checked == ["check", "--accelerator", "v5litepod-8", "--slices", "1", "--", "python3", *launched]


@pytest.mark.parametrize(
    ("batch", "more", "code"), [(2.0, (), 0), (512.0, (), 1), (2.0, ("ici_tensor_parallelism=3",), 3)]
)
def test_the_real_gate_lets_pass_only_what_fits(batch: float, more: tuple[str, ...], code: int, tmp_path: Path) -> None:
    job = job_of(accelerator="tpu7x-16", per_device_batch=batch)
    real = f'#!/bin/sh\nexec "{sys.executable}" -m shardplan "$@"\n'
    done = submit(job, tmp_path, real, *more)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("launched") == (code == 0)


def test_a_folder_that_is_given_is_not_asked_for(tmp_path: Path) -> None:
    done = submit(job_of(given={FOLDER: "gs://x/$y 'z'"}), tmp_path, "#!/bin/sh\n")
    assert done.stdout.splitlines()[-1] == "base_output_directory=gs://x/$y 'z'"
    (tmp_path / "launch.sh").write_text(shell.export(job_of()))
    without = subprocess.run(
        [BASH, str(tmp_path / "launch.sh")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert without.returncode == 1
    assert "BASE_OUTPUT_DIRECTORY" in without.stderr
