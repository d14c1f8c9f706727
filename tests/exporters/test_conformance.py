"""What every exporter promises, for each one found in the folder."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.jobs import AWKWARD, job_of

from shardplan.exporters import exporter_names, load_exporter
from shardplan.loaders.load import load_command
from shardplan.source import parse_yaml

if TYPE_CHECKING:
    from shardplan.exporters.setting import Setting

JOBS = {
    "fsdp": {"accelerator": "v6e-8"},
    "two-slices": {"accelerator": "v6e-8", "slices": 2, "dcn": {"data": 2}},
    "tensor": {"accelerator": "tpu7x-8", "ici": {"fsdp": 4, "tensor": 2}},
}
NAMES = exporter_names()
LAUNCHES = [name for name in NAMES if load_exporter(name).FOR_MAXTEXT]


def answers(name: str, text: str = "x-1") -> dict[Setting, str]:
    """A value for every setting of an exporter."""
    return {setting: setting.choices[0] if setting.choices else text for setting in load_exporter(name).SETTINGS}


def variants(name: str) -> list[dict[Setting, str]]:
    """Every choice of every setting, and no answer at all."""
    several = [answers(name) | {setting: one} for setting in load_exporter(name).SETTINGS for one in setting.choices]
    return [{}, answers(name), *several]


def words_of(text: str) -> list[str]:
    """The MaxText words in an export: of a manifest's command, of a shell command within words, or of flags alone."""
    if "kind: JobSet" in text:
        spec: Any = parse_yaml(text, "x.yaml").value["spec"]["replicatedJobs"][0]["template"]["spec"]["template"][
            "spec"
        ]
        return [str(word) for word in spec["containers"][0]["command"]]
    if text.startswith("base_config:"):
        return [
            f"{key}={str(v).lower() if isinstance(v, bool) else v}" for key, v in parse_yaml(text, "x").value.items()
        ]
    words = shlex.split(re.sub(r"\\\n", " ", text), comments=True)
    inner = [part for word in words if "per_device_batch_size=" in word and " " in word for part in shlex.split(word)]
    return inner or words


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_depends_on_nothing_else(name: str, job: str) -> None:
    for given in variants(name):
        first = load_exporter(name).export(job_of(**JOBS[job], given=given))
        assert first == load_exporter(name).export(job_of(**JOBS[job], given=dict(given)))
        assert first.endswith("\n")
        assert not first.endswith("\n\n")


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch_read_back_is_the_same_plan(name: str, job: str) -> None:
    planned = job_of(**JOBS[job])
    for given in variants(name):
        text = load_exporter(name).export(job_of(**JOBS[job], given=given))
        flags = [
            w for w in words_of(text) if re.fullmatch(r"[a-z_0-9]+=[^\s$(]*", w) and not w.startswith("base_config=")
        ]
        command = ["python3", "-m", "maxtext.trainers.pre_train.train", "base.yml", *flags]
        accelerator, slices = JOBS[job]["accelerator"], JOBS[job].get("slices", 1)
        launch = load_command(command, accelerator=accelerator, slices=slices)
        split = launch.split
        assert (split.ici, split.dcn) == (planned.choice.mesh.ici, planned.choice.mesh.dcn)
        assert split.per_device_batch == planned.choice.per_device_batch
        assert split.remat_policy == planned.choice.remat_policy
        assert launch.case.architecture == planned.case.architecture
        assert launch.case.workload.sequence_length == planned.case.workload.sequence_length
        devices = planned.case.cluster.devices
        assert math.prod(split.ici.values()) * math.prod(split.dcn.values()) == devices


@pytest.mark.parametrize("awkward", AWKWARD)
@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_out_of_its_quotes(name: str, awkward: str) -> None:
    text = load_exporter(name).export(job_of(name=awkward, accelerator="v6e-8", given=answers(name, awkward)))
    plain = load_exporter(name).export(job_of(name="plain", accelerator="v6e-8", given=answers(name, "plain")))
    assert text.count("\n") - plain.count("\n") <= sum("\n" in value for value in answers(name, awkward).values()) + 2
    if name != "jax" and "kind: JobSet" not in text and not text.startswith("base_config"):
        outside = re.sub(r"'[^']*'|\\.|^#.*$", "", text, flags=re.MULTILINE)
        assert "touch /tmp/x" not in outside
        assert "`id`" not in outside


@pytest.mark.parametrize("name", NAMES)
def test_every_exporter_says_what_it_is(name: str) -> None:
    exporter = load_exporter(name)
    assert exporter.SUMMARY.endswith(".")
    assert f"shardplan export {name} " in exporter.ABOUT
    assert all(setting.about and setting.metavar.isupper() for setting in exporter.SETTINGS)
    assert len({setting.name for setting in exporter.SETTINGS}) == len(exporter.SETTINGS)
