"""A plan about to be launched, and the parts that every way to launch it shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from shardplan.errors import Diagnostic, InputError
from shardplan.exporters.maxtext.text import TRIAL, launcher, slug, written
from shardplan.machine.chips import default_shape
from shardplan.plan.choice import plan_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.exporters.placeholder import Placeholder
    from shardplan.plan import ChoiceOut
    from shardplan.spec import Case, Cluster, Nodes

MAX_NAME: Final = 40
"""Longest workload name xpk takes; a JobSet adds up to 23 characters to it before the 63 of a host name are reached."""


@dataclass(frozen=True, slots=True)
class Job:
    """A plan about to be launched."""

    case: Case
    choice: ChoiceOut
    given: Mapping[Placeholder, str] = field(default_factory=dict)
    """What the user gave of the exporter's settings."""

    @property
    def name(self) -> str:
        """A name that Kubernetes and xpk take: letters, digits and dashes, a letter first."""
        name = slug(self.case.name)
        return (name if name[0].isalpha() else f"run-{name}")[:MAX_NAME].strip("-")

    @property
    def title(self) -> str:
        """One line for a comment at the top of a file."""
        case, choice = self.case, self.choice
        line = f"{case.name}, {plan_name(choice.rank)}: {choice.strategy} on {tpu_type(case.cluster)}"
        slices = f" x {case.cluster.slices}" if case.cluster.slices > 1 else ""
        return "".join(c if c.isprintable() else " " for c in f"{line}{slices}")

    @property
    def words(self) -> list[str]:
        """The launch without its output folder, word by word, unquoted."""
        flags = (f"{key}={written(value)}" for key, value in self.choice.maxtext_flags.items())
        return [*launcher(self.choice.maxtext_release), f"run_name={self.name}", *TRIAL, *flags]

    @property
    def libtpu_init_args(self) -> str:
        """Value of the environment variable LIBTPU_INIT_ARGS; may be empty."""
        return " ".join(self.choice.libtpu_init_args)


def nodes(cluster: Cluster) -> Nodes:
    """What the chip's nodes are called; InputError for a chip that Google Kubernetes Engine does not offer."""
    found = cluster.chip.nodes
    if found is None:
        raise InputError([Diagnostic("SP015", f"{cluster.chip.name} has no nodes in its chip file to launch on")])
    return found


def tpu_type(cluster: Cluster) -> str:
    """The slice as xpk calls it: v5litepod-256, v5p-512, tpu7x-128; by its shape where the number means another one."""
    chip, shape = cluster.chip, cluster.topology
    prefix = nodes(cluster).tpu_type_prefix
    if default_shape(chip, cluster.chips_per_slice) != shape:
        return f"{prefix}-{'x'.join(map(str, shape))}"
    return chip.accelerator(prefix, cluster.chips_per_slice)
