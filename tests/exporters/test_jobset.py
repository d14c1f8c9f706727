# ruff: noqa: N815 - the keys are those of Kubernetes
from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from fixtures.jobs import AWKWARD, job_of
from pydantic import BaseModel, ConfigDict, Field

from shardplan.exporters import jobset
from shardplan.exporters.launch import Job
from shardplan.exporters.placeholder import FOLDER, IMAGE
from shardplan.loaders.load import load_command
from shardplan.source import parse_yaml

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
"""A DNS label, RFC 1123."""
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")]
Positive = Annotated[int, Field(ge=1, strict=True)]


class Strict(BaseModel):
    """The parts of JobSet v1alpha2, batch/v1 Job and Pod that we write, with their constraints; nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Metadata(Strict):
    name: Name
    annotations: dict[str, str]


class Variable(Strict):
    name: Annotated[str, Field(pattern=r"^[A-Z_]+$")]
    value: str


class Port(Strict):
    containerPort: Annotated[int, Field(ge=1, le=65535)]


class Resources(Strict):
    limits: dict[Literal["google.com/tpu"], Positive]


class Security(Strict):
    privileged: bool


class Container(Strict):
    name: Name
    image: str
    command: list[str]
    env: list[Variable]
    ports: list[Port]
    resources: Resources
    securityContext: Security


class Pod(Strict):
    restartPolicy: Literal["Never", "OnFailure"]
    hostNetwork: bool
    dnsPolicy: Literal["ClusterFirstWithHostNet"]
    nodeSelector: dict[str, LabelValue]
    containers: Annotated[list[Container], Field(min_length=1)]


class PodTemplate(Strict):
    spec: Pod


class JobSpec(Strict):
    parallelism: Positive
    completions: Positive
    backoffLimit: int
    template: PodTemplate


class JobTemplate(Strict):
    spec: JobSpec


class Replicated(Strict):
    name: Name
    replicas: Positive
    template: JobTemplate


class FailurePolicy(Strict):
    maxRestarts: int


class Spec(Strict):
    failurePolicy: FailurePolicy
    replicatedJobs: list[Replicated]


class JobSet(Strict):
    apiVersion: Literal["jobset.x-k8s.io/v1alpha2"]
    kind: Literal["JobSet"]
    metadata: Metadata
    spec: Spec


def read(job: Job) -> JobSet:
    return JobSet.model_validate(parse_yaml(jobset.export(job), "jobset.yaml").value)


@pytest.mark.parametrize(
    ("accelerator", "slices", "hosts", "chips", "selector"),
    [
        ("v5e-16", 2, 4, 4, ("tpu-v5-lite-podslice", "4x4")),
        ("v6e-1", 1, 1, 1, ("tpu-v6e-slice", "1x1")),
        ("v5p-16", 1, 2, 4, ("tpu-v5p-slice", "2x2x2")),
        ("tpu7x-16", 4, 2, 4, ("tpu7x", "2x2x2")),
        ("tpu7x-2", 1, 1, 1, ("tpu7x", "1x1x1")),
        ("v4-8", 1, 1, 4, ("tpu-v4-podslice", "2x2x1")),
    ],
)
def test_a_slice_is_a_replica_and_a_host_a_pod(
    accelerator: str, slices: int, hosts: int, chips: int, selector: tuple[str, str]
) -> None:
    job = job_of(accelerator=accelerator, slices=slices, dcn={"data": slices})
    (replicated,) = read(job).spec.replicatedJobs
    spec = replicated.template.spec
    (container,) = spec.template.spec.containers
    assert (replicated.replicas, spec.parallelism, spec.completions) == (slices, hosts, hosts)
    assert container.resources.limits == {"google.com/tpu": chips}
    assert hosts * chips == job.case.cluster.chips_per_slice
    assert spec.template.spec.nodeSelector == {
        "cloud.google.com/gke-tpu-accelerator": selector[0],
        "cloud.google.com/gke-tpu-topology": selector[1],
    }


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_stay_one_valid_manifest(name: str) -> None:
    job = job_of(name=name, given={IMAGE: name, FOLDER: name})
    (container,) = read(job).spec.replicatedJobs[0].template.spec.template.spec.containers
    folder = {variable.name: variable.value for variable in container.env}["BASE_OUTPUT_DIRECTORY"]
    assert container.image == name
    assert folder.replace("$$(", "$(") == name
    assert "$(" not in folder.replace("$$(", "")


def test_the_pods_launch_the_plan() -> None:
    job = job_of(accelerator="tpu7x-16")
    (container,) = read(job).spec.replicatedJobs[0].template.spec.template.spec.containers
    assert container.command == [*job.words, "base_output_directory=$(BASE_OUTPUT_DIRECTORY)"]
    assert load_command(container.command, accelerator="tpu7x-16").split.ici == {"fsdp": 16}
    assert {v.name: v.value for v in container.env}["LIBTPU_INIT_ARGS"] == job.libtpu_init_args


def test_without_names_placeholders_are_left_for_envsubst() -> None:
    text = jobset.export(job_of())
    assert "image: ${MAXTEXT_IMAGE}" in text
    assert "value: ${BASE_OUTPUT_DIRECTORY}" in text
    assert text == jobset.export(job_of())
    assert all(line == line.rstrip() for line in text.splitlines())


def test_flags_without_libtpu_arguments_set_no_variable() -> None:
    job = job_of()
    bare = Job(job.case, job.choice.model_copy(update={"libtpu_init_args": ()}))
    manifest: dict[str, Any] = jobset.manifest(bare)
    (container,) = manifest["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert [variable["name"] for variable in container["env"]] == ["BASE_OUTPUT_DIRECTORY"]
