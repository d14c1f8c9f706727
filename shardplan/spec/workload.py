"""What one optimizer step does, and the MaxText settings it is done with."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from shardplan.spec.scalars import Count, Dtype, Flag, Input, Precision, Text


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


BATCHES: Final = ("global_batch", "global_batch_tokens", "per_device_batch")
"""The ways to say the batch of a step."""


class Workload(Input):
    """What one optimizer step does, apart from how it is split."""

    sequence_length: Annotated[int, Field(strict=True, ge=1, le=2**24)]
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
        given = [name for name in BATCHES if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            msg = f"give exactly one of {', '.join(BATCHES)}; found {found}"
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
    """Attention kernel; `dot_product` keeps the scores of all pairs of tokens, and is taken for sequences without whole tiles."""
    attention_tile_tokens: Count = 512
    """Wanted side of a flash-attention tile (`sa_block_*`); the nearest that fills the sequence is taken, and fills a context shard."""
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
    packing: Flag = True
    """Put several documents in one sequence, kept apart by their numbers."""
    pipeline_layers_per_stage: Count | None = None
    """Layers a pipeline stage holds in one repeat; by default 1, and all of the stage's with experts."""
    pipeline_delay_activations: Flag = False
    """Pass activations on one iteration later, to hide the transfer."""
    pipeline_gather_weights: Literal["per_iteration", "once", "per_repeat"] = "per_iteration"
    """When a stage gathers its FSDP shards."""
    maxtext: Text | None = None
    """MaxText release the plan is for: a version, tag or commit; by default the newest known here."""
    tuned_flags: Flag = True
    """Assume the published LIBTPU flag group of the chip (SparseCore offload, clock state) in the time model."""
