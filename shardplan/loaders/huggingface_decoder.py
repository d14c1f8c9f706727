"""The text decoder of a config.json, read in the light of its family: sizes, and every layer in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from shardplan.errors import Diagnostic, InputError

if TYPE_CHECKING:
    from shardplan.loaders.huggingface_families import Family
    from shardplan.source import Document
    from shardplan.source.document import Path

MAX_LAYERS = 10_000

Size = Annotated[int, Field(strict=True, ge=1, le=10**9)] | None
MaybeSize = Annotated[int, Field(strict=True, ge=0, le=10**9)] | None
Flag = Annotated[bool, Field(strict=True)] | None
Indices = Annotated[tuple[Annotated[int, Field(strict=True, ge=0)], ...], Field(max_length=MAX_LAYERS)] | None
Layers = Annotated[int, Field(strict=True, ge=1, le=MAX_LAYERS)] | None


class HuggingFaceConfig(BaseModel):
    """The keys of a config.json that shape tensors and windows; null and absent are told apart by `model_fields_set`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    vocab_size: Size = None
    hidden_size: Size = None
    n_embd: Size = None
    intermediate_size: Size = None
    intermediate_size_mlp: Size = None
    n_inner: Size = None
    num_hidden_layers: Layers = None
    n_layer: Layers = None
    num_attention_heads: Size = None
    n_head: Size = None
    num_key_value_heads: Size = None
    head_dim: Size = None
    max_position_embeddings: Size = None
    n_positions: Size = None
    tie_word_embeddings: Flag = None
    attention_bias: Flag = None
    qkv_bias: Flag = None
    mlp_bias: Flag = None
    use_bias: Flag = None
    use_qk_norm: Flag = None
    sliding_window: MaybeSize = None
    use_sliding_window: Flag = None
    max_window_layers: MaybeSize = None
    sliding_window_pattern: Size = None
    layer_types: Annotated[tuple[str, ...], Field(max_length=MAX_LAYERS)] | None = None
    attention_chunk_size: MaybeSize = None
    no_rope_layers: Indices = None
    no_rope_layer_interval: Size = None
    num_experts: MaybeSize = None
    num_local_experts: MaybeSize = None
    n_routed_experts: MaybeSize = None
    num_experts_per_tok: MaybeSize = None
    moe_intermediate_size: Size = None
    shared_expert_intermediate_size: MaybeSize = None
    n_shared_experts: MaybeSize = None
    first_k_dense_replace: MaybeSize = None
    moe_layer_freq: Size = None
    decoder_sparse_step: Size = None
    mlp_only_layers: Indices = None
    interleave_moe_layer_step: Size = None
    moe_layers: Indices = None
    q_lora_rank: MaybeSize = None
    kv_lora_rank: Size = None
    qk_nope_head_dim: Size = None
    qk_rope_head_dim: Size = None
    v_head_dim: Size = None
    num_nextn_predict_layers: MaybeSize = None


OTHER_NAMES = {
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
}
"""Spellings of GPT-2 configurations."""


