"""A made-up exporter: the launch as a script that outlives its terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from shardplan.exporters.placeholder import FOLDER, Placeholder

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job

LOG: Final = Placeholder("log", "FILE", "Where the output goes", ("train.log", "/dev/null"))
SUMMARY: Final = "A script that outlives its terminal."
ABOUT: Final = """Print a script that starts a plan and outlives its terminal.

\b
Examples:
  shardplan export nohup_script case.yaml --log /dev/null > start.sh
"""
PLACEHOLDERS: Final = (FOLDER, LOG)
FOR_MAXTEXT: Final = True


def export(job: Job) -> str:
    """The script, of one line."""
    folder = job.given.get(FOLDER)
    where = '"${BASE_OUTPUT_DIRECTORY:?}"' if folder is None else shlex.quote(folder)
    libtpu = f"LIBTPU_INIT_ARGS={shlex.quote(job.libtpu_init_args)} " if job.libtpu_init_args else ""
    return f"{libtpu}nohup {shlex.join(job.words)} base_output_directory={where} > {job.given.get(LOG, LOG.choices[0])}\n"
