"""Settings to a Case with its plan: axes filled in, batch, remat, optimizer, kernels and pipeline resolved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shardplan.errors import suggest
from shardplan.remat import ALIASES, POLICIES, TENSORS
from shardplan.spec import AXES, Case, Optimizer, Runtime, Split, Workload

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.spec import Architecture, Cluster

QUANTIZATIONS = {"": "none", None: "none", "int8": "int8", "fp8": "fp8", "fp8_full": "fp8_full"}
_SMALLEST_SEQUENCE = 128
"""Below it MaxText has no flash attention; `Workload` starts here too."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A MaxText configuration as shardplan understands it."""

    case: Case
    """With `plan` set to `split`."""
    split: Split
    echo: tuple[str, ...]
    """What was resolved, for people."""
    notes: tuple[str, ...]
    """What is accepted but not priced, or has no effect."""


def resolve(settings: Settings, architecture: Architecture, cluster: Cluster, name: str) -> Launch:
    """The launch the settings describe on a cluster.

    Raises InvalidShardingError for what MaxText would refuse and InputError for what cannot be modelled, all at once.
    """
    mesh = {
        "ici": _axes(settings, "ici", cluster.devices_per_slice),
        "dcn": _axes(settings, "dcn", cluster.slices),
    }
    stages = mesh["ici"].get("pipeline", 1) * mesh["dcn"].get("pipeline", 1)
    parts = {
        "workload": _workload(settings, cluster),
        "runtime": _runtime(settings),
        "policy": _remat(settings),
        "microbatches": _microbatches(settings, architecture, stages),
    }
    settings.raise_problems()
    policy, tensors = parts["policy"]
    split = Split(
        ici=mesh["ici"],
        dcn=mesh["dcn"],
        per_device_batch=settings["per_device_batch_size"],
        gradient_accumulation=settings["gradient_accumulation_steps"],
        pipeline_microbatches=parts["microbatches"],
        num_vocab_tiling=settings["num_vocab_tiling"],
        remat_policy=policy,
        remat_tensors=tensors,
        allow_split_physical_axes=settings["allow_split_physical_axes"],
    )
    case = Case(
        name=name,
        architecture=architecture,
        workload=parts["workload"],
        cluster=cluster,
        runtime=parts["runtime"],
        plan=split,
    )
    return Launch(case, split, tuple(settings.echo), tuple(dict.fromkeys(settings.notes)))


def _axes(settings: Settings, network: str, target: int) -> dict[str, int]:
    """Degrees above 1 of one network, with the one -1 filled in so that they multiply to `target`."""
    degrees = {axis: settings[f"{network}_{axis}_parallelism"] for axis in AXES}
    what = "JAX devices of a slice" if network == "ici" else "slices"
    wrong = [axis for axis, degree in degrees.items() if degree < 1 and degree != -1]
    for axis in wrong:
        key = f"{network}_{axis}_parallelism"
        settings.refuse(
            "SP013", key, f"{key} is {degrees[axis]}; expected at least 1, or -1 for what is left"
        )
    open_axes = [axis for axis, degree in degrees.items() if degree == -1]
    if len(open_axes) > 1:
        keys = " and ".join(f"{network}_{axis}_parallelism" for axis in open_axes)
        hint = f"{network}_{open_axes[0]}_parallelism defaults to -1; set it" if len(settings.given) else None
        settings.refuse(
            "SP015", f"{network}_{open_axes[-1]}_parallelism", f"{keys} are both -1; one may be", hint
        )
    if wrong or len(open_axes) > 1:
        return {}
    product = math.prod(degree for degree in degrees.values() if degree != -1)
    if open_axes:
        key = f"{network}_{open_axes[0]}_parallelism"
        if target % product:
            message = f"{key}=-1 cannot be filled in: the other {network} axes multiply to {product}, and there are {target} {what}"
            settings.refuse("SP015", key, message)
            return {}
        degrees[open_axes[0]] = target // product
        if network == "ici" or target > 1:
            settings.echo.append(f"{key}=-1 -> {target // product}")
    elif product != target:
        used = " x ".join(f"{axis} {degree}" for axis, degree in degrees.items() if degree > 1) or "all 1"
        message = f"the {network} axes ({used}) multiply to {product}, but there are {target} {what}"
        settings.refuse(
            "SP015", f"{network}_data_parallelism", message, _missing_factor(network, product, target)
        )
        return {}
    return {axis: degree for axis, degree in degrees.items() if degree > 1}


def _missing_factor(network: str, product: int, target: int) -> str:
    axis = "fsdp" if network == "ici" else "data"
    if target % product == 0:
        return f"multiply an axis by {target // product}, or set {network}_{axis}_parallelism=-1"
    return f"set {network}_{axis}_parallelism=-1 and axes whose product divides {target}"


