"""Feed configurations to MaxText's own pyconfig: JSON lines of {"id", "argv"} in, {"id", "accepted", "error"} out.

Run with a Python that has MaxText. Only configuration and derived values are checked; no devices, no tracing.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import sys
import time

os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1")


def main() -> None:
    """Read standard input, write standard output."""
    out = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        from maxtext.configs import pyconfig

        logging.disable(logging.CRITICAL)
        pyconfig.max_utils.maybe_initialize_jax_distributed_system = lambda _keys: None
        for line in sys.stdin:
            entry = json.loads(line)
            began_s = time.perf_counter()
            os.environ.pop("XLA_FLAGS", None)
            result = {"id": entry["id"], "accepted": True, "error": None}
            try:
                pyconfig._initialize_pydantic(["", *entry["argv"]])  # noqa: SLF001 - the one that raises
            except (Exception, SystemExit) as error:  # noqa: BLE001 - any refusal is a result
                result |= {"accepted": False, "error": f"{type(error).__name__}: {error}"[:400]}
            result["seconds"] = round(time.perf_counter() - began_s, 3)
            print(json.dumps(result), file=out, flush=True)


if __name__ == "__main__":
    main()
