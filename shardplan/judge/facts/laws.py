"""Facts about legality: one a law of splits, true where it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardplan.catalogue.dimension import TRUTH
from shardplan.judge.facts.observation import Fact
from shardplan.splits.laws import LAWS, SPLIT_LAWS

if TYPE_CHECKING:
    from shardplan.splits.laws import Law


def _fact(law: Law) -> Fact:
    level = "split" if law in SPLIT_LAWS else "mesh"
    return Fact(law.name, TRUTH, law.about, lambda o: law.mask(o.case, o.candidates), level=level)  # type: ignore[arg-type]


FACTS: Final = tuple(_fact(law) for law in LAWS)
