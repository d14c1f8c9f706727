"""Let MaxText build and trace the train step of configurations, without compiling.

JSON lines of {"id", "argv"} in; {"id", "accepted", "stage", "error", "seconds", "versions"} out, as soon as each is known. Run with a
Python that has MaxText. The stages are those of its own ahead-of-time compiler: configuration, mesh, the shapes and
shardings of the state, and lowering. No TPU is needed: libtpu describes the topology.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import logging
import os
import sys
import time
from importlib.metadata import version
from typing import Any

os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_ACCELERATOR_TYPE="tpu7x-8",
    TPU_WORKER_HOSTNAMES="localhost",
    ALLOW_MULTIPLE_LIBTPU_LOAD="true",
    TF_CPP_MIN_LOG_LEVEL="3",
)

KEPT = 12
"""Configurations whose traces are kept for the next ones, before memory is freed."""


class Lowered(Exception):  # noqa: N818 - not an error: the way out before the compiler
    """Raised in place of compiling: the configuration is traced."""


def judge(argv: list[str], train_compile: Any, entered: list[str]) -> tuple[str, str | None]:
    """The last stage that was entered, and why MaxText refuses the configuration there; None if it is lowered."""
    entered[:] = ["configuration"]
    for variable in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"):
        os.environ.pop(variable, None)
    try:
        train_compile.main(["", *argv])
    except Lowered:
        return entered[-1], None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any refusal is a result
        return entered[-1], " ".join(f"{type(error).__name__}: {error}".split())[:400]
    return entered[-1], "nothing was lowered"


def announce(train_compile: Any, entered: list[str]) -> None:
    """Note each stage as it is entered, describe each topology once, and leave before the compiler."""

    def stop(*_args: Any, **_kwargs: Any) -> None:
        raise Lowered

    def noting(name: str, stage: str) -> None:
        inner = getattr(train_compile, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            entered.append(stage)
            return inner(*args, **kwargs)

        setattr(train_compile, name, wrapper)

    def described(**keys: Any) -> Any:
        known = json.dumps(keys, sort_keys=True)
        if known not in topologies:
            topologies[known] = describe(**keys)
        return topologies[known]

    topologies: dict[str, Any] = {}
    describe, train_compile.get_topology_desc = train_compile.get_topology_desc, described
    noting("get_topology_mesh", "mesh")
    noting("get_shaped_inputs", "trace")
    train_compile.jax.stages.Lowered.compile = stop


def main() -> None:
    """Read standard input, write standard output."""
    out, entered = sys.stdout, ["configuration"]
    versions = ", ".join(f"{name} {version(name)}" for name in ("maxtext", "jax", "libtpu"))
    with contextlib.redirect_stdout(io.StringIO()):
        import jax
        from maxtext.trainers.pre_train import train_compile

        logging.disable(logging.CRITICAL)
        announce(train_compile, entered)
        gc.freeze()
        for number, line in enumerate(sys.stdin, 1):
            entry, started = json.loads(line), time.process_time()
            stage, error = judge(entry["argv"], train_compile, entered)
            seconds = round(time.process_time() - started, 1)
            verdict = {"id": entry["id"], "accepted": error is None, "stage": stage, "error": error}
            print(json.dumps(verdict | {"seconds": seconds, "versions": versions}), file=out, flush=True)
            if number % KEPT == 0:
                jax.clear_caches()
                gc.collect()


if __name__ == "__main__":
    main()
