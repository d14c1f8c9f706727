"""What a blind draw may change of a plain launch: one theme a kind of thing, each with its own odds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from benchmarks.features import devices_of
from shardplan.maxtext.remat import POLICIES

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Callable, Sequence

    from shardplan.spec import Architecture


def weighted(rng: random.Random, options: Sequence[Any], known: Counter[str], label: Callable[[Any], str]) -> Any:
    """One of the options, the likelier the fewer points have its label."""
    return rng.choices(options, [(1 + known[label(option)]) ** -0.5 for option in options])[0]


@dataclass(slots=True)
class Draft:
    """A configuration in the making."""

    rng: random.Random
    known: Counter[str]
    model: str
    architecture: Architecture
    topology: str
    slices: int
    flags: dict[str, Any] = field(default_factory=dict)
    spread: int = 1
    """Devices that share a row: what the smallest batch a device is the inverse of."""

    @property
    def is_moe(self) -> bool:
        """Whether it has experts."""
        return self.architecture.is_moe

    @property
    def is_mla(self) -> bool:
        """Whether attention is latent."""
        return self.architecture.layer_groups[0].layers[0].attention.kind == "mla"

    def pick(self, key: str, *values: Any, label: str = "") -> Any:
        """Set a flag to one of some values, by how little each is covered."""
        name = label or key
        self.flags[key] = weighted(self.rng, values, self.known, lambda value: f"{name}:{str(value).lower()}")
        return self.flags[key]


def kept_layers(architecture: Architecture, blocks: int) -> int:
    """Layers of a model whose repeated block is there `blocks` times."""
    repeated = max(architecture.layer_groups, key=lambda group: group.count)
    return architecture.n_layers - (repeated.count - blocks) * repeated.layers_per_block


# --- themes: each changes one kind of thing ---------------------------------------------------------------------------


def mesh_theme(draft: Draft) -> None:
    """One or two axes beside fsdp."""
    axes = ["data", "fsdp_transpose", "context", "tensor", *(["expert"] if draft.is_moe else [])]
    wanted = [(axis,) for axis in axes] + [(a, b) for i, a in enumerate(axes) for b in axes[i + 1 :]]
    chosen = weighted(draft.rng, wanted, draft.known, lambda some: f"mesh:{'+'.join(some)}")
    room = devices_of(draft.topology)
    for axis in chosen:
        most = {"tensor": 8, "context": 8, "expert": 16}.get(axis, 64)
        degrees = [d for d in (2, 4, 8, 16, 32, 64) if d <= min(room, most) and room % d == 0]
        if degrees:
            degree = draft.flags[f"ici_{axis}_parallelism"] = draft.rng.choice(degrees)
            room //= degree
            draft.spread *= degree if axis in {"tensor", "context"} else 1
    if "context" in chosen and draft.rng.random() < 0.7:
        context_kernel(draft)


def context_kernel(draft: Draft) -> None:
    """How attention crosses a context axis."""
    strategy = draft.pick("context_parallel_strategy", "all_gather", "ring", "ulysses", label="context")
    if strategy != "all_gather":
        draft.flags["use_tokamax_splash"] = "true"
    balanced = strategy != "ulysses" and draft.rng.random() < 0.5
    draft.flags["context_parallel_load_balance"] = str(balanced).lower()
    if draft.is_mla and strategy == "ring":
        draft.flags["packing"] = "false"


def slices_theme(draft: Draft) -> None:
    """Several slices, joined by data, fsdp or both."""
    draft.slices = draft.rng.choice([2, 2, 4])
    axis = draft.pick("dcn", "data", "fsdp", "fsdp", "fsdp_transpose", "context")
    del draft.flags["dcn"]
    draft.flags["dcn_data_parallelism"] = draft.slices if axis == "data" else 1
    if axis != "data":
        draft.flags[f"dcn_{axis}_parallelism"] = draft.slices
        draft.spread *= draft.slices if axis == "context" else 1


def pipeline_theme(draft: Draft) -> None:
    """Stages, on one slice or across slices, with what they gather when."""
    stages = draft.rng.choice([2, 4])
    across = draft.rng.random() < 0.3
    if across:
        draft.slices = stages
        draft.flags["dcn_data_parallelism"] = 1
    draft.flags[f"{'dcn' if across else 'ici'}_pipeline_parallelism"] = stages
    draft.spread *= stages
    per_stage = draft.pick("num_layers_per_pipeline_stage", 1, 2, 4)
    repeats = draft.rng.choice([1, 2, 4])
    draft.flags["base_num_decoder_layers"] = kept_layers(draft.architecture, stages * per_stage * repeats)
    draft.flags["num_pipeline_microbatches"] = stages * draft.rng.choice([1, 2, 4])
    kind = draft.rng.choice(["", "", "pipeline_fsdp_ag_once", "pipeline_fsdp_ag_per_repeat", "delay"])
    if kind:
        draft.flags["pipeline_delay_activation_forwarding" if kind == "delay" else kind] = "true"
    if draft.is_moe and draft.rng.random() < 0.5:
        draft.flags |= {"sparse_matmul": "false", "capacity_factor": 1.25}


def policy_theme(draft: Draft) -> None:
    """A named policy, or a custom set that sends one to four tensors to the host."""
    if draft.rng.random() < 0.3:
        names = [name for name in POLICIES if name != "full"]
        draft.flags["remat_policy"] = weighted(draft.rng, names, draft.known, lambda name: f"policy:{name}")
        return
    usual = ["decoder_layer_input", "context", "out_proj"]
    if draft.is_mla:
        usual += ["query_wa_proj", "kv_wa_proj", "mla_q", "mla_kv", "query_proj"]
    else:
        usual += ["query_proj", "key_proj", "value_proj", "attention_out"]
    usual += ["mlpwi_0", "mlpwi_1", "mlpwo"]
    usual += ["moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo"] if draft.is_moe else []
    draft.flags["remat_policy"] = "custom"
    offloads, keeps = draft.rng.choice(
        [(1, 0), (1, 0), (2, 0), (2, 1), (1, 1), (3, 0), (3, 2), (4, 1), (0, 1), (0, 2), (0, 3)]
    )
    for where, most in (("offload", offloads), ("device", keeps)):
        for _ in range(most):
            word = "offload" if where == "offload" else "keep"
            name = weighted(draft.rng, usual, draft.known, lambda tensor, word=word: f"{word}:{tensor}")  # type: ignore[misc]
            usual.remove(name)
            draft.flags[name] = where


def optimizer_theme(draft: Draft) -> None:
    """Another optimizer, other types of its state, or the state somewhere else."""
    kind = draft.rng.choice(["opt_type", "moments", "weights", "gradients", "host", "over_data"])
    if kind == "opt_type":
        draft.pick("opt_type", "adam_pax", "sgd", "muon")
    elif kind == "moments":
        draft.flags["mu_dtype"] = "bfloat16"
    elif kind == "weights":
        draft.flags["weight_dtype"] = "bfloat16"
    elif kind == "host":
        draft.flags["optimizer_memory_host_offload"] = "true"
    elif kind == "over_data":
        draft.flags |= {"shard_optimizer_over_data": "true", "ici_fsdp_parallelism": 1, "ici_data_parallelism": -1}
    if kind == "gradients" or draft.rng.random() < 0.2:
        draft.flags["grad_dtype"] = "bfloat16"


def accumulation_theme(draft: Draft) -> None:
    """Several micro-steps an optimizer step."""
    draft.flags["gradient_accumulation_steps"] = draft.rng.choice([2, 4, 8])


def precision_theme(draft: Draft) -> None:
    """Quantised matmuls."""
    draft.pick("quantization", "fp8_full", "int8")
    draft.flags["use_qwix_quantization"] = "true"


def kernel_theme(draft: Draft) -> None:
    """Another attention kernel, tiled logits, an embedding by one-hot matmul, unrolled layers."""
    kind = draft.rng.choice(["tokamax", "dot", "tiles", "iota", "unrolled", "logits"])
    if kind == "tokamax":
        draft.flags["use_tokamax_splash"] = "true"
    elif kind == "dot":
        draft.flags["attention"] = "dot_product"
    elif kind == "tiles":
        draft.pick("num_vocab_tiling", 2, 4, 8, 16)
    elif kind == "iota":
        draft.flags["use_iota_embed"] = "true"
    elif kind == "logits":
        draft.flags["cast_logits_to_fp32"] = "false"
    elif not draft.is_moe:
        draft.flags |= {"scan_layers": "false", "base_num_decoder_layers": kept_layers(draft.architecture, 2)}


def experts_theme(draft: Draft) -> None:
    """How tokens reach experts, with an expert axis or without."""
    if not draft.is_moe:
        return
    devices = devices_of(draft.topology)
    if draft.rng.random() < 0.6 and devices >= 4 and "ici_expert_parallelism" not in draft.flags:
        draft.flags["ici_expert_parallelism"] = draft.rng.choice([d for d in (2, 4, 8, 16) if d <= devices // 2])
        kind = draft.rng.choice(["", "ragged", "ragged", "random", "slots"])
    else:
        kind = draft.rng.choice(["slots", "ragged_dot", "two_d", "on_fsdp", "weight_sum"])
    switches: dict[str, dict[str, Any]] = {
        "ragged": {"ragged_buffer_factor": draft.rng.choice([1.0, 1.5, 2.0])},
        "random": {"use_random_routing": "true"},
        "slots": {"sparse_matmul": "false", "capacity_factor": draft.rng.choice([1.0, 1.25, 2.0])},
        "ragged_dot": {"megablox": "false"},
        "two_d": {"use_2d_fsdp_sharding": "true", "ici_fsdp_transpose_parallelism": min(4, devices)},
        "on_fsdp": {"shard_exp_on_fsdp": "true"},
        "weight_sum": {"float32_weight_sum": "false"},
    }
    draft.flags |= switches.get(kind, {})


THEMES: Final[dict[Callable[[Draft], None], float]] = {
    mesh_theme: 4.0,
    policy_theme: 3.5,
    slices_theme: 1.3,
    pipeline_theme: 0.8,
    optimizer_theme: 1.5,
    accumulation_theme: 1.0,
    precision_theme: 1.2,
    kernel_theme: 1.2,
    experts_theme: 1.5,
}
"""How often each theme comes up."""
