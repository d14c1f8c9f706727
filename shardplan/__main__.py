"""Entry point of `shardplan` and `python -m shardplan`."""

from __future__ import annotations

import sys


def main() -> int:
    """The exit code of the command line; imports it only now, so that importing the package stays cheap."""
    try:
        from shardplan.cli import main as run

        return run()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
