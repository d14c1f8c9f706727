"""Entry point of `shardplan` and `python -m shardplan`."""

from __future__ import annotations

import gc
import os
import sys

RARELY = 100_000
"""Allocations between garbage collections: a run is short and makes few cycles; by default it would collect 200 times."""


def main() -> int:
    """The exit code of the command line; imports it only now, so that importing the package stays cheap."""
    gc.set_threshold(RARELY)
    # No matrix is ever multiplied here, so numpy's linear algebra need not start threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic would search every installed distribution for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    try:
        from shardplan.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
