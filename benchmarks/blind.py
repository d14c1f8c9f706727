"""Blind rounds: draws legal configurations off the beaten track, predicts them before anyone compiles them, and compares.

usage: python -m benchmarks.blind draw --seed 1 --count 60 [--known POINTS.jsonl ...] > POINTS.jsonl
       python -m benchmarks.blind predict POINTS.jsonl > PREDICTIONS.jsonl
       python -m benchmarks.blind report PREDICTIONS.jsonl RESULTS.jsonl

A point is a line as `check --from` takes it, with its `features`; `cut` says that it has fewer layers than the model.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.accuracy import DATA
from benchmarks.blind_themes import THEMES, Draft, experts_theme, kept_layers, weighted
from benchmarks.compared import compare, load_flags
from benchmarks.features import coverage, devices_of, features
from shardplan.cost.memory.total import memory
from shardplan.engine.decide import judge_split
from shardplan.errors import InputError, InvalidShardingError
from shardplan.loaders.load import load_record
from shardplan.loaders.presets import load_architecture
from shardplan.splits.enumeration import split_rows
from shardplan.units import format_bytes

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Sequence

CORPUS: Final = ("compiled_memory.jsonl", "compiled_memory_wide.jsonl", "compiled_published.jsonl")
MODELS: Final = (
    "deepseek2-16b", "deepseek3-671b", "gemma-7b", "gemma2-9b", "gemma2-27b", "gemma3-4b", "gemma3-12b", "gemma3-27b",
    "gpt-oss-20b", "gpt-oss-120b", "gpt3-6b", "gpt3-22b", "kimi-k2-1t", "llama2-13b", "llama2-70b", "llama3.1-8b",
    "llama3.1-70b", "llama3.1-405b", "llama4-17b-16e", "llama4-17b-128e", "mistral-7b", "mixtral-8x7b", "mixtral-8x22b",
    "olmo3-7b", "olmo3-32b", "qwen2.5-7b", "qwen2.5-14b", "qwen3-0.6b", "qwen3-4b", "qwen3-14b", "qwen3-32b",
    "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-480b-a35b",
)  # fmt: skip
SIZES: Final = {
    "tpu7x": (2, 8, 16, 32, 64, 128, 256, 384, 512, 1024, 1536, 2048, 4096),
    "v5p": (8, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048, 4096, 8192),
    "v6e": (4, 8, 16, 32, 64, 128, 256),
    "v5e": (4, 8, 16, 32, 64, 128, 256),
    "v4": (8, 16, 32, 64, 128, 256, 512),
}
"""Slices by the number in their name."""
CHIPS: Final = {"tpu7x": 4, "v5p": 3, "v6e": 2, "v5e": 1, "v4": 1}
"""How often each chip comes up."""
MOST_DEVICES: Final = 4096
BAND: Final = (0.30, 1.10)
"""Share of the memory limit that most points use."""
WITHIN: Final = 0.9
"""How many points lie in the band."""
WIDE: Final = (0.05, 1.5)
"""Where the others may lie."""
REDRAWS: Final = 25
"""Of the contents of the themes."""
CUTS: Final = (2, 4, 8, 16)
"""Blocks that a cut model has; two are peeled out of their loop altogether where loops are peeled."""
TRIES: Final = 20
"""Of batch, sequence and layers, for each."""


# --- a point ----------------------------------------------------------------------------------------------------------


def draw(rng: random.Random, known: Counter[str], fewest: int) -> dict[str, Any] | None:
    """A legal configuration with memory in the band and at least `fewest` blocks of layers; None if this model, slice and choice of themes has none."""
    chip = rng.choices(list(CHIPS), list(CHIPS.values()))[0]
    topology = f"{chip}-{rng.choice(SIZES[chip])}"
    model = weighted(rng, MODELS, known, lambda model: f"model:{model}")
    architecture = load_architecture(model)
    possible = [theme for theme in THEMES if theme is not experts_theme or architecture.is_moe]
    themes: list[Callable[[Draft], None]] = []
    for _ in range(rng.choice([1, 2, 2, 3, 3, 4])):
        themes += rng.choices(possible, [THEMES[theme] for theme in possible])
        possible.remove(themes[-1])
    band = BAND if rng.random() < WITHIN else WIDE
    for _ in range(REDRAWS):
        draft = Draft(rng, known, model, architecture, topology, 1)
        for theme in themes:
            theme(draft)
        if devices_of(draft.topology) * draft.slices > MOST_DEVICES:
            continue
        for _ in range(TRIES):
            record = sized(draft, fewest)
            share = memory_share(record)
            if share is not None and band[0] <= share <= band[1] and is_legal(record):
                return record | {"features": features(record)}
    return None


def sized(draft: Draft, fewest: int) -> dict[str, Any]:
    """The draft with a sequence length, a batch and a number of layers."""
    rng, flags = draft.rng, dict(draft.flags)
    short = flags.get("attention") == "dot_product"
    long = "ici_context_parallelism" in flags or "dcn_context_parallelism" in flags
    lengths = (
        [1024, 2048, 4096]
        if short
        else [8192, 16384, 32768, 65536, 131072]
        if long
        else [2048, 4096, 8192, 16384, 32768]
    )
    microbatches = flags.get("num_pipeline_microbatches", 1)
    flags |= {"model_name": draft.model, "max_target_length": rng.choice(lengths)}
    flags["per_device_batch_size"] = rng.choice([1, 1, 2, 2, 3, 4, 6, 8, 12, 16]) * microbatches / draft.spread
    flags.setdefault("remat_policy", "full")
    flags.setdefault("attention", "flash")
    repeated = max(draft.architecture.layer_groups, key=lambda group: group.count)
    blocks = rng.choice([repeated.count, repeated.count, *(b for b in CUTS if b >= fewest)])
    if blocks < repeated.count:
        flags.setdefault("base_num_decoder_layers", kept_layers(draft.architecture, blocks))
    cut = flags.get("base_num_decoder_layers", draft.architecture.n_layers) < draft.architecture.n_layers
    if cut:
        flags["override_model_config"] = "true"
    else:
        flags.pop("base_num_decoder_layers", None)
    if flags["per_device_batch_size"] >= 1:
        flags["per_device_batch_size"] = int(flags["per_device_batch_size"])
    flags["allow_split_physical_axes"] = "true"
    ordered = dict(sorted(flags.items(), key=lambda item: (item[0] != "model_name", item[0])))
    return {"topology": draft.topology, "slices": draft.slices, "flags": ordered, **({"cut": True} if cut else {})}


def memory_share(record: dict[str, Any]) -> float | None:
    """Predicted memory over the limit; None if it cannot be modelled or MaxText would refuse it."""
    try:
        case, candidates = load_flags(record)
    except (InputError, InvalidShardingError):
        return None
    return float(memory(case, candidates).total_bytes[0] / case.cluster.hbm_limit_bytes)


def is_legal(record: dict[str, Any]) -> bool:
    """Whether `check` finds nothing that MaxText would refuse."""
    launch = load_record(record)
    return judge_split(launch.case, split_rows(launch.case, launch.split), "drawn").verdict != "invalid"


def draw_round(
    seed: int, known: Counter[str], *, fewest: int = 4, skip: frozenset[str] = frozenset()
) -> Iterator[dict[str, Any]]:
    """Points with ids, without end; one may be skipped, for a point that MaxText turned out to refuse."""
    rng, number = random.Random(seed), 0
    while True:
        record = draw(rng, known, fewest)
        if record is None:
            continue
        number += 1
        known.update(record["features"])
        name = f"b{seed}_{number:03}_{record['flags']['model_name']}_{record['topology']}"
        if name not in skip:
            yield {"id": name, **record}


# --- predictions and what became of them ------------------------------------------------------------------------------


def prediction(record: dict[str, Any]) -> dict[str, Any]:
    """What the model says of a point, before it is compiled. Bytes on a device."""
    launch = load_record(record)
    split = split_rows(launch.case, launch.split)
    result, got = judge_split(launch.case, split, record["id"]), memory(launch.case, split)
    return {
        "id": record["id"],
        "arguments_bytes": int(got.arguments_bytes[0]),
        "temp_bytes": int(got.temp_bytes[0]),
        "total_bytes": int(got.total_bytes[0]),
        "limit_bytes": int(launch.case.cluster.hbm_limit_bytes),
        "error_band": round(float(got.error_band[0]), 4),
        "verdict": result.verdict,
        "moment": got.moment_at(0).name,
        "features": record["features"],
    }


def report(predictions: Sequence[dict[str, Any]], results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Errors by point, worst first, then by feature."""
    by_label: dict[str, list[float]] = defaultdict(list)
    errors: list[float] = []
    inside = false_fits = false_no = 0
    lines = []
    for told in predictions:
        if (result := results.get(told["id"])) is None or not (result.get("memory") or result.get("oom")):
            continue
        seen = compare(result)
        error = told["total_bytes"] / seen.compiled_bytes - 1
        errors.append(error)
        inside += abs(error) <= told["error_band"]
        false_fits += seen.refused and told["verdict"] == "fits"
        false_no += not seen.refused and told["verdict"] == "does_not_fit"
        for label in told["features"]:
            by_label[label].append(error)
        shown = f"{format_bytes(told['total_bytes'])} / {format_bytes(seen.compiled_bytes)}"
        apart = (
            ""
            if seen.compiled_arguments_bytes is None
            else f"arguments {told['arguments_bytes'] / seen.compiled_arguments_bytes - 1:+.2%}"
        )
        lines.append(
            (
                abs(error),
                f"{error:+7.1%} {told['id']:44} {shown:26} {apart} {told['verdict']}{' REFUSED' if seen.refused else ''} | {told['moment']} | {' '.join(told['features'])}",
            )
        )
    yield from (line for _, line in sorted(lines, reverse=True))
    if not errors:
        return
    size = sorted(abs(error) for error in errors)
    yield (
        f"\n{len(size)} points: median {statistics.median(size):.1%}, p95 {size[int(0.95 * (len(size) - 1))]:.1%}, worst {size[-1]:.1%}; "
        f"inside the band {inside / len(size):.0%}; refused called fits {false_fits}, compiled called does not fit {false_no}\n"
    )
    for label, some in sorted(by_label.items(), key=lambda item: -statistics.median(map(abs, item[1]))):
        yield f"{label:44} {len(some):3} points  median {statistics.median(map(abs, some)):6.1%}  bias {statistics.median(some):+6.1%}  worst {max(map(abs, some)):6.1%}"


