"""How often the stages of a pipeline run, each time with all their layers: what they keep, gather and send follows from it.

Source: MaxText 0.2.5 layers/pipeline.py; maxtext reference 4.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shardplan.spec import Case
    from shardplan.splits.candidates import Candidates
    from shardplan.units import Floats, Ints


def pipeline_iterations(case: Case, candidates: Candidates) -> Ints:
    """Iterations of the pipeline loop a pass, `(n,)`: m R + d (P - 1), the last on garbage; 1 without pipeline.

    m microbatches go R rounds through P stages; a stage hands on after d iterations, 2 where activations are delayed.
    """
    delay = 2 if case.runtime.pipeline_delay_activations else 1
    filling = delay * (candidates.degree("pipeline") - 1)
    return candidates.pipeline_microbatches * candidates.pipeline_repeats + filling


def visited_share(candidates: Candidates) -> Floats:
    """Share of all pipelined layers that a stage runs in one iteration, `(n,)`; all of them without pipeline."""
    return 1.0 / np.asarray(candidates.degree("pipeline") * candidates.pipeline_repeats, dtype=np.float64)


def stage_passes(case: Case, candidates: Candidates) -> Floats:
    """Times a pass brings in a share of all pipelined layers, `(n,)`: 1 without pipeline, more for the bubble with one."""
    return pipeline_iterations(case, candidates) * visited_share(candidates)
