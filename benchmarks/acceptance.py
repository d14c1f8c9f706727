"""Does MaxText accept what shardplan emits, and refuse what shardplan refuses? Run: `make maxtext-acceptance`.

Emitted flags come from plans over models, chips, slices and batches; published ones from recipes; the others are one change
away from a legal launch, on both sides of the line. MaxText's configuration and mesh creation judge both; nothing is compiled. Results are written
to tests/data/maxtext_acceptance.jsonl, which the test suite reads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.acceptance_changes import CHANGES
from shardplan.engine.variants import expand, variants_of
from shardplan.exporters import maxtext
from shardplan.exporters.maxtext.text import written
from shardplan.launch.gate import check_lines
from shardplan.loaders.load import parse_case
from shardplan.machine.chips import accelerator_name, resolve_cluster
from shardplan.maxtext.releases import newest
from shardplan.source import parse_yaml
from shardplan.splits.enumeration import enumerate_candidates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shardplan.spec import Case, Cluster

DATA = Path(__file__).parent.parent / "tests" / "data"
RECIPES = DATA / "recipe_launches.jsonl"
KINDS = {"v4": "TPU v4", "v5e": "TPU v5 lite", "v5p": "TPU v5", "v6e": "TPU v6 lite", "tpu7x": "TPU7x"}
"""What jax calls the chips."""
PER_CASE = 6
"""Plans taken from each case, spread over all of its legal ones; two for releases other than the newest."""
MODELS = (
    "llama3.1-8b", "llama3.1-70b", "llama3.1-405b", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-32b", "deepseek3-671b",
    "gpt-oss-120b", "gemma3-27b", "olmo3-32b", "llama4-17b-16e", "qwen2.5-7b", "gpt3-175b", "kimi-k2-1t",
)  # fmt: skip
SLICES = (("tpu7x-128", 1), ("v5p-256", 1), ("v6e-256", 2), ("tpu7x-16", 2))
Entry = dict[str, Any]


def emitted(release: str) -> Iterator[Entry]:
    """Flags of legal plans for a release."""
    per_case = PER_CASE if release == newest().name else 2
    for model in MODELS:
        for accelerator, slices in SLICES:
            case = _case(model, accelerator, slices, release)
            splits = enumerate_candidates(case).candidates
            rows = expand(case, splits, variants_of(case, splits))
            count = len(rows)
            for i in range(min(per_case, count)):
                # A fixed stride over all plans, a different residue for each: every axis and policy turns up.
                row = (i * count // per_case + 7 * i) % count
                split = rows.split_at(row)
                entry_id = f"{model}/{accelerator}x{slices}/{row}"
                yield launch_entry(entry_id, accelerator, slices, maxtext.flags(case, split))


def _case(model: str, accelerator: str, slices: int, release: str) -> Case:
    cluster = resolve_cluster(None, accelerator=accelerator, slices=slices)
    text = (
        f"model: {model}\nworkload: {{sequence_length: 8192, global_batch: {4 * cluster.devices}}}\n"
        f"cluster: {{accelerator: {accelerator}, slices: {slices}}}\n"
    )
    return parse_case(
        parse_yaml(text.replace("8192", "2048") if "gpt3" in model else text, "case.yaml"), maxtext=release
    )


def launch_entry(entry_id: str, accelerator: str, slices: int, flags: dict[str, Any]) -> Entry:
    """A launch as `check --lines` reads it."""
    return {"id": entry_id, "topology": accelerator, "slices": slices, "flags": flags}


def published(_release: str) -> Iterator[Entry]:
    """The explicit flags of published recipes, as far as MaxText's configuration judges them."""
    for line in RECIPES.read_text(encoding="utf-8").splitlines():
        recipe = json.loads(line)
        yield launch_entry(recipe["id"], recipe["topology"], recipe["slices"], recipe["flags"])


def changed(_release: str) -> Iterator[Entry]:
    """Launches on both sides of the line."""
    for row, accelerator, slices, model, changes in CHANGES:
        base = {"model_name": model, "per_device_batch_size": 4, "max_target_length": 8192}
        for flags in changes:
            merged = base | dict(pair.split("=", 1) for pair in flags.split())
            yield launch_entry(f"{row}: {model} {accelerator}x{slices} {flags}", accelerator, slices, merged)


# --- verdicts -----------------------------------------------------------------------------------------------------------