def _workload(settings: Settings, cluster: Cluster) -> Workload | None:
    sequence, batch = settings["max_target_length"], settings["per_device_batch_size"]
    steps = settings["gradient_accumulation_steps"]
    for key in ("per_device_batch_size", "max_target_length"):
        if key in settings.given:
            continue
        settings.echo.append(f"{key} not given -> {settings[key]:g}")
    for key, value in (("per_device_batch_size", batch), ("max_target_length", sequence), ("gradient_accumulation_steps", steps),
                       ("num_vocab_tiling", settings["num_vocab_tiling"])):  # fmt: skip
        if value <= 0:
            settings.refuse("SP013", key, f"{key} is {value}; expected more than 0")
        elif value > 10**9 // 1000:
            settings.cannot(key, f"{key} is {value:.6g}; expected at most 1,000,000")
    if settings["dtype"] != "bfloat16":
        settings.cannot(
            "dtype", f"dtype={settings['dtype']} cannot be modelled yet; activations are priced in bfloat16"
        )
    dtypes = {key: settings[key] for key in ("weight_dtype", "grad_dtype", "mu_dtype")}
    for key, dtype in dtypes.items():
        if dtype not in ("float32", "bfloat16", "", None):
            settings.cannot(key, f"{key}={dtype} cannot be modelled yet; expected float32 or bfloat16")
    if settings.invalid or settings.unreadable:
        return None
    if sequence < _SMALLEST_SEQUENCE:
        settings.cannot(
            "max_target_length", f"max_target_length is {sequence}; expected at least {_SMALLEST_SEQUENCE}"
        )
        return None
    optimizer = Optimizer(
        name=settings["opt_type"],
        weight_dtype=dtypes["weight_dtype"],
        first_moment_dtype=dtypes["mu_dtype"] or None,
        gradient_dtype=dtypes["grad_dtype"],
        host_offload=settings["optimizer_memory_host_offload"],
        shard_over_data=settings["shard_optimizer_over_data"],
    )
    sequences = batch * cluster.devices * steps
    size: dict[str, Any] = (
        {"global_batch": int(sequences)}
        if sequences.is_integer() and sequences >= 1
        else {"per_device_batch": batch}
    )
    precision = "fp8" if str(settings["quantization"]).startswith("fp8") else "bf16"
    return Workload(sequence_length=sequence, precision=precision, optimizer=optimizer, **size)  # type: ignore[arg-type]


def _runtime(settings: Settings) -> Runtime | None:
    attention = settings["attention"]
    if attention == "autoselected":
        attention = "flash"
        settings.echo.append("attention=autoselected -> flash")
    if attention not in {"flash", "dot_product"}:
        settings.cannot(
            "attention", f"attention={attention} is not for TPU training; expected flash or dot_product"
        )
    quantization = settings["quantization"]
    if quantization not in QUANTIZATIONS:
        settings.cannot(
            "quantization",
            f"quantization={quantization} cannot be modelled yet; expected int8, fp8 or fp8_full",
        )
    elif quantization and not settings["use_qwix_quantization"]:
        settings.notes.append(
            f"quantization={quantization} without use_qwix_quantization=true is priced as with it"
        )
    strategy = settings["context_parallel_strategy"]
    if strategy == "usp":
        settings.cannot("context_parallel_strategy", "context_parallel_strategy=usp cannot be modelled yet")
    elif strategy not in {"all_gather", "ring", "ulysses"}:
        message = f"context_parallel_strategy is {strategy!r}; expected all_gather, ring, ulysses or usp"
        settings.refuse("SP014", "context_parallel_strategy", message)
    if not settings["scan_layers"]:
        settings.notes.append(
            "scan_layers=false is priced without the scan; the compiler's own choices vary more"
        )
    if settings["pipeline_fsdp_ag_once"] and settings["pipeline_fsdp_ag_per_repeat"]:
        settings.refuse(
            "SP015",
            "pipeline_fsdp_ag_once",
            "pipeline_fsdp_ag_once and pipeline_fsdp_ag_per_repeat exclude each other",
        )
    limits = {
        "capacity_factor": settings["capacity_factor"],
        "ragged_buffer_factor": settings["ragged_buffer_factor"],
    }
    for key, value in limits.items():
        if not -1 <= value <= 1000:  # noqa: PLR2004 - the bounds of Runtime
            settings.cannot(key, f"{key} is {value:g}; expected -1, or up to 1000")
    if settings["num_layers_per_pipeline_stage"] < 1:
        settings.refuse(
            "SP013", "num_layers_per_pipeline_stage", "num_layers_per_pipeline_stage is less than 1"
        )
    if settings.invalid or settings.unreadable:
        return None
    gather = "once" if settings["pipeline_fsdp_ag_once"] else "per_iteration"
    return Runtime(
        attention=attention,
        tokamax_splash=settings["use_tokamax_splash"],
        iota_embed=settings["use_iota_embed"],
        sparse_matmul=settings["sparse_matmul"],
        megablox=settings["megablox"],
        capacity_factor=limits["capacity_factor"],
        ragged_buffer_factor=limits["ragged_buffer_factor"],
        logits_in_float32=settings["cast_logits_to_fp32"],
        weight_sum_in_float32=settings["float32_weight_sum"],
        scan_layers=settings["scan_layers"],
        context_strategy=strategy,
        context_load_balance=settings["context_parallel_load_balance"],
        quantization=QUANTIZATIONS[quantization],  # type: ignore[arg-type]
        pipeline_layers_per_stage=settings["num_layers_per_pipeline_stage"],
        pipeline_delay_activations=settings["pipeline_delay_activation_forwarding"],
        pipeline_gather_weights="per_repeat" if settings["pipeline_fsdp_ag_per_repeat"] else gather,  # type: ignore[arg-type]
    )


