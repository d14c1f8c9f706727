"""What a configuration uses, as labels: the same words weigh a blind draw, group its errors, and find what is not covered.

A label is `kind:value`, such as `offload:mlpwo` or `mesh:expert+tensor`; the plain case of a kind has no label.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from shardplan.maxtext.remat import POLICIES, TENSORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

BESIDE: Final = ("data", "fsdp_transpose", "context", "tensor", "expert", "pipeline")
"""Mesh axes beside fsdp."""
PLAIN: Final = {
    "quantization": "",
    "opt_type": "adamw",
    "mu_dtype": "float32",
    "weight_dtype": "float32",
    "grad_dtype": "float32",
    "optimizer_memory_host_offload": "false",
    "shard_optimizer_over_data": "false",
    "gradient_accumulation_steps": "1",
    "attention": "flash",
    "use_tokamax_splash": "false",
    "num_vocab_tiling": "1",
    "scan_layers": "true",
    "sparse_matmul": "true",
    "megablox": "true",
    "use_random_routing": "false",
    "use_2d_fsdp_sharding": "false",
    "shard_exp_on_fsdp": "false",
    "pipeline_fsdp_ag_once": "false",
    "pipeline_fsdp_ag_per_repeat": "false",
    "pipeline_delay_activation_forwarding": "false",
    "num_layers_per_pipeline_stage": "1",
    "use_iota_embed": "false",
    "cast_logits_to_fp32": "true",
    "float32_weight_sum": "true",
}
"""Settings that are a kind of their own, with the value that most launches have."""
COUNTED: Final = {"ragged_buffer_factor", "capacity_factor"}
"""Settings of which only the presence counts."""


def features(record: Mapping[str, Any]) -> list[str]:
    """Labels of one configuration, sorted."""
    flags = {key: str(value).lower() for key, value in record["flags"].items()}
    found = {*_place(record, flags), *_mesh(record, flags), *_policy(flags)}
    found |= {f"{key}:{flags[key]}" for key, plain in PLAIN.items() if flags.get(key, plain) not in {plain, "none"}}
    found |= {key for key in COUNTED if float(flags.get(key, -1)) > 0}
    return sorted(found)


def coverage(records: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often each label occurs in a corpus."""
    return Counter(label for record in records if "flags" in record for label in features(record))


def devices_of(topology: str) -> int:
    """JAX devices of a slice by its name: v4 and v5p count two TensorCores a device."""
    chip, _, size = topology.partition("-")
    return int(size) // (2 if chip in {"v4", "v5p"} else 1)


def _place(record: Mapping[str, Any], flags: Mapping[str, str]) -> Iterator[str]:
    devices = devices_of(record["topology"])
    yield f"chip:{record['topology'].partition('-')[0]}"
    yield f"model:{flags.get('model_name', 'default')}"
    for label, least in (("512+", 512), ("64-511", 64), ("2-63", 1)):
        if devices >= least:
            yield f"devices:{label}"
            break
    sequence = int(flags.get("max_target_length", 2048))
    yield f"sequence:{'32k+' if sequence >= 2**15 else '4k-16k' if sequence >= 2**12 else 'below 4k'}"


def _mesh(record: Mapping[str, Any], flags: Mapping[str, str]) -> Iterator[str]:
    degrees = {axis: int(flags.get(f"ici_{axis}_parallelism", 1)) for axis in BESIDE}
    beside = [axis for axis, degree in degrees.items() if degree != 1]
    yield f"mesh:{'+'.join(beside) or 'fsdp'}"
    if "context" in beside:
        yield f"context:{flags.get('context_parallel_strategy', 'all_gather')}"
    if int(record.get("slices") or 1) > 1:
        axes = [axis for axis in ("fsdp", *BESIDE) if int(flags.get(f"dcn_{axis}_parallelism", 1)) > 1]
        yield f"dcn:{'+'.join(axes) or 'data'}"


def _policy(flags: Mapping[str, str]) -> Iterator[str]:
    name = flags.get("remat_policy", "full")
    yield f"policy:{name}"
    if name in POLICIES:
        offloaded: set[str] = set(POLICIES[name].offload)
    else:
        given = {tensor: flags[tensor] for tensor in TENSORS if tensor in flags}
        offloaded = {tensor for tensor, where in given.items() if where == "offload"}
        yield from (f"keep:{tensor}" for tensor, where in given.items() if where == "device")
    if name == "custom" and offloaded:
        yield f"offloads:{len(offloaded)}"
        yield from (f"offload:{tensor}" for tensor in offloaded)
