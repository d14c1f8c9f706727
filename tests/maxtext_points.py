"""Points MaxText itself answered: configurations as cases with one candidate, and what it said."""

from __future__ import annotations

import json
from typing import Any

from places import DATA

from shardplan.loaders.presets import load_architecture
from shardplan.spec import Architecture, Case, Optimizer, Split, Workload
from shardplan.splits.candidates import Candidates

FOLDER = DATA / "maxtext"


def read_points(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text().splitlines()]


def architecture_of(point: dict[str, Any]) -> Architecture:
    architecture = load_architecture(point["model"])
    override = point.get("override", {})
    if "mtp_num_layers" in override:
        architecture = architecture.model_copy(update={"n_mtp_layers": override["mtp_num_layers"]})
    if depth := override.get("base_num_decoder_layers"):
        *first, last = architecture.layer_groups
        rest = depth - sum(group.count * group.layers_per_block for group in first)
        last = last.model_copy(update={"count": rest // last.layers_per_block})
        architecture = architecture.model_copy(update={"layer_groups": (*first, last)})
    return architecture


def case_of(point: dict[str, Any]) -> Case:
    workload = Workload(
        sequence_length=point["sequence"],
        per_device_batch=point["batch"],
        optimizer=Optimizer(**point["optimizer"]),
    )
    # State does not depend on the machine.
    return Case.model_construct(name=point["id"], architecture=architecture_of(point), workload=workload)


def candidate_of(point: dict[str, Any]) -> Candidates:
    split = Split(
        ici=point["mesh"],
        per_device_batch=float(point["batch"]),
        gradient_accumulation=point["accumulation"],
    )
    return Candidates.of_splits([split], [1], [False])