def _remat(settings: Settings) -> tuple[str, dict[str, Any]]:
    """Policy name and, for `custom`, the tensors that are kept; scan carries on the device go without saying."""
    written = str(settings["remat_policy"])
    policy = ALIASES.get(written, written)
    if "remat_policy" not in settings.given:
        settings.echo.append(f"remat_policy not given -> {policy}")
    given = {name: settings[name] for name in sorted(TENSORS | {"engram"}) if name in settings.given}
    if policy == "custom":
        if given.pop("engram", "remat") != "remat":
            settings.notes.append("engram has no effect on the remat policy in MaxText")
        kept = {name: where for name, where in given.items() if where != "remat"}
        if kept.get("decoder_layer_input") == "device":
            del kept["decoder_layer_input"]
        return policy, kept
    if written == "none" and not settings["scan_layers"]:
        settings.cannot(
            "remat_policy", "remat_policy=none with scan_layers=false cannot be modelled yet", "use minimal"
        )
    elif "_and_quantization" in policy or policy.endswith("_with_quantization"):
        policy = policy.replace("_and_quantization", "").replace("_with_quantization", "")
        settings.notes.append(
            f"remat_policy={written} is {policy} here: quantised operands are named in AQT only"
        )
    if policy not in POLICIES:
        message = f"remat_policy is {written[:80]!r}; expected custom or one of {', '.join(POLICIES)}"
        settings.refuse("SP014", "remat_policy", message, suggest(written, [*POLICIES, "custom"]))
    idle = [
        name
        for name, where in given.items()
        if where != ("device" if name == "decoder_layer_input" else "remat")
    ]
    if idle:
        settings.notes.append(f"{', '.join(idle)}: no effect with remat_policy={written}; only with custom")
    return policy, {}


def _microbatches(settings: Settings, architecture: Architecture, stages: int) -> int | None:
    """Pipeline microbatches, None without a pipeline; checks that stages, layers and repeats agree (P1, P2)."""
    if stages <= 1:
        return None
    per_stage = settings["num_layers_per_pipeline_stage"]
    piped = architecture.layer_groups[-1].count
    asked = settings["pipeline_parallel_layers"]
    if asked not in (-1, piped):
        settings.cannot(
            "pipeline_parallel_layers", f"pipeline_parallel_layers={asked} of {piped} cannot be modelled yet"
        )
    if per_stage >= 1 and piped % (stages * per_stage):
        message = (
            f"{piped} pipelined layers are not a multiple of {stages} stages x {per_stage} layers a stage"
        )
        settings.refuse("SP015", "num_layers_per_pipeline_stage", message)
        return None
    repeats = settings["num_pipeline_repeats"]
    if repeats not in (-1, piped // (stages * max(per_stage, 1))):
        message = f"num_pipeline_repeats={repeats}, but {piped} layers / ({stages} stages x {per_stage}) = {piped // (stages * per_stage)}"
        settings.refuse("SP015", "num_pipeline_repeats", message)
    microbatches = settings["num_pipeline_microbatches"]
    if microbatches == -1:
        microbatches = stages * (2 if settings["pipeline_delay_activation_forwarding"] else 1)
        settings.echo.append(f"num_pipeline_microbatches=-1 -> {microbatches}")
    if microbatches < 1 or microbatches % stages:
        message = f"num_pipeline_microbatches is {microbatches}; expected a multiple of the {stages} stages"
        settings.refuse("SP015", "num_pipeline_microbatches", message)
        return None
    return int(microbatches)