def ours(entries: list[Entry], release: str) -> dict[str, tuple[str, str]]:
    """Our verdict on each by id (accepted, refused, unmodelled) and why, as `shardplan check --from` gives it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entries.jsonl"
        path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
        judged = check_lines(str(path), maxtext=release)
    verdicts = {entry["id"]: ("unmodelled", "") for entry in entries}
    for result in judged.results:
        why = "; ".join(f"{problem.code} {problem.message}" for problem in result.problems)
        verdicts[result.id] = ("refused" if result.verdict == "invalid" else "accepted", why)
    for diagnostic in judged.unreadable:
        assert diagnostic.mark is not None
        assert diagnostic.mark.line is not None
        verdicts[entries[diagnostic.mark.line - 1]["id"]] = ("unmodelled", str(diagnostic))
    return verdicts


def theirs(entries: list[Entry], python: str) -> list[dict[str, Any]]:
    """MaxText's verdicts, in order."""
    lines = []
    for entry in entries:
        cluster = resolve_cluster(None, accelerator=entry["topology"], slices=entry["slices"])
        lines.append(json.dumps({"id": entry["id"], "argv": launch_argv(entry), "machine": _machine(cluster)}))
    script = Path(__file__).parent / "maxtext_pyconfig.py"
    done = subprocess.run([python, str(script)], input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines()]


def launch_argv(entry: Entry) -> list[str]:
    """The launch as MaxText's arguments, on a topology of that name and without data or checkpoints."""
    cluster = resolve_cluster(None, accelerator=entry["topology"], slices=entry["slices"])
    flags = {"run_name": "acceptance", "base_output_directory": "/tmp/acceptance", "log_config": "false"}  # noqa: S108 - never written
    flags |= {"dataset_type": "synthetic", "enable_checkpointing": "false", "jax_cache_dir": ""}
    flags |= {"compile_topology": accelerator_name(cluster), "compile_topology_num_slices": str(cluster.slices)}
    flags |= {key: written(value) for key, value in entry["flags"].items()}
    return [f"{key}={value}" for key, value in flags.items()]


def _machine(cluster: Cluster) -> dict[str, Any]:
    cores = cluster.chip.jax_devices_per_chip
    return {"kind": KINDS[cluster.chip.name], "shape": cluster.topology, "cores": cores, "slices": cluster.slices}


def results_of(release: str) -> Path:
    """Where the verdicts of a release are kept."""
    return DATA / f"maxtext_acceptance{'' if release == newest().name else f'_{release}'}.jsonl"


def is_newest(options: argparse.Namespace) -> bool:
    """Whether the newest release is asked: published recipes are launches of many, judged by it alone."""
    return bool(options.release == newest().name)


SOURCES = {"emitted": emitted, "published": published, "changed": changed}


def main() -> int:
    """Print the disagreements; 0 if there are none."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="a Python that has MaxText")
    parser.add_argument("--release", default=newest().name, help="the release that Python has")
    parser.add_argument("--only", choices=[*SOURCES], help="judge one kind, keep the results of the others")
    options = parser.parse_args()
    results = results_of(options.release)
    kept = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if options.only else []
    kinds = [options.only] if options.only else [kind for kind in SOURCES if kind != "published" or is_newest(options)]
    entries = [{"kind": kind, **entry} for kind in kinds for entry in SOURCES[kind](options.release)]
    rows = [row for row in kept if row["kind"] != options.only]
    judged, disagreements = ours(entries, options.release), 0
    for entry, verdict in zip(entries, theirs(entries, options.python), strict=True):
        found, why = judged[entry["id"]]
        rows.append({**entry, "accepted": verdict["accepted"], "error": verdict["error"]})
        expected = "accepted" if verdict["accepted"] else "refused"
        if found == "unmodelled":
            print(f"{entry['id']}\n  not modelled: {why[:200]}")
        elif found != expected:
            disagreements += 1
            print(f"{entry['id']}\n  ours: {found} {why[:300]}\n  MaxText: {expected} {verdict['error'] or ''}")
    results.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for kind in SOURCES:
        of_kind = [row["accepted"] for row in rows if row["kind"] == kind]
        print(f"{kind}: {len(of_kind)}, MaxText accepts {sum(of_kind)}")
    print(f"disagreements: {disagreements}")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
