"""What is missing to plan what MaxText can do and shardplan cannot: said with the refusal, by key and by kind of run."""

from __future__ import annotations

from typing import Final

MISSING: Final = {
    "use_dpo": "a frozen reference model beside the trained one, and two answers to every prompt",
    "use_grpo": "generations, a frozen reference model and the rollout's own weights and caches",
    "enable_diloco": "an outer optimizer with weights and momentum of its own on every worker of the diloco axis",
    "enable_streaming_diloco": "fragments of the weights that are exchanged while others train",
    "ici_diloco_parallelism": "a mesh axis whose workers train apart between exchanges",
    "dcn_diloco_parallelism": "a mesh axis whose workers train apart between exchanges",
    "lora.enable_lora": "frozen weights without gradients and moments, and the adapters",
    "use_multimodal": "the vision encoder and its activations",
    "hardware": "chips other than TPUs",
}
"""By key."""

MISSING_STAGES: Final = {
    "dpo": "preference optimisation needs a frozen reference model beside the trained one, and two answers to every prompt",
    "rl": "reinforcement learning needs rollouts: their own copy of the weights, key-value caches, a frozen reference model",
    "distillation": "distillation needs the frozen teacher: its weights and its forward pass beside the student's",
}
"""By what an entry point does."""
