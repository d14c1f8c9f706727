"""Ranked, explained sharding plans for training large language models on TPUs."""

from __future__ import annotations

__version__ = "0.1.0"
