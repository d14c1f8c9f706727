"""Does MaxText trace what shardplan emits, and refuse what shardplan refuses? Run by `make maxtext-acceptance`.

As `benchmarks.acceptance`, one level deeper: MaxText builds the model and traces its train step, which takes seconds, and
then stops before compiling. Emitted flags are ranked plans, plans from all over the legal ones, and plans of unusual settings.
Results are written to tests/data/maxtext/traced.jsonl after each; rows that are there already are not traced again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.acceptance import MODELS, Entry, launch_argv, launch_entry, ours
from benchmarks.trace_changes import TRACE_CHANGES
from shardplan.engine.decide import decide, judge_split
from shardplan.engine.ranking import OBJECTIVES
from shardplan.engine.variants import expand, variants_of
from shardplan.exporters import maxtext
from shardplan.loaders.load import parse_case
from shardplan.machine.chips import resolve_cluster
from shardplan.source import parse_yaml
from shardplan.splits.enumeration import enumerate_candidates, split_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from shardplan.spec import Case

RESULTS = Path(__file__).parent.parent / "tests" / "data" / "maxtext" / "traced.jsonl"
CLUSTERS = (("tpu7x-128", 1), ("v5p-256", 1), ("v6e-256", 2), ("tpu7x-512", 1), ("tpu7x-64", 2), ("v5p-1024", 1))
RANKS = (1, 2, 4)
"""Ranked plans that are traced of each model; each with an objective and on a cluster of its own."""
PER_MODEL = 2
"""Plans traced of each model from all over its legal ones."""
MOST_UNROLLED = 16
"""Layers of a pipeline stage that are traced one by one; more take minutes."""
TRIES = 12
"""Plans looked at to find so many that no rule forbids."""
GOLDEN = (5**0.5 - 1) / 2
SETTINGS = (
    ("llama3.1-8b", "tpu7x-16", "workload: {precision: fp8}"),
    ("mixtral-8x7b", "tpu7x-64", "workload: {precision: fp8}"),
    ("llama3.1-8b", "tpu7x-64", "runtime: {quantization: int8}"),
    ("llama3.1-8b", "tpu7x-64", "runtime: {context_strategy: ring}"),
    ("llama3.1-8b", "tpu7x-64", "runtime: {context_strategy: ulysses, context_load_balance: false}"),
    ("llama3.1-8b", "tpu7x-16", "runtime: {attention: dot_product}"),
    ("llama3.1-8b", "tpu7x-64", "runtime: {pipeline_gather_weights: per_repeat}"),
    ("llama3.1-8b", "tpu7x-64", "runtime: {pipeline_gather_weights: once, pipeline_delay_activations: true}"),
    (
        "llama3.1-8b",
        "tpu7x-64",
        "runtime: {attention_tile_tokens: 2048, fused_attention_backward: true, iota_embed: true}",
    ),
    ("llama3.1-8b", "tpu7x-16", "workload: {optimizer: {name: adamw, shard_over_data: true}}"),
    ("llama3.1-8b", "tpu7x-16", "workload: {optimizer: {name: adamw, host_offload: true}}"),
    ("llama3.1-8b", "tpu7x-16", "workload: {optimizer: {name: sgd}}"),
    ("llama3.1-8b", "tpu7x-16", "workload: {optimizer: {name: adam_pax}}"),
    ("qwen3-8b", "tpu7x-64", "workload: {optimizer: {name: muon}}"),
    ("mixtral-8x7b", "tpu7x-64", "runtime: {sparse_matmul: false, capacity_factor: 1.25}"),
    ("mixtral-8x7b", "tpu7x-64", "runtime: {megablox: false, weight_sum_in_float32: false}"),
    ("qwen3-30b-a3b", "tpu7x-64", "runtime: {ragged_buffer_factor: 2.0, logits_in_float32: false}"),
    ("gemma3-4b", "tpu7x-16", "runtime: {tokamax_splash: true}"),
    *(
        ("llama3.1-8b", "tpu7x-16", f"workload: {{sequence_length: {n}}}")
        for n in (64, 130, 192, 448, 640, 896, 1280, 2304)
    ),
    ("gemma3-4b", "tpu7x-16", "workload: {sequence_length: 768}"),
    ("qwen3-30b-a3b", "tpu7x-64", "workload: {precision: fp8}"),
    ("deepseek2-16b", "tpu7x-64", "workload: {precision: fp8}"),
    ("gpt-oss-20b", "tpu7x-64", "workload: {precision: fp8}"),
    ("llama3.1-8b", "tpu7x-16", "runtime: {attention_tile_tokens: 64}"),
)
"""Settings a case may have, each with a model and a cluster."""


def emitted() -> Iterator[Entry]:
    """Flags of plans: ranked, from anywhere, and with settings."""
    yield from _ranked()
    yield from _anywhere()
    for model, accelerator, text in SETTINGS:
        case = _case(model, accelerator, 1, text)
        yield from _rows(case, accelerator, 1, f"{model}/{accelerator}/{text}", 1)


def _ranked() -> Iterator[Entry]:
    for place, model in enumerate(MODELS):
        for turn, rank in enumerate(RANKS):
            accelerator, slices = CLUSTERS[(place + 2 * turn) % len(CLUSTERS)]
            objective = OBJECTIVES[(place + turn) % len(OBJECTIVES)]
            plans = decide(_case(model, accelerator, slices), rank, objective).plans
            if len(plans) >= rank:
                entry_id = f"{model}/{accelerator}x{slices}/{objective} {rank}"
                yield launch_entry(entry_id, accelerator, slices, dict(plans[rank - 1].maxtext_flags))


def _anywhere() -> Iterator[Entry]:
    for place, model in enumerate(MODELS):
        accelerator, slices = CLUSTERS[place % len(CLUSTERS)]
        yield from _rows(
            _case(model, accelerator, slices), accelerator, slices, f"{model}/{accelerator}x{slices}", PER_MODEL
        )


def _rows(case: Case, accelerator: str, slices: int, name: str, wanted: int) -> Iterator[Entry]:
    """Flags of a few plans of a case, spread over all of them by the golden ratio, which repeats neither mesh nor policy."""
    splits = enumerate_candidates(case).candidates
    rows = expand(case, splits, variants_of(case, splits))
    for i in range(TRIES):
        row = int((i + 0.5) * GOLDEN * len(rows)) % len(rows)
        split = rows.split_at(row)
        flags = maxtext.flags(case, split)
        is_quick = int(flags.get("num_layers_per_pipeline_stage", 1)) <= MOST_UNROLLED
        if wanted and is_quick and judge_split(case, split_rows(case, split), name).verdict != "invalid":
            wanted -= 1
            yield launch_entry(f"{name}/{row}", accelerator, slices, flags)


def _case(model: str, accelerator: str, slices: int, setting: str = "") -> Case:
    cluster = resolve_cluster(None, accelerator=accelerator, slices=slices)
    workload = {"sequence_length": 2048 if "gpt3" in model else 8192, "global_batch": 4 * cluster.devices}
    text = json.dumps({"model": model, "workload": workload, "cluster": {"accelerator": accelerator, "slices": slices}})
    document = parse_yaml(text, "case.yaml")
    for section, keys in parse_yaml(setting, "setting.yaml").value.items() if setting else ():
        document.value.setdefault(section, {}).update(keys)
    return parse_case(document)


def changed() -> Iterator[Entry]:
    """Launches on both sides of the line."""
    for row, accelerator, slices, model, changes in TRACE_CHANGES:
        base = {"model_name": model, "per_device_batch_size": 4, "max_target_length": 8192}
        base["allow_split_physical_axes"] = "true"
        for flags in changes:
            merged = base | dict(pair.split("=", 1) for pair in flags.split())
            yield launch_entry(f"{row}: {model} {accelerator}x{slices} {flags}", accelerator, slices, merged)


SOURCES = {"emitted": emitted, "changed": changed}


def is_stricter(row: Entry, why: str) -> bool:
    """Whether we refuse on purpose what is traced: see docs/maxtext_coverage.md, rows C1 and B2."""
    return "SP541" in why or ("SP510" in why and row["flags"].get("attention") == "dot_product")


# --- verdicts -----------------------------------------------------------------------------------------------------------


def theirs(entries: list[Entry], python: str) -> Iterator[Entry]:
    """MaxText's verdicts, in order, each as soon as it is known; the worker is asked for one at a time."""
    command = ["nice", "-n", "5", python, str(Path(__file__).parent / "maxtext_trace.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin
        assert worker.stdout
        for entry in entries:
            print(json.dumps({"id": entry["id"], "argv": launch_argv(entry)}), file=worker.stdin, flush=True)
            line = worker.stdout.readline()
            if not line:
                sys.exit(f"the worker died on {entry['id']}")
            found = json.loads(line)
            yield entry | {key: found[key] for key in ("accepted", "stage", "error", "versions")}


def recorded() -> dict[str, Entry]:
    """What was traced before, by id."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def write(rows: Iterable[Entry]) -> None:
    """Replace the record."""
    RESULTS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> int:
    """Print the disagreements; 0 if there are none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="a Python that has MaxText")
    parser.add_argument("--again", action="store_true", help="trace what is recorded, too")
    options = parser.parse_args()
    entries = [{"kind": kind, **entry} for kind, source in SOURCES.items() for entry in source()]
    rows = {} if options.again else recorded()
    missing = [entry for entry in entries if rows.get(entry["id"], {}).get("flags") != entry["flags"]]
    for row in theirs(missing, options.python):
        rows[row["id"]] = row
        write(rows.values())
    rows = {entry["id"]: rows[entry["id"]] for entry in entries}
    write(rows.values())
    judged, disagreements = ours(entries), 0
    for entry_id, row in rows.items():
        found, why = judged[entry_id]
        expected = "accepted" if row["accepted"] else "refused"
        if found == "unmodelled":
            print(f"{entry_id}\n  not modelled: {why[:200]}")
        elif found != expected and not (row["accepted"] and is_stricter(row, why)):
            disagreements += 1
            print(f"{entry_id}\n  ours: {found} {why[:300]}\n  MaxText: {expected} {row['error'] or ''}")
    for kind in SOURCES:
        of_kind = [row["accepted"] for row in rows.values() if row["kind"] == kind]
        print(f"{kind}: {len(of_kind)}, MaxText traces {sum(of_kind)}")
    print(f"disagreements: {disagreements}")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
