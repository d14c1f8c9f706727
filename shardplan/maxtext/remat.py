"""MaxText's rematerialisation policies: which named activations each keeps for the backward pass.

Source: MaxText 0.2.5 layers/nnx_decoders.py get_remat_policy; reference section 3.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shardplan.maxtext.tables import table
from shardplan.spec import RematPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shardplan.maxtext.releases import Release
    from shardplan.spec import Split

ATTENTION_INPUTS = frozenset({"query_proj", "key_proj", "value_proj", "kv_proj", "qkv_proj"})
FEED_FORWARD = frozenset({"mlpwi_0", "mlpwi_1", "mlpwi", "mlpwo"})

TENSORS = ATTENTION_INPUTS | FEED_FORWARD | {
    "decoder_layer_input", "context", "attention_out", "out_proj",
    "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo", "moe_x_sorted", "moe_routing_maps",
    "query_wa_proj", "kv_wa_proj", "mla_q", "mla_kv", "indexer_cutoff_threshold",
}  # fmt: skip
"""Every tensor name the `custom` policy accepts and acts on."""

POLICIES: dict[str, RematPolicy] = {
    name: RematPolicy(name=name, device=frozenset(device), offload=frozenset(offload))
    for name, device, offload in (
        ("full", (), ()),
        ("save_out_proj", ("out_proj",), ()),
        ("save_qkv_proj", ATTENTION_INPUTS, ()),
        ("save_dot_except_mlp", ATTENTION_INPUTS | {"out_proj"}, ()),
        ("save_dot_with_context_except_mlp", ATTENTION_INPUTS | {"out_proj", "context"}, ()),
        ("save_dot_except_mlpwi", ATTENTION_INPUTS | {"out_proj", "mlpwo"}, ()),
        ("minimal", ATTENTION_INPUTS | {"out_proj"} | FEED_FORWARD, ()),
        ("minimal_with_context", ATTENTION_INPUTS | {"out_proj", "context"} | FEED_FORWARD, ()),
        ("qkv_proj_offloaded", (), ATTENTION_INPUTS - {"qkv_proj"}),
        ("minimal_offloaded", (), ATTENTION_INPUTS | {"out_proj"} | FEED_FORWARD),
    )
}
"""Named policies, from the least to the most memory. `none` with scanned layers is `full`."""

ALIASES = {
    "none": "full",
    "minimal_flash": "minimal_with_context",
    "minimal_with_quantization": "minimal",
    "minimal_with_context_and_quantization": "minimal_with_context",
}
"""Names that keep the same tensors as another policy: with scanned layers `none` is `full`; quantised operands are AQT's."""


def custom(tensors: Mapping[str, str]) -> RematPolicy:
    """The `custom` policy that keeps each named tensor where the mapping says (`device`, `offload` or `remat`)."""
    return RematPolicy(
        name="custom",
        device=frozenset(n for n, where in tensors.items() if where == "device"),
        offload=frozenset(n for n, where in tensors.items() if where == "offload"),
    )


EXPERT_PRODUCTS: Final = {name: f"moe_{name}" for name in ("mlpwi_0", "mlpwi_1", "mlpwo")}
"""Products of dense layers, and those of experts that bore the same names until c73595a. Source: MaxText PR #3414."""


def as_kept_by(release: Release, policy: RematPolicy, *, has_experts: bool) -> RematPolicy:
    """What a policy keeps under a release: products of experts go where those of dense layers go while both have one name."""
    if not has_experts or release.has("c73595a") or (policy.name != "custom" and not release.has("0.1.0")):
        return policy
    kept = dict(policy.tensors)
    for dense, routed in EXPERT_PRODUCTS.items():
        place = kept.get(dense) or kept.get(routed)
        kept |= dict.fromkeys((dense, routed), place) if place else {}
    return policy if kept == policy.tensors else custom(kept)


def exists_in(release: Release, policy: RematPolicy) -> bool:
    """Whether a release has a name for everything a custom policy keeps; the others are of all releases."""
    known, shared = (
        table(release.name).keys,
        {} if release.has("c73595a") else {r: d for d, r in EXPERT_PRODUCTS.items()},
    )
    return policy.name != "custom" or all(shared.get(name, name) in known for name in policy.tensors)


def policy_of(split: Split) -> RematPolicy:
    """The policy a split names; per-tensor settings count with `custom` only, as in MaxText."""
    if split.remat_policy == "custom":
        return custom(split.remat_tensors)
    return POLICIES[ALIASES.get(split.remat_policy, split.remat_policy)]
