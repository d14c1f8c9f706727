"""`shardplan init`: a case to start from."""

from __future__ import annotations


def init() -> None:
    r"""Print a commented starter case; edit it and hand it to recommend.

    \b
    Examples:
      shardplan init > case.yaml
    """
    from shardplan.cli.output import emit
    from shardplan.data import model_configs_folder

    emit((model_configs_folder() / "cases" / "starter.yaml").read_text(encoding="utf-8"))
