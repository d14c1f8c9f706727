"""Combinations that older releases refused and the newest does not: each with the first and the last release that did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from shardplan.maxtext.releases import order_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shardplan.loaders.maxtext_flags.settings import Settings


@dataclass(frozen=True, slots=True)
class Mesh:
    """Degrees above 1 by network."""

    ici: Mapping[str, int]
    dcn: Mapping[str, int]

    def uses(self, *axes: str) -> bool:
        """Whether every one of these axes is in use."""
        return all(axis in self.ici or axis in self.dcn for axis in axes)


@dataclass(frozen=True, slots=True)
class Former:
    """A combination of keys and axes that some releases refused."""

    since: str
    until: str
    key: str
    """The key to blame."""
    is_wrong: Callable[[Settings, Mesh], bool]
    message: str


def _drops_nothing(settings: Settings) -> bool:
    return bool(settings["num_experts"] > 1 and settings["sparse_matmul"])


FORMER: Final = (
    Former(
        "maxtext-tutorial-v1.2.0",
        "0.2.3",
        "context_parallel_strategy",
        lambda s, mesh: s["context_parallel_strategy"].lower() == "ring" and mesh.uses("context"),
        "context_parallel_strategy=ring on TPUs",
    ),
    Former(
        "tpu-recipes-v0.1.0",
        "tpu-recipes-v0.1.4",
        "sparse_matmul",
        lambda s, mesh: _drops_nothing(s) and mesh.uses("pipeline"),
        "sparse_matmul=true with pipeline parallelism",
    ),
    Former(
        "0.1.0",
        "maxtext-tutorial-v1.2.0",
        "sparse_matmul",
        lambda s, mesh: _drops_nothing(s) and mesh.uses("expert", "pipeline"),
        "sparse_matmul=true with expert and pipeline parallelism",
    ),
    Former(
        "0.1.0",
        "maxtext-tutorial-v1.2.0",
        "sparse_matmul",
        lambda s, mesh: _drops_nothing(s) and mesh.uses("fsdp", "expert", "tensor"),
        "sparse_matmul=true with fsdp, expert and tensor parallelism together",
    ),
    Former(
        "tpu-recipes-v0.1.0",
        "maxtext-tutorial-v1.2.0",
        "ici_expert_parallelism",
        lambda _, mesh: "expert" in mesh.ici and "expert" in mesh.dcn,
        "expert parallelism inside slices and across them at once",
    ),
    Former(
        "tpu-recipes-v0.1.0",
        "tpu-recipes-v0.1.2",
        "ici_pipeline_parallelism",
        lambda s, mesh: s["decoder_block"] == "deepseek" and mesh.uses("pipeline"),
        "decoder block deepseek with pipeline parallelism",
    ),
    Former(
        "tpu-recipes-v0.1.0",
        "maxtext-tutorial-v1.2.0",
        "optimizer_memory_host_offload",
        lambda s, _: s["opt_type"] == "adam_pax" and s["optimizer_memory_host_offload"],
        "opt_type=adam_pax with optimizer_memory_host_offload=true",
    ),
)
"""Source: validation in configs/types.py of 0.2.3; in pyconfig.py before 81d653c93 (2025-11-14) replaced it without the others."""


def check_former_combinations(settings: Settings, ici: Mapping[str, int], dcn: Mapping[str, int]) -> None:
    """Note every combination that the settings' own release refuses, and no longer the newest."""
    release, mesh = settings.table.release, Mesh(ici, dcn)
    for former in FORMER:
        is_in_force = release.has(former.since) and not release.order > order_of(former.until)
        if is_in_force and former.is_wrong(settings, mesh):
            message = f"MaxText {release} refuses {former.message}"
            settings.refuse("SP015", former.key, message, f"later releases than {former.until} take it")