def read(path: Path) -> list[dict[str, Any]]:
    """Records of a file of JSON lines."""
    return [record for line in path.read_text().splitlines() if "id" in (record := json.loads(line))]


def main() -> int:
    """Draw, predict or report."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = options.add_subparsers(dest="command", required=True)
    drawing = commands.add_parser("draw")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, default=60)
    drawing.add_argument("--known", type=Path, nargs="*", default=[], help="points of earlier rounds")
    drawing.add_argument("--fewest-blocks", type=int, default=4, help="of a cut model; round one has 2")
    drawing.add_argument("--skip", nargs="*", default=[], help="ids to leave out")
    commands.add_parser("predict").add_argument("points", type=Path)
    reporting = commands.add_parser("report")
    reporting.add_argument("predictions", type=Path)
    reporting.add_argument("results", type=Path)
    chosen = options.parse_args()
    lines: Iterable[str]
    if chosen.command == "draw":
        known = coverage(record for path in [*(DATA / name for name in CORPUS), *chosen.known] for record in read(path))
        drawn = draw_round(chosen.seed, known, fewest=chosen.fewest_blocks, skip=frozenset(chosen.skip))
        lines = map(json.dumps, islice(drawn, chosen.count))
    elif chosen.command == "predict":
        lines = (json.dumps(prediction(record)) for record in read(chosen.points))
    else:
        lines = report(read(chosen.predictions), {record["id"]: record for record in read(chosen.results)})
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
