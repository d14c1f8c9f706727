"""Compiles one MaxText train step for a TPU topology and prints what the compiler says. Needs no TPU.

This file is run as a script by a Python that has MaxText and libtpu; it imports nothing of shardplan. The environment
says in TPU_ACCELERATOR_TYPE on what machine libtpu is to believe itself. The script reads
`{"flags": {...}, "topology": NAME, "slices": 1, "stop_after": "compile"}` from standard input and writes JSON lines to
standard output: `{"stage": name}` as it goes on, and last `{"result": {...}}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import IO, Any

STAGES = ("import", "config", "mesh", "compile")
OUT_OF_MEMORY = re.compile(
    r"total memory required for ([\w ]+) \(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"
)
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
FIXED = {
    "run_name": "verify",
    "dataset_type": "synthetic",
    "enable_checkpointing": "false",
    "skip_jax_distributed_system": "true",
    "base_output_directory": "unused",
}


def say(channel: IO[str], **event: Any) -> None:
    """One event, at once."""
    channel.write(json.dumps(event) + "\n")
    channel.flush()


def outcome(request: dict[str, Any], channel: IO[str]) -> dict[str, Any]:
    """The compiler's verdict on a request."""
    say(channel, stage="import")
    import jax
    from absl import logging
    from maxtext.configs import pyconfig
    from maxtext.trainers.pre_train import train_compile

    logging.set_verbosity(logging.ERROR)
    base = Path(pyconfig.__file__).parent / "base.yml"
    flags = {
        **FIXED,
        "compile_topology": request["topology"],
        "compile_topology_num_slices": request.get("slices", 1),
        **request["flags"],
    }
    argv = ["verify", str(base), *(f"{key}={value}" for key, value in flags.items())]
    jax.config.update("jax_enable_compilation_cache", False)  # noqa: FBT003 - jax wants it so
    say(channel, stage="config")
    # The one that raises, by its name since 0.2.3 and before.
    read = getattr(pyconfig, "_initialize_pydantic", None) or pyconfig.initialize_pydantic
    config = pyconfig.HyperParameters(read(argv))
    say(channel, stage="mesh")
    mesh = {axis: int(size) for axis, size in train_compile.get_topology_mesh(config).shape.items() if size > 1}
    if request.get("stop_after") == "mesh":
        return {"mesh": mesh}
    say(channel, stage="compile")
    caught = {}
    inner = train_compile.jit_and_compile

    def capture(*args: Any, **kwargs: Any) -> Any:
        caught["compiled"] = inner(*args, **kwargs)
        return caught["compiled"]

    train_compile.jit_and_compile = capture
    train_compile.main(argv)
    stats = caught["compiled"].memory_analysis()
    return {
        "mesh": mesh,
        "memory": {k: int(getattr(stats, k)) for k in dir(stats) if k.endswith("_in_bytes")},
    }


def main() -> None:
    """Answer one request."""
    channel = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.environ.update(
        JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_WORKER_HOSTNAMES="localhost",
        ALLOW_MULTIPLE_LIBTPU_LOAD="true", TF_CPP_MIN_LOG_LEVEL="3",
    )  # fmt: skip
    request, started = json.load(sys.stdin), time.monotonic()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            result = outcome(request, channel)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a refusal is an answer
        text = str(error)
        result = {"error": f"{type(error).__name__}: {text}"[:3000]}
        if found := OUT_OF_MEMORY.search(text):
            needed, limit = float(found[2]) * UNITS[found[3]], float(found[4]) * UNITS[found[5]]
            result["out_of_memory"] = {"what": found[1], "needed_bytes": needed, "limit_bytes": limit}
    result["seconds"] = round(time.monotonic() - started, 1)
    say(channel, result=result)


if __name__ == "__main__":
    main()
