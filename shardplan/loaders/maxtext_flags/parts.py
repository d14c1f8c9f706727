"""The parts of a case that flags decide one by one: workload, runtime, remat policy.

Each function notes what is wrong in the settings and returns None if its part cannot be built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from shardplan.errors import suggest
from shardplan.loaders.maxtext_flags.checks import kernel_of, kernels_in_use
from shardplan.maxtext.releases import SHARED_OTHERWISE_SINCE, newest
from shardplan.maxtext.remat import ALIASES, POLICIES, TENSORS, as_kept_by
from shardplan.spec import Optimizer, Runtime, Workload

if TYPE_CHECKING:
    from shardplan.loaders.maxtext_flags.settings import Settings
    from shardplan.spec import Cluster

QUANTIZATIONS: Final = {"": "none", None: "none", "int8": "int8", "fp8": "fp8", "fp8_full": "fp8_full"}
LARGEST: Final = {"max_target_length": 2**24, "per_device_batch_size": 10**6}
"""What `Workload` and `Split` accept at most."""
_OTHERWISE_LARGEST: Final = 10**6
_LARGEST_FACTOR: Final = 1000
_FLOATS: Final = ("float32", "bfloat16")


def workload_of(settings: Settings, cluster: Cluster) -> Workload | None:
    """Sequence length, batch, precision and optimizer."""
    for key in ("per_device_batch_size", "max_target_length"):
        if key not in settings.given:
            settings.echo.append(f"{key} not given -> {settings[key]:g}")
    sizes_fine = _check_sizes(settings)
    dtypes_fine = _check_dtypes(settings)
    if not (sizes_fine and dtypes_fine):
        return None
    batch, first_moment = settings["per_device_batch_size"], settings["mu_dtype"] or None
    rows = batch * cluster.devices * settings["gradient_accumulation_steps"]
    whole = float(rows).is_integer() and 1 <= rows <= 10**9
    return Workload(
        sequence_length=settings["max_target_length"],
        global_batch=int(rows) if whole else None,
        per_device_batch=None if whole else batch,
        precision="fp8" if str(settings["quantization"]).startswith("fp8") else "bf16",
        optimizer=Optimizer(
            name=settings["opt_type"],
            weight_dtype=settings["weight_dtype"],
            first_moment_dtype=first_moment if first_moment != settings["weight_dtype"] else None,
            gradient_dtype=settings["grad_dtype"],
            host_offload=settings["optimizer_memory_host_offload"],
            shard_over_data=settings["shard_optimizer_over_data"],
        ),
    )


def _check_sizes(settings: Settings) -> bool:
    """Whether batch, sequence and tiling are numbers MaxText and the model can take."""
    fine = True
    for key in (
        "per_device_batch_size",
        "max_target_length",
        "gradient_accumulation_steps",
        "num_vocab_tiling",
    ):
        value, largest = settings[key], LARGEST.get(key, _OTHERWISE_LARGEST)
        if value <= 0:
            settings.refuse("SP013", key, f"{key} is {value:g}; expected more than 0")
        elif value > largest:
            settings.cannot(key, f"{key} is {value:.6g}; expected at most {largest:,}")
        else:
            continue
        fine = False
    return fine


def _check_dtypes(settings: Settings) -> bool:
    """Whether the types of activations, weights, gradients and moments can be modelled."""
    allowed = {
        "dtype": ("bfloat16",),
        "weight_dtype": _FLOATS,
        "grad_dtype": _FLOATS,
        "mu_dtype": (*_FLOATS, "", None),
    }
    wrong = [key for key, dtypes in allowed.items() if settings[key] not in dtypes]
    for key in wrong:
        expected = " or ".join(dtype for dtype in allowed[key] if dtype)
        settings.cannot(key, f"{key}={settings[key]} cannot be modelled yet; expected {expected}")
    return not wrong


def runtime_of(settings: Settings) -> Runtime | None:
    """Kernels, routing, context strategy, quantisation and pipeline settings."""
    attention = kernel_of(settings)
    if attention != settings["attention"]:
        settings.echo.append(f"attention={settings['attention']} -> {attention}")
    if not _check_choices(settings, attention):
        return None
    has_strategies = settings.table.release.has(SHARED_OTHERWISE_SINCE)
    gather = "once" if settings["pipeline_fsdp_ag_once"] else "per_iteration"
    tiles = [settings[kernel.queries[0]] for kernel in kernels_in_use(settings)]
    chosen: dict[str, Any] = {
        "attention": attention,
        "attention_tile_tokens": min(max(1, *tiles), max(1, settings["max_target_length"])),
        "tokamax_splash": settings["use_tokamax_splash"],
        "fused_attention_backward": settings["sa_use_fused_bwd_kernel"],
        "iota_embed": settings["use_iota_embed"],
        "sparse_matmul": settings["sparse_matmul"],
        "megablox": settings["megablox"],
        "capacity_factor": settings["capacity_factor"],
        "ragged_buffer_factor": settings["ragged_buffer_factor"],
        "logits_in_float32": settings["cast_logits_to_fp32"],
        "weight_sum_in_float32": settings["float32_weight_sum"],
        "scan_layers": settings["scan_layers"],
        "context_strategy": settings["context_parallel_strategy"] if has_strategies else "all_gather",
        "context_load_balance": settings["context_parallel_load_balance"],
        "quantization": QUANTIZATIONS[settings["quantization"]],
        "packing": settings["packing"] is not False,
        "maxtext": None if settings.table.release == newest() else settings.table.release.name,
        "pipeline_layers_per_stage": settings["num_layers_per_pipeline_stage"],
        "pipeline_delay_activations": settings["pipeline_delay_activation_forwarding"],
        "pipeline_gather_weights": "per_repeat" if settings["pipeline_fsdp_ag_per_repeat"] else gather,
    }
    return Runtime(**chosen)


def _check_choices(settings: Settings, attention: str) -> bool:
    """Whether kernels, strategies and factors are ones that can be modelled; notes those priced as something else."""
    before = len(settings.invalid) + len(settings.unreadable)
    if attention not in {"flash", "dot_product"}:
        settings.cannot("attention", f"attention={attention[:80]} cannot be modelled; expected flash or dot_product")
    quantization, strategy = settings["quantization"], settings["context_parallel_strategy"]
    if quantization not in QUANTIZATIONS:
        expected = "expected int8, fp8 or fp8_full"
        settings.cannot("quantization", f"quantization={quantization} cannot be modelled yet; {expected}")
    elif quantization and not settings["use_qwix_quantization"]:
        settings.notes.append(f"quantization={quantization} without use_qwix_quantization=true is priced as with it")
    _check_strategy(settings, strategy)
    if settings["pipeline_fsdp_ag_once"] and settings["pipeline_fsdp_ag_per_repeat"]:
        settings.notes.append("pipeline_fsdp_ag_once has no effect beside pipeline_fsdp_ag_per_repeat")
    for key in ("capacity_factor", "ragged_buffer_factor"):
        if not -1 <= settings[key] <= _LARGEST_FACTOR:
            settings.cannot(key, f"{key} is {settings[key]:g}; expected -1, or up to {_LARGEST_FACTOR}")
    if not 1 <= settings["num_layers_per_pipeline_stage"] <= _OTHERWISE_LARGEST:
        found = settings["num_layers_per_pipeline_stage"]
        message = f"num_layers_per_pipeline_stage is {found}; expected at least 1"
        settings.refuse("SP013", "num_layers_per_pipeline_stage", message)
    return len(settings.invalid) + len(settings.unreadable) == before


def _check_strategy(settings: Settings, strategy: str) -> None:
    """Whether the release shares keys and values among context shards that way; before 0.2.4 only GPUs asked."""
    key = "context_parallel_strategy"
    if not settings.table.release.has(SHARED_OTHERWISE_SINCE):
        if strategy != "all_gather":
            settings.notes.append(f"{key}={strategy[:80]} has no effect on TPUs before {SHARED_OTHERWISE_SINCE}")
    elif strategy not in {"all_gather", "ring", "ulysses", "usp"}:
        message = f"{key} is {strategy[:80]!r}; expected all_gather, ring, ulysses or usp"
        settings.refuse("SP014", key, message)
    elif strategy == "usp":
        settings.cannot(key, f"{key}=usp cannot be modelled yet")


def remat_of(settings: Settings) -> tuple[str, dict[str, Any]]:
    """Policy name and, for `custom`, the tensors that are kept; scan carries on the device go without saying."""
    written = str(settings["remat_policy"] or "none")
    policy = ALIASES.get(written, written)
    if "remat_policy" not in settings.given:
        settings.echo.append(f"remat_policy not given -> {policy}")
    given = {name: settings[name] for name in sorted(TENSORS) if name in settings.given}
    if settings["engram"] != "remat":
        settings.notes.append("engram has no effect on the remat policy in MaxText")
    if policy in POLICIES:
        release = settings.table.release
        kept = as_kept_by(release, POLICIES[policy], has_experts=settings["num_experts"] > 1)
        if kept.name != policy:
            settings.notes.append(f"remat_policy={written} keeps the products of experts too in MaxText {release}")
            return kept.name, dict[str, Any](kept.tensors)
    if policy == "custom":
        usual = {"decoder_layer_input": ("device", "remat")}
        return policy, {name: where for name, where in given.items() if where not in usual.get(name, ("remat",))}
    if written == "none" and not settings["scan_layers"]:
        message = "remat_policy=none with scan_layers=false cannot be modelled yet"
        settings.cannot("remat_policy", message, "use remat_policy=minimal")
    if policy not in POLICIES:
        message = f"remat_policy is {written[:80]!r}; expected custom or one of {', '.join(POLICIES)}"
        settings.refuse("SP014", "remat_policy", message, suggest(written, [*POLICIES, "custom"]))
    idle = [name for name, where in given.items() if where != ("device" if name == "decoder_layer_input" else "remat")]
    if idle:
        settings.notes.append(f"{', '.join(idle)}: no effect with remat_policy={written}, only with custom")
    return policy, {}
