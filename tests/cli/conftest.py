from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from shardplan import cli

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Ran:
    """What a run of the command line left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run `shardplan` in this process, as its entry point does."""

    def run_(*args: str) -> Ran:
        code = cli.main([str(arg) for arg in args])
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Ran(code, out, err)

    return run_
