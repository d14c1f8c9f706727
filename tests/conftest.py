from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, settings

if TYPE_CHECKING:
    from collections.abc import Generator

# Guard: a busy machine is no failure; time is measured in benchmarks/.
settings.register_profile("shardplan", deadline=None)
# For mutants: the same examples each time, and no search for a smaller one.
settings.register_profile("mutants", deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))
settings.load_profile("shardplan")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Slow tests go uncounted: coverage would double their time, and the others reach the same lines."""
    coverage = getattr(item.config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    if coverage is None or item.get_closest_marker("slow") is None:
        return (yield)
    coverage.pause()
    try:
        return (yield)
    finally:
        coverage.resume()
