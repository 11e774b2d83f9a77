"""The direct engine: one masked forward per step and chain, batched over chains and temperatures."""

import numpy as np

from .. import chain
from ..progress import Progress
from ..randomness import Streams
from .trace import Chunk, Setup


def advance(run: Setup, state: chain.State, steps: int, record_every: int, label: str = "") -> Chunk:
    """Take ``steps`` steps from ``state``."""
    count, n = state.tokens.shape
    streams = Streams(run.seed, run.chains, n, block=min(256, steps))
    first, last = state.step, state.step + steps
    records = np.empty((last // record_every - first // record_every, count, n), dtype=np.int32)
    site = np.empty((steps, count), dtype=np.int16)
    changed = np.empty((steps, count), dtype=bool)
    log_ratio = np.empty((steps, count))
    with Progress(steps, label) as report:
        for t in range(steps):
            state, info = chain.step(run.model, state, run.temperature, streams.at(state.step))
            site[t], changed[t], log_ratio[t] = info.site.cpu(), info.changed.cpu(), info.log_ratio.cpu()
            if state.step % record_every == 0:
                records[state.step // record_every - first // record_every - 1] = state.tokens.cpu().numpy()
            report.reach(t + 1)
    return Chunk(state, records, site, changed, log_ratio, np.full(count, steps, dtype=np.int64))
