"""What a launch needs that no plan knows: settings that an exporter asks of the user, as options of its command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Something a launch needs that no plan knows: an option of the exporter's command."""

    name: str
    """The option without its dashes."""
    metavar: str
    about: str
    choices: tuple[str, ...] = ()
    """Values it may have, the first by default; any text if there are none."""


CLUSTER: Final = Placeholder("cluster", "NAME", "GKE cluster; by default ${XPK_CLUSTER}.")
IMAGE: Final = Placeholder("image", "IMAGE", "Container image with MaxText; by default ${MAXTEXT_IMAGE}.")
FOLDER: Final = Placeholder(
    "base-output-directory", "URL", "Where runs write, such as gs://bucket/runs; by default ${BASE_OUTPUT_DIRECTORY}."
)
