"""Input types: what is trained (Architecture, Workload), on what (Chip, Cluster), within which bounds (Constraints).

Everything here is a frozen pydantic model that refuses unknown keys and never coerces types. Sizes are pure numbers,
times are seconds, memory is bytes; a `Figure` carries the source of a hardware number with its value.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from shardplan.source.records import Record

AXES = ("data", "pipeline", "fsdp", "fsdp_transpose", "context", "tensor", "expert")
"""Mesh axes shardplan plans with, in MaxText's order (its `stage` axis is sized by the key `pipeline`)."""

MAX_PARAMETERS = 10**15

Count = Annotated[int, Field(strict=True, ge=1, le=10**9)]
OptionalCount = Annotated[int, Field(strict=True, ge=0, le=10**9)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=500)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, ge=0.0, lt=1.0, allow_inf_nan=False)]
Dtype = Literal["float32", "bfloat16"]
Precision = Literal["bf16", "fp8"]

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}


class Input(Record):
    """A frozen record of the user's input; unknown keys are errors."""


# --- the model ---------------------------------------------------------------------------------------------------


class Attention(Input):
    """Softmax attention of one layer: multi-head, grouped or multi-query (`gqa`), or multi-head latent (`mla`)."""

    kind: Literal["gqa", "mla"] = "gqa"
    """`gqa` covers multi-head, grouped and multi-query attention; `mla` is latent attention."""
    n_query_heads: Count
    """N, query heads."""
    n_key_value_heads: Count
    """K, key-value heads; divides N. For `mla` equal to N."""
    head_width: Count | None = None
    """H, width of one query, key and value head (`gqa`)."""
    window: Count | None = None
    """Tokens a query may look back on (sliding), or the chunk length (chunked); null for full causal attention."""
    window_kind: Literal["sliding", "chunked"] = "sliding"
    """Whether the window slides with the query or is a fixed chunk."""
    qk_norm: Literal["none", "head", "full"] = "none"
    """Normalisation of queries and keys: `head` shares H scales over heads, `full` has one scale a channel."""
    bias: Flag = False
    """Whether the query, key and value projections have biases."""
    output_bias: Flag = False
    """Whether the output projection has a bias."""
    sinks: Flag = False
    """Whether each query head has a learned sink logit."""
    fused_qkv: Flag = False
    """Whether one matrix projects query, key and value."""
    query_rank: OptionalCount = 0
    """Rank of the query compression (`mla`); 0 for a full-rank query projection."""
    key_value_rank: OptionalCount = 0
    """Rank of the key-value compression (`mla`)."""
    nope_width: OptionalCount = 0
    """Width of a head's part without rotary embedding (`mla`)."""
    rope_width: OptionalCount = 0
    """Width of a head's part with rotary embedding (`mla`)."""
    value_width: OptionalCount = 0
    """Width of one value head (`mla`)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.n_query_heads % self.n_key_value_heads:
            msg = f"n_query_heads {self.n_query_heads} is not a multiple of n_key_value_heads {self.n_key_value_heads}"
            raise ValueError(msg)
        latent = (self.key_value_rank, self.nope_width, self.rope_width, self.value_width)
        if self.kind == "mla" and not all(latent):
            msg = "mla needs key_value_rank, nope_width, rope_width and value_width"
            raise ValueError(msg)
        if self.kind == "mla" and self.n_query_heads != self.n_key_value_heads:
            msg = "mla needs n_key_value_heads equal to n_query_heads"
            raise ValueError(msg)
        if self.kind == "gqa" and self.head_width is None:
            msg = "gqa needs head_width"
            raise ValueError(msg)
        if self.kind == "gqa" and any((*latent, self.query_rank)):
            msg = "key_value_rank, query_rank, nope_width, rope_width and value_width belong to kind mla"
            raise ValueError(msg)
        return self

    @property
    def qk_width(self) -> int:
        """Width of one query or key head."""
        return self.nope_width + self.rope_width if self.kind == "mla" else int(self.head_width or 0)

    @property
    def v_width(self) -> int:
        """Width of one value head."""
        return self.value_width if self.kind == "mla" else int(self.head_width or 0)


class FeedForward(Input):
    """Feed-forward part of one layer: dense, or a mixture of experts with optional shared experts."""

    kind: Literal["dense", "moe"] = "dense"
    """`dense`, or `moe` for a mixture of experts."""
    width: Count
    """F, hidden width of the dense block; of one routed expert when `moe`."""
    gated: Flag = True
    """Three matrices (gate, up, down) if true, else two."""
    bias: Flag = False
    """Whether the matrices have biases."""
    n_experts: OptionalCount = 0
    """E, routed experts."""
    n_active_experts: OptionalCount = 0
    """k, routed experts a token visits."""
    n_shared_experts: OptionalCount = 0
    """Experts every token visits."""
    shared_width: OptionalCount = 0
    """Hidden width of one shared expert; 0 means as wide as a routed one."""
    shared_gate: Flag = False
    """Whether a learned gate (D weights) scales what the shared experts add."""
    router_embedding: Literal["embed", "embed_router"] = "embed"
    """Logical axis of the router's input dimension in MaxText (DeepSeek-style routers are not split by expert)."""
    score_bias: Flag = False
    """Whether the router adds E untrained biases to its scores (aux-loss-free balancing): stored, not parameters."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        routed = (self.n_experts, self.n_active_experts)
        if self.kind == "moe" and not all(routed):
            msg = "moe needs n_experts and n_active_experts of at least 1"
            raise ValueError(msg)
        if self.kind == "moe" and self.n_active_experts > self.n_experts:
            msg = f"n_active_experts {self.n_active_experts} exceeds n_experts {self.n_experts}"
            raise ValueError(msg)
        if self.kind == "dense" and any((*routed, self.n_shared_experts, self.shared_width, self.shared_gate)):
            msg = "n_experts, n_active_experts, n_shared_experts and shared_width belong to kind moe"
            raise ValueError(msg)
        return self

    @property
    def is_moe(self) -> bool:
        """Whether tokens are routed to experts."""
        return self.kind == "moe"

    @property
    def total_shared_width(self) -> int:
        """Hidden width of all shared experts together; 0 without any."""
        return self.n_shared_experts * (self.shared_width or self.width)

    @property
    def n_matrices(self) -> int:
        """Weight matrices of one feed-forward block."""
        return 3 if self.gated else 2


class Layer(Input):
    """One decoder layer, repeated `count` times in a row inside its group's block."""

    attention: Attention
    """The attention part."""
    feed_forward: FeedForward
    """The feed-forward part."""
    count: Count = 1
    """Layers of this kind in a row."""
    n_norms: Count = 2
    """Normalisations over the model width: 2, or 4 with norms after attention and feed-forward too."""


