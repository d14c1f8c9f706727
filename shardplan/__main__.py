"""Entry point of `shardplan` and `python -m shardplan`."""

from __future__ import annotations


def main() -> None:
    """Run the command line; imports it only now, so that importing the package stays cheap."""
    from shardplan.cli import main as run

    run()


if __name__ == "__main__":
    main()
