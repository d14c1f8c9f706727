"""A job script: `shardplan check` as the gate, then the launch, the very same words."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from shardplan.exporters.placeholder import FOLDER

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job

_SCRIPT: Final = """\
#!/usr/bin/env bash
# {title}
# Launches only what fits. More MaxText keys may follow as arguments (steps=100); they are checked too.
set -euo pipefail

{folder}
{environment}launch=(
  {words}
  base_output_directory="$BASE_OUTPUT_DIRECTORY"
  "$@"
)
shardplan check --accelerator {accelerator} --slices {slices}{release} -- "${{launch[@]}}" >&2 || {{
  code=$?
  case $code in
    1) reason="it does not fit" ;;
    3) reason="MaxText or the hardware would refuse it" ;;
    *) reason="the check itself failed" ;;
  esac
  echo "not launched: $reason (exit $code)" >&2
  exit "$code"
}}
exec "${{launch[@]}}"
"""


SUMMARY: Final = "A job script that checks, then launches."
ABOUT: Final = """Print a job script that runs `shardplan check` on a plan's launch, and launches only what fits.

\b
Examples:
  shardplan export shell case.yaml > launch.sh
  BASE_OUTPUT_DIRECTORY=gs://my-bucket/runs bash launch.sh steps=100
"""
PLACEHOLDERS: Final = (FOLDER,)
FOR_MAXTEXT: Final = True


def export(job: Job) -> str:
    """The script; it stops with the check's own exit code unless that is 0."""
    from shardplan.exporters.launch import tpu_type
    from shardplan.exporters.maxtext.text import launcher
    from shardplan.maxtext.releases import newest

    folder = job.given.get(FOLDER)
    known = f"BASE_OUTPUT_DIRECTORY={shlex.quote(folder)}" if folder is not None else _ASK
    arguments, started = job.libtpu_init_args, len(launcher(job.choice.maxtext_release))
    return _SCRIPT.format(
        title=job.title,
        folder=known,
        environment=f"export LIBTPU_INIT_ARGS={shlex.quote(arguments)}\n" if arguments else "",
        words="\n  ".join([" ".join(map(shlex.quote, job.words[:started])), *map(shlex.quote, job.words[started:])]),
        accelerator=tpu_type(job.case.cluster),
        slices=job.case.cluster.slices,
        release=f" --maxtext {release}" if (release := job.choice.maxtext_release) != newest().name else "",
    )


_ASK: Final = ': "${BASE_OUTPUT_DIRECTORY:?where the run writes, such as gs://bucket/folder}"'
