"""The JAX script. What it printed under JAX is committed; where there is a JAX, it is run again."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from fixtures.jobs import AWKWARD, job_of
from places import DATA

from shardplan.cost.tensors.parameters import parameter_tensors
from shardplan.cost.tensors.sharding import sharded_elements
from shardplan.errors import InputError
from shardplan.exporters import jax
from shardplan.spec import DTYPE_BYTES
from shardplan.splits.enumeration import split_rows
from shardplan.verify.environment import find_environment

if TYPE_CHECKING:
    from pathlib import Path

RAN: dict[str, Any] = json.loads((DATA / "jax_scripts.json").read_text())
"""By case: bytes of weights a device and collectives, as the scripts printed them on CPU devices with JAX 0.12.0.1."""
CASES: dict[str, dict[str, Any]] = {
    "dense, fsdp": {"accelerator": "v6e-8"},
    "dense, fsdp x tensor": {"accelerator": "v6e-8", "ici": {"fsdp": 4, "tensor": 2}, "per_device_batch": 8.0},
    "dense, both fsdp": {"accelerator": "tpu7x-8", "ici": {"fsdp": 4, "fsdp_transpose": 2}},
    "dense, two slices": {"accelerator": "v6e-4", "slices": 2, "dcn": {"data": 2}},
    "dense, pipeline": {
        "accelerator": "v6e-8", "ici": {"fsdp": 4, "pipeline": 2}, "pipeline_microbatches": 4, "per_device_batch": 8.0,
    },
    "tied, context": {"model": "gemma3-4b", "accelerator": "v6e-8", "ici": {"fsdp": 4, "context": 2}},
    "experts": {"model": "mixtral-8x7b", "accelerator": "v6e-8", "ici": {"fsdp": 2, "expert": 4}},
    "latent attention, shared experts": {"model": "deepseek2-16b", "accelerator": "v6e-8", "ici": {"fsdp": 2, "expert": 4}},
    "one device": {"model": "llama3.1-8b", "accelerator": "v6e-1", "per_device_batch": 1.0},
}  # fmt: skip


def run(python: str, text: str, devices: int, folder: Path) -> tuple[int, dict[str, int]]:
    """Bytes of weights a device and collectives that a script prints on so many CPU devices."""
    script = folder / "mesh.py"
    script.write_text(text)
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    done = subprocess.run([python, str(script)], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    weights = re.search(r"weights: ([\d,]+) bytes a device", done.stdout)
    collectives = re.search(r"backward: (\{.*\})", done.stdout)
    assert weights
    assert collectives
    return int(weights[1].replace(",", "")), json.loads(collectives[1].replace("'", '"'))


@pytest.mark.parametrize("name", CASES)
def test_jax_holds_the_bytes_of_weights_a_device_that_we_say(name: str) -> None:
    job = job_of(**CASES[name])
    candidates = split_rows(job.case, _split(name))
    elements = sum(int(sharded_elements(t, candidates)[0]) for t in parameter_tensors(job.case.architecture))
    assert RAN[name]["weight_bytes"] == elements * DTYPE_BYTES["float32"]


def _split(name: str) -> Any:
    from shardplan.spec import Split

    choice = job_of(**CASES[name]).choice
    return Split(ici=choice.mesh.ici, dcn=choice.mesh.dcn, per_device_batch=choice.per_device_batch)


@pytest.mark.maxtext
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_script_runs_on_cpu_devices_and_prints_what_is_committed(name: str, tmp_path: Path) -> None:
    try:
        python = find_environment().python
    except InputError as error:
        pytest.skip(str(error))
    job = job_of(**CASES[name])
    weight_bytes, collectives = run(python, jax.export(job), job.case.cluster.devices, tmp_path)
    assert {"weight_bytes": weight_bytes, "collectives": collectives} == RAN[name]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_leave_a_python_script(name: str) -> None:
    text = jax.export(job_of(name=name))
    compile(text, "mesh.py", "exec")
    assert text == jax.export(job_of(name=name))
    assert all(line == line.rstrip() for line in text.splitlines())


def test_a_mesh_that_needs_split_axes_is_laid_out_with_leave() -> None:
    whole, parts = job_of(), job_of(accelerator="tpu7x-128", ici={"fsdp": 32, "context": 4}, per_device_batch=0.5)
    assert not whole.choice.allow_split_physical_axes
    assert "jax.make_mesh(shape" in jax.export(whole)
    assert parts.choice.allow_split_physical_axes == ("create_device_mesh(shape" in jax.export(parts))
    leave = parts.choice.model_copy(update={"allow_split_physical_axes": True})
    assert "create_device_mesh(shape, allow_split_physical_axes=True)" in jax.export(type(parts)(parts.case, leave))
