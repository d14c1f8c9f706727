"""What every exporter promises, for each one found in the folder."""

from __future__ import annotations

import ast
import math
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.jobs import AWKWARD, job_of
from fixtures.launched import meshes, read

from shardplan.exporters import exporter_names, load_exporter, maxtext
from shardplan.exporters.launch import tpu_type
from shardplan.loaders.load import load_command
from shardplan.machine.chips import chip_names, load_chip

if TYPE_CHECKING:
    from pathlib import Path

    from shardplan.exporters.launch import Job
    from shardplan.exporters.placeholder import Placeholder

MESHES = {
    "fsdp": {},
    "custom": {"ici": {"fsdp": 4, "tensor": 2}, "remat_policy": "custom", "remat_tensors": {"context": "device"}},
    "slices": {"slices": 2, "dcn": {"data": 2}, "gradient_accumulation": 2, "per_device_batch": 2.0},
    "half-a-row": {"ici": {"fsdp": 2, "context": 4}, "num_vocab_tiling": 4, "per_device_batch": 0.5},
}
NAMES = exporter_names()
LAUNCHES = [name for name in NAMES if load_exporter(name).FOR_MAXTEXT]
VARIABLES = {"BASE_OUTPUT_DIRECTORY": "gs://b/o ut $(x)", "MAXTEXT_IMAGE": "r/maxtext", "XPK_CLUSTER": "mine"}
"""What an exporter leaves open is in the environment, and no shell may read it twice."""


def variants(name: str, text: str | None = None) -> list[dict[Placeholder, str]]:
    """Every combination of the choices of an exporter's settings; the others left open, or answered by a text."""
    settings = load_exporter(name).PLACEHOLDERS
    several = product(*([(one, choice) for choice in one.choices] for one in settings if one.choices))
    answers = {} if text is None else {one: text for one in settings if not one.choices}
    return [{}, *(answers | dict(chosen) for chosen in several)]


def check_launch(name: str, job: Job, folder: Path) -> None:
    """What an exporter wrote, run or taken apart, and read by our own loader, is the plan flag for flag."""
    found = read(load_exporter(name).export(job), folder, VARIABLES)
    cluster, choice = job.case.cluster, job.choice
    accelerator = None if found.words[0] == "xpk" else tpu_type(cluster)
    launch = load_command(found.words, accelerator=accelerator, slices=cluster.slices)
    assert maxtext.flags(launch.case, launch.split) == choice.maxtext_flags
    assert (launch.split.ici, launch.split.dcn) == (choice.mesh.ici, choice.mesh.dcn)
    assert (launch.case.cluster.topology, launch.case.cluster.slices) == (cluster.topology, cluster.slices)
    assert math.prod([*launch.split.ici.values(), *launch.split.dcn.values()]) == cluster.devices
    assert found.libtpu_init_args in {None, job.libtpu_init_args}
    assert found.chips in {None, cluster.chips}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_depends_on_nothing_else(name: str, mesh: str) -> None:
    for given in variants(name, "x-1"):
        first = load_exporter(name).export(job_of(**MESHES[mesh], given=given))
        assert first == load_exporter(name).export(job_of(**MESHES[mesh], given=dict(given)))
        assert first.endswith("\n")
        assert not first.endswith("\n\n")


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_read_back_is_the_same_plan(name: str, mesh: str, tmp_path: Path) -> None:
    for given in variants(name):
        check_launch(name, job_of(**MESHES[mesh], given=given), tmp_path)


@pytest.mark.parametrize("chip", chip_names())
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_on_every_chip_is_read_back(name: str, chip: str, tmp_path: Path) -> None:
    nodes = load_chip(chip).nodes
    assert nodes is not None
    check_launch(name, job_of(accelerator=f"{nodes.tpu_type_prefix}-8"), tmp_path)


@pytest.mark.parametrize("awkward", AWKWARD)
@pytest.mark.parametrize("name", LAUNCHES)
def test_no_name_breaks_out_of_its_quotes(name: str, awkward: str, tmp_path: Path) -> None:
    for given in variants(name, awkward):
        check_launch(name, job_of(name=awkward, given=given), tmp_path)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LAUNCHES])
def test_a_script_that_launches_nothing_has_the_degrees_of_the_plan(name: str, mesh: str) -> None:
    for awkward in AWKWARD:
        job: Any = job_of(name=awkward, **MESHES[mesh])
        script = load_exporter(name).export(job)
        ast.parse(script)
        found = meshes(script)
        assert (found["ICI"], found["DCN"]) == (job.choice.mesh.ici, job.choice.mesh.dcn)
        assert math.prod([*found["ICI"].values(), *found["DCN"].values()]) == job.case.cluster.devices


@pytest.mark.parametrize("name", NAMES)
def test_every_exporter_says_what_it_is(name: str) -> None:
    exporter = load_exporter(name)
    assert exporter.SUMMARY.endswith(".")
    assert f"shardplan export {name} " in exporter.ABOUT
    assert all(setting.about and setting.metavar.isupper() for setting in exporter.PLACEHOLDERS)
    assert len({setting.name for setting in exporter.PLACEHOLDERS}) == len(exporter.PLACEHOLDERS)
