"""A GKE JobSet: a plan as the Kubernetes manifest of one job a slice, with one pod a host.

GKE sets what JAX needs to find the other hosts and slices of a JobSet. The launch is a list of words, so no shell reads it.
Source: JobSet API v1alpha2; "TPU Multislice Training with JobSet", jobset.sigs.k8s.io.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardplan.exporters.placeholder import FOLDER, IMAGE

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job

PORTS: Final = (8471, 8080)
"""Between the hosts of a slice, and of the coordinator of several slices. Source: GKE's multislice examples."""
_VARIABLE: Final = "BASE_OUTPUT_DIRECTORY"
_HEAD: Final = """\
# {title}
# envsubst < this file | kubectl apply -f -
"""


SUMMARY: Final = "A JobSet manifest for GKE."
ABOUT: Final = """Print a JobSet manifest for GKE that runs a plan: one replica a slice, one pod a host.

\b
Examples:
  shardplan export jobset case.yaml --image my-registry/maxtext > jobset.yaml
  shardplan export jobset case.yaml | envsubst | kubectl apply -f -
"""
PLACEHOLDERS: Final = (IMAGE, FOLDER)
FOR_MAXTEXT: Final = True


def export(job: Job) -> str:
    """The manifest as YAML; an image or folder that was not given is left as `${VARIABLE}`, for envsubst."""
    from shardplan.source import dump_yaml

    return _HEAD.format(title=job.title) + dump_yaml(manifest(job))


def manifest(job: Job) -> dict[str, Any]:
    """The JobSet: slices are its replicas, hosts of a slice are the pods of one replica."""
    from shardplan.exporters.launch import nodes

    cluster = job.case.cluster
    chips = min(nodes(cluster).chips_per_node, cluster.chips_per_slice)
    hosts = cluster.chips_per_slice // chips
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": job.name,
            # Keeps the pods of one slice on one node pool, which is one physical slice.
            "annotations": {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"},
        },
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [
                {
                    "name": "slice",
                    "replicas": cluster.slices,
                    "template": {
                        "spec": {
                            "parallelism": hosts,
                            "completions": hosts,
                            "backoffLimit": 0,
                            "template": {"spec": _pod(job, chips)},
                        }
                    },
                }
            ],
        },
    }


def _pod(job: Job, chips: int) -> dict[str, Any]:
    """One host of a slice."""
    from shardplan.exporters.launch import nodes

    cluster, given = job.case.cluster, job.given
    container = {
        "name": "maxtext",
        "image": given.get(IMAGE) or "${MAXTEXT_IMAGE}",
        "command": [*map(_literal, job.words), f"base_output_directory=$({_VARIABLE})"],
        "env": [
            {"name": _VARIABLE, "value": _literal(given.get(FOLDER) or f"${{{_VARIABLE}}}")},
            *_environment(job),
        ],
        "ports": [{"containerPort": port} for port in PORTS],
        "resources": {"limits": {"google.com/tpu": chips}},
        "securityContext": {"privileged": True},
    }
    return {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": nodes(cluster).accelerator,
            "cloud.google.com/gke-tpu-topology": "x".join(map(str, cluster.topology)),
        },
        "containers": [container],
    }


def _environment(job: Job) -> list[dict[str, str]]:
    if not job.libtpu_init_args:
        return []
    return [{"name": "LIBTPU_INIT_ARGS", "value": _literal(job.libtpu_init_args)}]


def _literal(text: str) -> str:
    """Text that Kubernetes does not take for a reference to a variable."""
    return text.replace("$(", "$$(")
