"""A JAX script out: the plan's mesh and shardings, without MaxText."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shardplan.exporters.launch import Job

SUMMARY: Final = "A JAX script with mesh and shardings."
ABOUT: Final = """Print a short JAX script with a plan's mesh and the sharding of every weight by logical axis.

It needs JAX alone, allocates nothing, and runs on CPU devices where the mesh is small.

\b
Examples:
  shardplan export jax case.yaml > mesh.py
  shardplan export jax case.yaml --rank 2 | python3 -
"""
PLACEHOLDERS: Final = ()
FOR_MAXTEXT: Final = False


def export(job: Job) -> str:
    """The script for one plan; any model, MaxText need not know it."""
    from shardplan.exporters.jax.script import script

    return script(job)
