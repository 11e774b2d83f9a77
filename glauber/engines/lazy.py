"""The lazy engine: the same trajectories as `direct`, with a forward only where the conditional is not yet known.

Each chain runs ahead on its own until it needs an unknown conditional; the forwards that are needed are gathered over chains
into one batch. A step never costs more than one forward, so there are never more of them than in `direct`.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from .. import chain
from ..progress import Progress
from ..randomness import Draws, block
from .memo import Memo, records, zobrist
from .trace import Chunk, Setup

WORTHWHILE = 0.6  # a chain that changes more often than this meets few contexts twice: its records are not kept
MEMORY = 64  # steps over which a chain's rate of change is averaged


@dataclass
class Walker:
    """One chain on its way through a chunk, its tokens as columns of the vocabulary."""

    columns: list[int]
    key: int
    draws: Draws
    temperature: float
    done: int = 0
    rate: float = 0.0
    forwards: int = 0

    def context(self) -> tuple[int, int, int]:
        """Site of the next step, the token there, and the key of its context."""
        site = int(self.draws.site[self.done])
        column = self.columns[site]
        return site, column, self.key ^ zobrist("token", site, column) ^ zobrist("mask", site, self.temperature)


@dataclass
class Log:
    """Where a chunk's steps are written down."""

    first: int
    record_every: int
    records: NDArray[np.int64]
    changed: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]

    def note(self, walker: Walker, c: int, site: int, column: int, gain: float) -> None:
        """Apply the step of chain ``c`` and write it down."""
        before = walker.columns[site]
        moved = column != before
        if moved:
            walker.key ^= zobrist("token", site, before) ^ zobrist("token", site, column)
            walker.columns[site] = column
            self.changed[walker.done, c] = True
            self.log_ratio[walker.done, c] = gain / walker.temperature
        walker.rate += (moved - walker.rate) / MEMORY
        walker.done += 1
        step = self.first + walker.done
        if step % self.record_every == 0:
            self.records[step // self.record_every - self.first // self.record_every - 1, c] = walker.columns


def advance(run: Setup, state: chain.State, steps: int, record_every: int, label: str = "") -> Chunk:
    """Take ``steps`` steps from ``state``, starting with an empty memory.

    The memory lasts for one call. A run resumed at a chunk's start therefore makes the same batches of forwards as one that
    went through, and gets the same logits to the last bit.
    """
    count, n = state.tokens.shape
    vocabulary = run.model.vocabulary
    columns = np.searchsorted(vocabulary, state.tokens.cpu().numpy())
    first, last = state.step, state.step + steps
    log = Log(
        first,
        record_every,
        np.empty((last // record_every - first // record_every, count, n), dtype=np.int64),
        np.zeros((steps, count), dtype=bool),
        np.zeros((steps, count)),
    )
    walkers = [
        Walker(row.tolist(), _key(row.tolist()), block(run.seed, index, first, steps, n), float(tau))
        for row, index, tau in zip(columns, run.chains, run.temperature, strict=True)
    ]
    memo, waiting = Memo(), list(range(count))
    with Progress(steps, label) as report:
        while waiting:
            waiting = [c for c in waiting if _run_ahead(walkers[c], c, memo, log, steps)]
            if waiting:
                _ask(run, [walkers[c] for c in waiting], waiting, memo, log)
            report.reach(min((walkers[c].done for c in waiting), default=steps))
    tokens = torch.from_numpy(vocabulary[np.array([w.columns for w in walkers])]).to(state.tokens.device)
    return Chunk(
        chain.State(tokens, last),
        vocabulary[log.records].astype(np.int32),
        np.stack([w.draws.site for w in walkers], axis=1).astype(np.int16),
        log.changed,
        log.log_ratio,
        np.array([w.forwards for w in walkers]),
    )


def _key(columns: list[int]) -> int:
    key = 0
    for position, column in enumerate(columns):
        key ^= zobrist("token", position, column)
    return key


def _run_ahead(walker: Walker, c: int, memo: Memo, log: Log, steps: int) -> bool:
    """Step while the conditionals are known; whether the chain waits for a forward."""
    while walker.done < steps:
        site, column, key = walker.context()
        record = memo.get(key)
        if record is None:
            return True
        drawn = record.draw(column, float(walker.draws.stay[walker.done]), float(walker.draws.pick[walker.done]))
        if drawn is None:
            return True
        log.note(walker, c, site, *drawn)
    return False


def _ask(run: Setup, walkers: list[Walker], chains: list[int], memo: Memo, log: Log) -> None:
    """One batch of forwards, one row per distinct context; every waiting chain takes its step."""
    contexts = [w.context() for w in walkers]
    rows: dict[int, int] = {}  # key to row
    asked: list[int] = []  # the waiting chain that each row is made for
    for i, (_, _, key) in enumerate(contexts):
        if key not in rows:
            rows[key] = len(asked)
            asked.append(i)
            walkers[i].forwards += 1
    states = torch.from_numpy(run.model.vocabulary[np.array([walkers[i].columns for i in asked])])
    sites = torch.tensor([contexts[i][0] for i in asked])
    logits, before = chain.masked_logits(run.model, states.to(run.model.device), sites.to(run.model.device))
    if len(asked) < len(walkers):
        logits = logits[[rows[key] for _, _, key in contexts]]
        before = torch.tensor([column for _, column, _ in contexts], device=logits.device)
    tau = torch.tensor([w.temperature for w in walkers], dtype=torch.float64, device=logits.device)
    drawn = [(w.draws.site[w.done], w.draws.stay[w.done], w.draws.pick[w.done]) for w in walkers]
    chosen, stay, pick = (np.array(values) for values in zip(*drawn, strict=True))
    draws = Draws(chosen, stay, pick)
    after = chain.redraw(logits, before, tau, draws)
    gains = (logits.gather(1, after[:, None]).double() - logits.gather(1, before[:, None]).double())[:, 0].tolist()
    kept = [i for i, w in enumerate(walkers) if w.rate < WORTHWHILE]
    if kept:
        for i, record in zip(kept, records(logits[kept], before[kept], tau[kept]), strict=True):
            memo.put(contexts[i][2], record)
    for w, c, (site, _, _), column, gain in zip(walkers, chains, contexts, after.tolist(), gains, strict=True):
        log.note(w, c, site, column, gain)
