"""Feed configurations to MaxText's own pyconfig and mesh creation, without compiling.

JSON lines of {"id", "argv", "machine": {"kind", "shape", "cores", "slices"}} in; {"id", "accepted", "error"} out. Run with
a Python that has MaxText. The devices are stand-ins with the coordinates a slice of that shape has; `machine` may be left
out, then no mesh is made.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import itertools
import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1")
BASE = str(Path(importlib.util.find_spec("maxtext").submodule_search_locations[0]) / "configs" / "base.yml")


@dataclass(frozen=True)
class Device:
    """What jax's mesh creation reads of a TPU device."""

    id: int
    device_kind: str
    coords: tuple[int, ...]
    core_on_chip: int
    slice_index: int
    platform: str = "tpu"
    process_index: int = 0


def devices(machine: dict[str, Any]) -> list[Device]:
    """The devices of slices, x fastest, as the runtime orders them."""
    x, y, z = [*machine["shape"], 1][:3]
    places = itertools.product(range(machine["slices"]), range(z), range(y), range(x), range(machine["cores"]))
    return [
        Device(i, machine["kind"], (px, py, pz), core, slice_index)
        for i, (slice_index, pz, py, px, core) in enumerate(places)
    ]


def judge(entry: dict[str, Any], pyconfig: Any, maxtext_utils: Any) -> str | None:
    """Why MaxText refuses the configuration or its mesh; None if it takes both."""
    os.environ.pop("XLA_FLAGS", None)
    try:
        # The one that raises, by its name before and after 0.2.3.
        read = getattr(pyconfig, "_initialize_pydantic", None) or pyconfig.initialize_pydantic
        config = read(["", BASE, *entry["argv"]])
        if machine := entry.get("machine"):
            maxtext_utils.create_device_mesh(pyconfig.HyperParameters(config), devices(machine))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any refusal is a result
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return None


def main() -> None:
    """Read standard input, write standard output."""
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        from maxtext.configs import pyconfig
        from maxtext.utils import maxtext_utils

        logging.disable(logging.CRITICAL)
        pyconfig.max_utils.maybe_initialize_jax_distributed_system = lambda _keys: None
        for line in sys.stdin:
            entry = json.loads(line)
            error = judge(entry, pyconfig, maxtext_utils)
            print(json.dumps({"id": entry["id"], "accepted": error is None, "error": error}), file=out, flush=True)


if __name__ == "__main__":
    main()
