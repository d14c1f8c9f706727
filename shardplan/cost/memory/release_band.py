"""How much less sure memory is under an older MaxText than under the one whose memory was compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from shardplan.cost.calibration import calibration_file
from shardplan.maxtext.releases import order_of, release_of, releases

if TYPE_CHECKING:
    from shardplan.spec import Case


def release_band(case: Case) -> float:
    """Share of the total by which the case's release may differ from the newest; 0 where the compiler confirmed it."""
    return _bands()[release_of(case.runtime.maxtext).release.order]


@cache
def _bands() -> tuple[float, ...]:
    """The share by release, oldest first: that of the last entry of `releases.yaml` at or before it."""
    entries = {order_of(name): constant.value for name, constant in calibration_file("releases").constants.items()}
    return tuple(entries[max(place for place in entries if place <= release.order)] for release in releases())