class LayerGroup(Input):
    """A block of consecutive layers, repeated `count` times: one scanned loop, one recomputed block at a time."""

    count: Count
    """Repetitions of the block."""
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    """The layers of one block; a block of one kind of layer may be written flat."""

    @model_validator(mode="before")
    @classmethod
    def _single_layer(cls, value: Any) -> Any:
        """Let a block of one layer be written flat: count, attention, feed_forward."""
        if isinstance(value, dict) and "layers" not in value and ({"attention", "feed_forward"} & set(value)):
            inner = {k: v for k, v in value.items() if k != "count"}
            return {**({"count": value["count"]} if "count" in value else {}), "layers": [inner]}
        return value

    @property
    def layers_per_block(self) -> int:
        """Decoder layers in one block."""
        return sum(layer.count for layer in self.layers)


class Architecture(Input):
    """The structure of a decoder-only transformer: what its tensors are, not what it is called."""

    name: Text = "inline"
    """What to call the model."""
    model_width: Count
    """D."""
    vocab_size: Count
    """V."""
    tied_embeddings: Flag = False
    """Whether the output layer uses the input embedding's weights."""
    layer_groups: Annotated[tuple[LayerGroup, ...], Field(min_length=1)]
    """The decoder layers, from first to last."""
    n_mtp_layers: OptionalCount = 0
    """Multi-token-prediction modules, each with one more layer of the last kind."""
    n_positions: OptionalCount = 0
    """Learned position embeddings; 0 with rotary ones."""
    norm_bias: Flag = False
    """Whether normalisations have a bias beside the scale."""
    norm_axis: Literal["tensor", "fsdp"] = "tensor"
    """Mesh axis that splits normalisation scales; `fsdp` where MaxText's own model file says so."""
    maxtext_model_name: Text | None = None
    """The `model_name` MaxText knows this architecture by, if any."""
    notes: tuple[Text, ...] = ()
    """What a reader of the preset should know."""

    @model_validator(mode="after")
    def _imaginable(self) -> Self:
        """Refuse sizes beyond any machine: counts stay exact in 64 bits below them."""
        D = self.model_width
        rough = D * (2 * self.vocab_size + self.n_positions)
        for layer, count in self.layers:
            a, ff = layer.attention, layer.feed_forward
            heads = (a.n_query_heads + 2 * a.n_key_value_heads) * max(a.qk_width, a.v_width)
            rough += count * (D * (heads + a.query_rank + a.key_value_rank) + a.query_rank * heads)
            rough += count * D * 3 * (max(1, ff.n_experts) * ff.width + ff.total_shared_width)
        if rough > MAX_PARAMETERS:
            msg = f"a model of some {rough:.0e} parameters is beyond planning (at most {MAX_PARAMETERS:.0e})"
            raise ValueError(msg)
        return self

    @property
    def layers(self) -> tuple[tuple[Layer, int], ...]:
        """Each layer kind with how many times it occurs in the whole model, in order of appearance."""
        return tuple((layer, group.count * layer.count) for group in self.layer_groups for layer in group.layers)

    @property
    def n_layers(self) -> int:
        """L, decoder layers without multi-token-prediction modules."""
        return sum(count for _, count in self.layers)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(layer.feed_forward.is_moe for layer, _ in self.layers)


