"""Our prediction beside the compiler's verdict, for one plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardplan.errors import Diagnostic, InputError
from shardplan.machine.chips import accelerator_name, default_shape
from shardplan.plan import CompiledOut, VerifyOut
from shardplan.verify.runner import compile_flags

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case, Cluster
    from shardplan.verify.environment import Environment


def verify(  # noqa: PLR0913 - one argument an option of the command
    case: Case,
    choice: ChoiceOut,
    environment: Environment,
    *,
    time_limit_s: float,
    progress: Callable[[str, float], None],
    cache: Path | None,
) -> VerifyOut:
    """One plan compiled and compared. Raises InputError where the compiler, or that MaxText, cannot be asked."""
    installed, asked = environment.versions["maxtext"], choice.maxtext_release
    # Guard: a release that is a commit has no version to compare.
    if case.runtime.maxtext is not None and asked[0].isdigit() and "." in asked and installed != asked:
        message = f"the plan is for MaxText {asked}, {environment.python} has {installed}"
        raise InputError([Diagnostic("SP016", message, None, f"pass --python with one that has maxtext=={asked}")])
    compiled = compile_flags(
        environment,
        choice.maxtext_flags,
        topology_name(case.cluster),
        slices=case.cluster.slices,
        time_limit_s=time_limit_s,
        progress=progress,
        cache=cache,
    )
    total = (compiled.arguments_bytes or 0) + (compiled.temp_bytes or 0)
    return VerifyOut(
        case=case.name,
        rank=choice.rank,
        strategy=choice.strategy,
        remat_policy=choice.remat_policy,
        predicted=choice.memory,
        predicted_verdict=choice.verdict,
        compiled=CompiledOut(
            arguments_bytes=compiled.arguments_bytes,
            temp_bytes=compiled.temp_bytes,
            limit_bytes=compiled.limit_bytes or case.cluster.hbm_limit_bytes,
            oom=compiled.out_of_memory,
            needed_bytes=compiled.needed_bytes,
            error=compiled.error,
        ),
        ratio=choice.memory.total_bytes / total if total else None,
        seconds=compiled.seconds,
        cached=compiled.cached,
        versions=environment.versions,
    )


def topology_name(cluster: Cluster) -> str:
    """MaxText's `compile_topology`; InputError for a shape its table does not name."""
    if cluster.topology != default_shape(cluster.chip, cluster.chips_per_slice):
        shape = "x".join(map(str, cluster.topology))
        message = f"MaxText names no compile topology for a {cluster.chip.name} slice of {shape}"
        hint = f"the slice of as many chips that it can compile for is {accelerator_name(cluster)}"
        raise InputError([Diagnostic("SP016", message, None, hint)])
    return accelerator_name(cluster)
