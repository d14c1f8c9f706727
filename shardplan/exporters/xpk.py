"""`xpk workload create`: a plan as one command that starts it on a GKE cluster.

Source: xpk 367c838 (2026-06-25), parser/workload.py.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from shardplan.exporters.placeholder import CLUSTER, FOLDER, IMAGE

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job


SUMMARY: Final = "An xpk command that starts the plan on GKE."
ABOUT: Final = """Print one `xpk workload create` command that starts a plan on a GKE cluster.

Names that are not given are left to environment variables; without those, the command stops before it does anything.

\b
Examples:
  shardplan export xpk case.yaml --cluster mine --image my-registry/maxtext
  shardplan export xpk case.yaml --rank 2 > submit.sh
"""
PLACEHOLDERS: Final = (CLUSTER, IMAGE, FOLDER)
FOR_MAXTEXT: Final = True


def export(job: Job) -> str:
    """The command for a shell, one option a line; the launch itself is one line, as xpk needs it."""
    from shardplan.exporters.launch import tpu_type

    cluster, given = job.case.cluster, job.given
    folder = _given(given.get(FOLDER), "BASE_OUTPUT_DIRECTORY")
    options = [
        f"--cluster {_given(given.get(CLUSTER), 'XPK_CLUSTER')}",
        f"--workload {job.name}",
        f"--tpu-type {tpu_type(cluster)}",
        f"--num-slices {cluster.slices}",
        f"--docker-image {_given(given.get(IMAGE), 'MAXTEXT_IMAGE')}",
        f"--env BASE_OUTPUT_DIRECTORY={folder}",
        f"--command {shlex.quote(_command(job))}",
    ]
    return " \\\n  ".join(["xpk workload create", *options]) + "\n"


def _given(value: str | None, variable: str) -> str:
    """A name quoted for a shell, or the variable that holds it, which stops the shell if it is not set."""
    return f'"${{{variable}:?}}"' if value is None else shlex.quote(value)


def _command(job: Job) -> str:
    """What each host runs."""
    exports = f"export LIBTPU_INIT_ARGS={_quoted(job.libtpu_init_args)}; " if job.libtpu_init_args else ""
    words = " ".join(map(_quoted, job.words))
    return f'{exports}{words} base_output_directory="$BASE_OUTPUT_DIRECTORY"'


def _quoted(word: str) -> str:
    """A word in double quotes where it needs any, so that the whole command can stand in single ones."""
    if shlex.quote(word) == word:
        return word
    return '"' + re.sub(r'([\\"$`])', r"\\\1", word) + '"'
