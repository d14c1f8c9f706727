"""Which buffers are alive at each moment, and how many of each, on small models: none comes, goes or grows unseen.

The corpus says how near the sums are to the compiler's; this says which buffer a change touches. After a deliberate change `python -m benchmarks.alive --write` renews the file; its diff is what the change does.
"""

from __future__ import annotations

import pytest

from benchmarks.alive import alive, read

CASES = read()


@pytest.mark.parametrize("name", CASES)
def test_the_buffers_alive_are_those_of_the_file(name: str) -> None:
    found = alive(CASES[name])
    assert found.keys() == CASES[name]["alive"].keys()
    for moment, buffers in CASES[name]["alive"].items():
        assert found[moment] == pytest.approx(buffers), moment