# --- the workload ------------------------------------------------------------------------------------------------


class Optimizer(Input):
    """Optimizer and the types its state is kept in."""

    name: Literal["adamw", "adam_pax", "sgd", "muon"] = "adamw"
    """The update rule; decides how many moments there are."""
    weight_dtype: Dtype = "float32"
    """Stored weights, the second moment and gradients as they come out of the backward pass."""
    first_moment_dtype: Dtype | None = None
    """First moment; null means as the weights."""
    gradient_dtype: Dtype = "float32"
    """Type gradients are kept in between micro-steps."""
    host_offload: Flag = False
    """Keep the moments in host memory between steps."""
    shard_over_data: Flag = False
    """Split the moments over the data axis too (ZeRO-1)."""

    @property
    def mu_dtype(self) -> str:
        """First moment's resolved type."""
        if self.name == "adam_pax" or self.first_moment_dtype is None:
            return self.weight_dtype
        return self.first_moment_dtype


class Workload(Input):
    """What one optimizer step does, apart from how it is split."""

    sequence_length: Annotated[int, Field(strict=True, ge=128, le=2**24)]
    """T, tokens."""
    global_batch: Count | None = None
    """Sequences an optimizer step."""
    global_batch_tokens: Count | None = None
    """Tokens an optimizer step; a multiple of the sequence length."""
    per_device_batch: Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)] | Literal["auto"] | None = None
    """Sequences a JAX device and micro-step, or `auto` for the largest throughput."""
    precision: Precision = "bf16"
    """Type the large matmuls compute in; fp8 where the chip has it."""
    optimizer: Optimizer = Optimizer()
    """A name, or a mapping with name and types."""
    training_tokens: Annotated[int, Field(strict=True, ge=1, le=10**18)] | None = None
    """Tokens of the whole training, for days and cost."""

    @field_validator("optimizer", mode="before")
    @classmethod
    def _optimizer_by_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("per_device_batch", mode="before")
    @classmethod
    def _no_boolean(cls, value: Any) -> Any:
        if isinstance(value, bool):
            msg = "Input should be a number or 'auto'"
            raise ValueError(msg)  # noqa: TRY004 (pydantic reports ValueError)
        return value

    @model_validator(mode="after")
    def _one_batch(self) -> Self:
        given = [k for k in ("global_batch", "global_batch_tokens", "per_device_batch") if getattr(self, k) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            msg = f"give exactly one of global_batch, global_batch_tokens, per_device_batch; found {found}"
            raise ValueError(msg)
        if self.global_batch_tokens is not None and self.global_batch_tokens % self.sequence_length:
            msg = (
                f"global_batch_tokens {self.global_batch_tokens} is not a multiple of "
                f"sequence_length {self.sequence_length}"
            )
            raise ValueError(msg)
        return self

    @property
    def global_sequences(self) -> int | None:
        """Sequences an optimizer step where the input fixes them, else None (given per device)."""
        if self.global_batch_tokens is not None:
            return self.global_batch_tokens // self.sequence_length
        return self.global_batch


class Runtime(Input):
    """MaxText settings that change memory or time and are not part of the mesh. Defaults are what we emit."""

    attention: Literal["flash", "dot_product"] = "flash"
    """Attention kernel; `dot_product` keeps the scores of all pairs of tokens."""
    attention_tile_tokens: Count = 512
    """Rows of queries one flash-attention tile covers (`sa_block_q`); a context shard must be a multiple."""
    tokamax_splash: Flag = False
    """Use the tokamax splash kernel instead of jax's; a case that does not say gets it unless layers have windows."""
    fused_attention_backward: Flag = False
    """Let jax's splash kernel compute all gradients in one pass, five matmuls instead of seven; tokamax always does."""
    iota_embed: Flag = False
    """Look embeddings up by a one-hot matmul."""
    sparse_matmul: Flag = True
    """Dropless grouped matmuls; false for the dense (capacity-factor) path."""
    megablox: Flag = True
    """Use the megablox kernel for grouped matmuls."""
    capacity_factor: Annotated[float, Field(ge=-1, le=1000, allow_inf_nan=False)] = -1.0
    """Share of the balanced load an expert takes before it drops tokens; -1 drops none."""
    ragged_buffer_factor: Annotated[float, Field(ge=-1, le=1000, allow_inf_nan=False)] = -1.0
    """Size of the dropless dispatch buffer under expert parallelism, in balanced loads; -1 for the worst case."""
    logits_in_float32: Flag = True
    """Compute the softmax of the logits in float32."""
    weight_sum_in_float32: Flag = True
    """Add the outputs of a token's experts in float32."""
    scan_layers: Flag = True
    """Compile one layer and loop over it; false unrolls all layers."""
    context_strategy: Literal["all_gather", "ring", "ulysses"] = "all_gather"
    """How context parallelism shares keys and values."""
    context_load_balance: Flag = True
    """Reorder tokens so that causal attention costs each context shard the same."""
    quantization: Literal["none", "int8", "fp8", "fp8_full"] | None = None
    """MaxText quantisation recipe; null means what the precision asks for."""
    pipeline_layers_per_stage: Count = 1
    """Layers a pipeline stage holds in one repeat."""
    pipeline_delay_activations: Flag = False
    """Pass activations on one iteration later, to hide the transfer."""
    pipeline_gather_weights: Literal["per_iteration", "once", "per_repeat"] = "per_iteration"
    """When a stage gathers its FSDP shards."""
    tuned_flags: Flag = True
    """Assume the published LIBTPU flag group of the chip (SparseCore offload, clock state) in the time model."""


# --- the machine -------------------------------------------------------------------------------------------------


class Figure(Input):
    """A number with where it comes from."""

    value: Number
    source: Text
    kind: Literal["published", "derived", "measured"]
    note: Text | None = None
    alternatives: dict[str, Number] = {}
    """What other sources say, by source."""


class Nodes(Input):
    """How Google Kubernetes Engine offers a chip: what a job must ask for to land on its nodes."""

    accelerator: Text
    """Value of the node label `cloud.google.com/gke-tpu-accelerator`."""
    chips_per_node: Count
    """Chips of one node of a slice; a smaller slice is one node."""
    tpu_type_prefix: Text
    """What xpk's `--tpu-type` begins with; its number counts as `accelerator_prefixes` says."""
    source: Text
    kind: Literal["published", "derived", "measured"]


class Chip(Input):
    """One accelerator generation. Figures are per chip unless the name says per device; SI units in the key."""

    name: Text
    title: Text
    jax_devices_per_chip: Literal[1, 2]
    torus_dims: Literal[2, 3]
    max_chips: Count
    chips_per_host: Count
    aliases: tuple[Text, ...] = ()
    """Other names of the chip; case, spaces, `-`, `_` and a leading `TPU` do not matter."""
    accelerator_prefixes: dict[str, Literal["chips", "devices", "tensorcores"]]
    """Spellings the cloud uses before `-N`, with what N counts."""
    small_slices: tuple[tuple[Count, ...], ...]
    """Slice shapes in chips that follow no rule: all of a 2D chip, those below one cube of a 3D chip."""
    ring_slices: tuple[tuple[Count, ...], ...] = ()
    """Small slices JAX lays out along one walk over the chips, so that any mesh fits."""
    wrap_side: Count
    """2D: an axis of this length wraps around. 3D: the side of the cubes larger slices are built of; those wrap on every axis."""
    bf16_flops_per_s: Figure
    fp8_flops_per_s: Figure | None = None
    hbm_bytes: Figure
    hbm_bytes_per_s: Figure
    usable_hbm_bytes_per_device: Figure
    """What the XLA compiler lets one JAX device use."""
    ici_link_bytes_per_s: Figure
    """One link, one way."""
    d2d_bytes_per_s: Figure | None = None
    """Die-to-die link between the two devices of a chip, one way."""
    hop_latency_s: Figure
    dcn_bytes_per_s: Figure
    """Egress per chip."""
    pcie_bytes_per_s: Figure
    """Host link per chip, one way."""
    host_ram_bytes: Figure | None = None
    """Per host."""
    vmem_bytes_per_core: Figure
    tensorcores_per_chip: Count
    sparsecores_per_chip: OptionalCount
    mxu_dim: Count
    usd_per_chip_hour: Figure | None = None
    nodes: Nodes | None = None

    def flops_per_s(self, precision: str) -> float:
        """Peak dense FLOP/s of one JAX device for a matmul precision (`bf16` where the chip has no faster fp8)."""
        figure = self.fp8_flops_per_s if precision == "fp8" and self.fp8_flops_per_s else self.bf16_flops_per_s
        return figure.value / self.jax_devices_per_chip

    @property
    def hbm_bytes_per_s_per_device(self) -> float:
        """HBM bandwidth of one JAX device."""
        return self.hbm_bytes_per_s.value / self.jax_devices_per_chip


class Cluster(Input):
    """Slices of one shape. `topology` is in chips; a JAX device is a chip, or half of one on tpu7x."""

    chip: Chip
    topology: tuple[Count, ...]
    slices: Count = 1
    accelerator: Text | None = None
    """The cloud's name the user wrote, if any."""
    usd_per_chip_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @property
    def chips_per_slice(self) -> int:
        """Chips of one slice."""
        return math.prod(self.topology)

    @property
    def chips(self) -> int:
        """Chips of all slices."""
        return self.chips_per_slice * self.slices

    @property
    def devices_per_slice(self) -> int:
        """JAX devices of one slice: what the ICI mesh axes multiply to."""
        return self.chips_per_slice * self.chip.jax_devices_per_chip

    @property
    def devices(self) -> int:
        """JAX devices of all slices."""
        return self.devices_per_slice * self.slices

    @property
    def hbm_limit_bytes(self) -> float:
        """HBM one JAX device may use, by the compiler's own limit."""
        return self.chip.usable_hbm_bytes_per_device.value


# --- the plan's free choices -------------------------------------------------------------------------------------

RematLocation = Literal["device", "offload", "remat"]


class RematPolicy(Input):
    """Which named activations survive the forward pass: on the device, on the host, or recomputed (all others)."""

    name: Text
    """MaxText's policy name; `custom` for a free choice."""
    device: frozenset[str] = frozenset()
    offload: frozenset[str] = frozenset()

    @property
    def tensors(self) -> dict[str, RematLocation]:
        """Named tensors with where they are kept, in name order."""
        return {n: "device" if n in self.device else "offload" for n in sorted(self.device | self.offload)}


class Split(Input):
    """One way to split the work: the `plan:` section of a case, and what a MaxText command line says."""

    ici: dict[str, Count] = {}
    """Degrees by mesh axis inside a slice; those left out are 1; they multiply to its JAX devices."""
    dcn: dict[str, Count] = {}
    """Degrees by mesh axis across slices; they multiply to the slices."""
    per_device_batch: Annotated[float, Field(gt=0, le=10**6, allow_inf_nan=False)]
    """Sequences a JAX device and micro-step; a fraction where devices share a sequence."""
    gradient_accumulation: Count = 1
    """Micro-steps an optimizer step."""
    pipeline_microbatches: Count | None = None
    """Microbatches of one micro-step; by default the number of stages."""
    num_vocab_tiling: Count = 1
    """Parts the logits are computed in, one after the other."""
    remat_policy: Text = "full"
    """A MaxText policy name, or `custom`."""
    remat_tensors: dict[str, RematLocation] = {}
    """With `custom`: where each named activation goes."""
    allow_split_physical_axes: Flag = False
    """Whether a mesh axis may take a part of a physical axis of the torus."""

    @field_validator("ici", "dcn")
    @classmethod
    def _known_axes(cls, value: dict[str, int]) -> dict[str, int]:
        if unknown := [axis for axis in value if axis not in AXES]:
            msg = f"unknown mesh axis {unknown[0]!r}; the axes are {', '.join(AXES)}"
            raise ValueError(msg)
        return value


class Constraints(Input):
    """Bounds on the search; all optional."""

    hbm_headroom: Fraction = 0.0
    """Share of the usable HBM to leave free."""
    remat: Text | dict[str, RematLocation] = "auto"
    """`auto`, a MaxText policy name, or named tensors with where they go (policy `custom`)."""
    gradient_accumulation: Count | Literal["auto"] = "auto"
    """Micro-steps an optimizer step."""
    num_vocab_tiling: Count | Literal["auto"] = "auto"
    """Parts the logits are computed in, one after the other."""
    max_fsdp_parallelism: Count | None = None
    """Largest degree of fsdp, ICI and DCN together."""
    max_data_parallelism: Count | None = None
    """Largest degree of data."""
    max_tensor_parallelism: Count | None = None
    """Largest degree of tensor."""
    max_context_parallelism: Count | None = None
    """Largest degree of context."""
    max_expert_parallelism: Count | None = None
    """Largest degree of expert."""
    max_pipeline_parallelism: Count | None = None
    """Largest number of pipeline stages."""
    allow_split_physical_axes: Flag = True
    """Whether a mesh axis may take a part of a physical axis of the torus."""

    @field_validator("hbm_headroom", mode="before")
    @classmethod
    def _percent(cls, value: Any) -> Any:
        """Accept `5%` beside 0.05."""
        if isinstance(value, str) and value.endswith("%"):
            try:
                return float(value[:-1]) / 100
            except ValueError:
                return value
        return value


class Case(Input):
    """Everything one run of shardplan needs to know, resolved: no names left to look up."""

    name: Text = "case"
    architecture: Architecture
    workload: Workload
    cluster: Cluster
    constraints: Constraints = Constraints()
    runtime: Runtime = Runtime()
    plan: Split | None = None

    @cached_property
    def sequences_per_device(self) -> float | None:
        """Sequences an optimizer step and JAX device, where the global batch is fixed."""
        total = self.workload.global_sequences
        return None if total is None else total / self.cluster.devices
