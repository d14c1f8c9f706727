from __future__ import annotations

from hypothesis import settings

# Guard: a busy machine is no failure; time is measured in benchmarks/.
settings.register_profile("shardplan", deadline=None)
settings.load_profile("shardplan")