class Decoder:
    """A configuration read in the light of its family."""

    def __init__(self, config: HuggingFaceConfig, family: Family, document: Document, at: Path) -> None:
        self.config, self.family, self.document, self.at = config, family, document, at

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, key: str) -> Any:
        """What the configuration says, else what its family has as default; an explicit null stays None."""
        for name in (key, OTHER_NAMES.get(key, key)):
            if name in self.config.model_fields_set:
                return getattr(self.config, name)
        return self.family.defaults.get(key)

    def size(self, key: str) -> int:
        """A size that must be known; raises InputError if neither the configuration nor its family has it."""
        value = self.value(key)
        if value is None:
            path = ".".join((*map(str, self.at), key))
            raise InputError([Diagnostic("SP011", f"missing key {path!r}", self.document.mark(self.at))])
        return int(value)

    def count(self, key: str) -> int:
        """A number that is 0 where it is null or absent."""
        return int(self.value(key) or 0)

    def switch(self, switch: bool | str) -> bool:  # noqa: FBT001 - a value of a table
        """Whether a family's switch is on in this configuration."""
        return switch if isinstance(switch, bool) else bool(self.value(switch))

    @property
    def is_tied(self) -> bool:
        """Whether input and output embeddings are one tensor."""
        tied = self.value("tie_word_embeddings")
        return self.family.tied if tied is None else bool(tied)

    @property
    def n_experts(self) -> int:
        """Routed experts of a layer; 0 in a dense model."""
        spellings = ("num_local_experts", "num_experts", "n_routed_experts")
        given = [key for key in spellings if key in self.config.model_fields_set]
        found = [self.count(key) for key in given or spellings]
        return max(found)

    # --- layers ------------------------------------------------------------------------------------------------------

    def layers(self) -> list[dict[str, Any]]:
        """Every decoder layer, in order; raises InputError with all that does not agree."""
        n_layers = self.size("num_hidden_layers")
        if problems := self._disagreements(n_layers):
            raise InputError(problems)
        made: dict[tuple[str, bool], dict[str, Any]] = {}
        layers = []
        for i in range(n_layers):
            kind = (self._attention_kind(i), self._is_moe(i))
            if kind not in made:
                norms = {"n_norms": self.family.n_norms}
                made[kind] = {
                    "attention": self._attention(kind[0]),
                    "feed_forward": self._feed_forward(kind[1]),
                    **norms,
                }
            layers.append(made[kind])
        return layers

    def _attention_kind(self, i: int) -> str:
        """What layer i attends to: `full_attention`, `sliding_attention` or `chunked_attention`."""
        family, types = self.family, self.value("layer_types")
        if types:
            return str(types[i])
        flagged = bool(self.value("use_sliding_window"))
        if family.windows == "chunked":
            rotary = self.value("no_rope_layers")
            step = self.size("no_rope_layer_interval")
            is_full = not rotary[i] if rotary else (i + 1) % step == 0
            return "full_attention" if is_full else "chunked_attention"
        is_sliding = {
            "all": True,
            "use_sliding_window": flagged,
            "max_window_layers": flagged and i >= self.count("max_window_layers"),
            "pattern": (i + 1) % (self.value("sliding_window_pattern") or family.pattern or 1) != 0,
        }.get(family.windows, False)
        return "sliding_attention" if is_sliding else "full_attention"

    def _window(self, kind: str) -> dict[str, Any]:
        if kind == "chunked_attention" and self.count("attention_chunk_size"):
            return {"window": self.count("attention_chunk_size"), "window_kind": "chunked"}
        is_off = self.family.windows in {"use_sliding_window", "max_window_layers"} and not self.value(
            "use_sliding_window"
        )
        if kind == "sliding_attention" and self.count("sliding_window") and not is_off:
            return {"window": self.count("sliding_window")}
        return {}

    def _attention(self, kind: str) -> dict[str, Any]:
        heads = self.size("num_attention_heads")
        if self.family.is_latent:
            return {
                "kind": "mla",
                "n_query_heads": heads,
                "n_key_value_heads": heads,
                "query_rank": self.count("q_lora_rank"),
                "key_value_rank": self.size("kv_lora_rank"),
                "nope_width": self.size("qk_nope_head_dim"),
                "rope_width": self.size("qk_rope_head_dim"),
                "value_width": self.size("v_head_dim"),
            }
        qk_norm = self.family.qk_norm
        if qk_norm == "use_qk_norm":
            qk_norm = "head" if self.value("use_qk_norm") else "none"
        return {
            "n_query_heads": heads,
            "n_key_value_heads": self.value("num_key_value_heads") or heads,
            "head_width": self.value("head_dim") or self.size("hidden_size") // heads,
            "qk_norm": qk_norm,
            "bias": self.switch(self.family.qkv_bias),
            "output_bias": self.switch(self.family.output_bias),
            "sinks": self.family.has_sinks,
            **self._window(kind),
        }

    def _is_moe(self, i: int) -> bool:
        """Whether layer i routes tokens to experts."""
        if self.family.experts == "none" or not self.n_experts:
            return False
        if self.family.experts == "sparse_step":
            return i not in (self.value("mlp_only_layers") or ()) and (i + 1) % self.size("decoder_sparse_step") == 0
        if self.family.experts == "dense_first":
            return i >= self.count("first_k_dense_replace") and i % self.size("moe_layer_freq") == 0
        if self.family.experts == "interleaved":
            chosen = self.value("moe_layers")
            return i in chosen if chosen else (i + 1) % self.size("interleave_moe_layer_step") == 0
        return True

    def _feed_forward(self, is_moe: bool) -> dict[str, Any]:  # noqa: FBT001 - a layer's kind
        experts = self.family.experts
        common = {"gated": self.family.gated, "bias": self.switch(self.family.mlp_bias)}
        if not is_moe:
            key = "intermediate_size_mlp" if experts == "interleaved" else "intermediate_size"
            # Guard: GPT-2 leaves its width out where it is four times the model's.
            given = self.value(key) or (4 * self.size("hidden_size") if self.family.has_positions else None)
            return {"width": given or self.size(key), **common}
        of_its_own = experts in {"sparse_step", "dense_first"}
        moe = {
            "kind": "moe",
            "width": self.size("moe_intermediate_size" if of_its_own else "intermediate_size"),
            "n_experts": self.n_experts,
            "n_active_experts": self.size("num_experts_per_tok"),
            **common,
        }
        if experts in {"dense_first", "interleaved"}:
            shared = 1 if experts == "interleaved" else self.count("n_shared_experts")
            moe |= {"n_shared_experts": shared, "router_embedding": "embed_router"}
            moe["score_bias"] = self.switch(self.family.score_bias)
        elif width := self.count("shared_expert_intermediate_size"):
            moe |= {"n_shared_experts": 1, "shared_width": width, "shared_gate": self.family.shared_gate}
        return moe

    # --- what does not agree -----------------------------------------------------------------------------------------

    def _disagreements(self, n_layers: int) -> list[Diagnostic]:
        found: list[Diagnostic] = []

        def say(key: str, message: str) -> None:
            found.append(Diagnostic("SP015", f"{key}: {message}", self.document.mark((*self.at, key))))

        heads, width = self.size("num_attention_heads"), self.size("hidden_size")
        groups = self.value("num_key_value_heads") or heads
        if not self.family.is_latent and heads % groups:
            say("num_key_value_heads", f"{groups} does not divide num_attention_heads {heads}")
        if not self.family.is_latent and not self.value("head_dim") and width < heads:
            say("num_attention_heads", f"{heads} heads in a hidden_size of {width} have no width")
        if self.family.is_latent and self.value("attention_bias"):
            say("attention_bias", "biases in latent attention cannot be planned")
        for key in ("layer_types", "no_rope_layers"):
            values = self.value(key)
            if values and len(values) != n_layers:
                say(key, f"{len(values)} entries for {n_layers} layers")
        if self.family.experts == "none" and self.n_experts > 1:
            say("model_type", f"layers of this type have no experts, but the configuration has {self.n_experts}")
        if self.family.experts != "none" and self.n_experts and self.count("num_experts_per_tok") > self.n_experts:
            say("num_experts_per_tok", f"{self.count('num_experts_per_tok')} of only {self.n_experts} experts")
        return found
