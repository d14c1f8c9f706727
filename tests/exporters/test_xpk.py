from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from fixtures.jobs import AWKWARD, BASH, job_of

from shardplan.exporters import xpk
from shardplan.exporters.launch import Job
from shardplan.exporters.placeholder import CLUSTER, FOLDER, IMAGE
from shardplan.loaders.load import load_command

if TYPE_CHECKING:
    from pathlib import Path

GIVEN = {CLUSTER: "cl", IMAGE: "gcr.io/p/maxtext:1", FOLDER: "gs://b/runs"}


def submitted(text: str, folder: Path, **environment: str) -> list[str] | None:
    """The words xpk would see, or None if the shell stopped before it."""
    fake = folder / "xpk"
    fake.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done\n')
    fake.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [BASH, "-c", text], capture_output=True, text=True, check=False, env={"PATH": path, **environment}
    )
    return done.stdout.split("\0")[:-1] if done.returncode == 0 else None


@pytest.mark.parametrize("name", AWKWARD)
def test_the_command_means_the_plan(name: str, tmp_path: Path) -> None:
    job = job_of(name=name, accelerator="v6e-8", slices=2, dcn={"data": 2}, given=GIVEN)
    words = submitted(xpk.export(job), tmp_path)
    assert words is not None
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert words[:2] == ["workload", "create"]
    assert options.items() >= {
        ("--cluster", "cl"), ("--workload", job.name), ("--tpu-type", "v6e-8"), ("--num-slices", "2"),
        ("--docker-image", "gcr.io/p/maxtext:1"), ("--env", "BASE_OUTPUT_DIRECTORY=gs://b/runs"),
    }  # fmt: skip
    assert "\n" not in options["--command"]
    launch = load_command(["xpk", *words])
    assert launch.split.ici == job.choice.mesh.ici
    assert launch.split.dcn == job.choice.mesh.dcn
    assert launch.case.cluster.slices == 2


def test_what_runs_on_a_host_is_the_launch_word_for_word(tmp_path: Path) -> None:
    job = job_of()
    awkward = job.choice.model_copy(
        update={
            "maxtext_flags": {**job.choice.maxtext_flags, "mlp_activations": '[silu,"li$near"]', "x": "a 'b' `c` \\"},
            "libtpu_init_args": ("--xla_a=1", "--xla_b='$x'"),
        }
    )
    job = Job(job.case, awkward, GIVEN)
    words = submitted(xpk.export(job), tmp_path)
    assert words is not None
    fake = tmp_path / "python3"
    fake.write_text('#!/bin/sh\nprintf "%s\\0" "$LIBTPU_INIT_ARGS" "$@"\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BASE_OUTPUT_DIRECTORY": "gs://b/with space"}
    done = subprocess.run(
        [BASH, "-c", words[words.index("--command") + 1]], capture_output=True, text=True, check=True, env=environment
    )
    libtpu, *seen = done.stdout.split("\0")[:-1]
    assert libtpu == "--xla_a=1 --xla_b='$x'"
    assert seen == [*job.words[1:], "base_output_directory=gs://b/with space"]


def test_without_names_the_shell_stops_until_they_are_set(tmp_path: Path) -> None:
    text = xpk.export(job_of())
    names = {"XPK_CLUSTER": "cl", "MAXTEXT_IMAGE": "im", "BASE_OUTPUT_DIRECTORY": "gs://b"}
    for missing in names:
        assert submitted(text, tmp_path, **{k: v for k, v in names.items() if k != missing}) is None
    words = submitted(text, tmp_path, **names)
    assert words is not None
    assert {"cl", "im", "BASE_OUTPUT_DIRECTORY=gs://b"} <= set(words)


def test_the_text_is_the_same_every_time_with_no_blanks_at_line_ends() -> None:
    text = xpk.export(job_of())
    assert text == xpk.export(job_of())
    assert all(line == line.rstrip() for line in text.splitlines())
    assert text.endswith("\n")
    assert shlex.split(text.replace("\\\n", " "))
