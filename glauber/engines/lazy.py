"""The lazy engine: the same trajectories as `direct`, with a forward only where the conditional is not yet known.

A chain that moves at most steps meets few contexts twice. As long as it does it is one of the crowd: all its like step together, and
nothing is remembered of them. Any other chain walks ahead on its own until it needs an unknown conditional. The forwards that are
needed are gathered into one batch. A step never costs more than one forward, so there are never more of them than in `direct`.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from .. import chain
from ..progress import Progress
from ..randomness import Draws, block
from .memo import VISITS, Memo, records, zobrist
from .trace import Chunk, Setup

WORTHWHILE = 0.35  # of steps that change a token: above it too few contexts come back to pay for remembering them
MEMORY = 16  # steps over which a chain's rate of change is averaged


class Log:
    """A chunk of all chains: their draws, where each stands, and what is written down of their steps.

    Parameters
    ----------
    run : Setup
    state : State
        Where the chunk begins.
    steps, record_every : int

    Attributes
    ----------
    columns : array of int64, shape (chains, n)
        Tokens as columns of the vocabulary.
    done : array of int64, shape (chains,)
        Steps taken.
    rate : array of float64, shape (chains,)
        Of the last steps, the share that changed a token.
    """

    def __init__(self, run: Setup, state: chain.State, steps: int, record_every: int) -> None:
        count, n = state.tokens.shape
        self.steps, self.first, self.record_every = steps, state.step, record_every
        self.columns = np.searchsorted(run.model.vocabulary, state.tokens.cpu().numpy())
        each = [block(run.seed, index, state.step, steps, n) for index in run.chains]
        self.site, self.stay, self.pick = (np.stack([getattr(d, f) for d in each]) for f in ("site", "stay", "pick"))
        self.temperature = run.temperature.numpy()
        self.done, self.forwards = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.rate = np.full(count, WORTHWHILE)
        self.changed, self.log_ratio = np.zeros((steps, count), dtype=bool), np.zeros((steps, count))
        last = state.step + steps
        self.records = np.empty((last // record_every - state.step // record_every, count, n), dtype=np.int64)

    def note(self, chains: NDArray[np.int64], after: NDArray[np.int64], gain: NDArray[np.float64]) -> None:
        """Take a step of some chains: their new columns, and the logits that they gain."""
        at = self.done[chains]
        site = self.site[chains, at]
        moved = after != self.columns[chains, site]
        self.columns[chains, site] = after
        self.changed[at, chains] = moved
        self.log_ratio[at, chains] = np.where(moved, gain / self.temperature[chains], 0.0)
        self.rate[chains] += (moved - self.rate[chains]) / MEMORY
        self.done[chains] = at + 1
        step = self.first + at + 1
        due = step % self.record_every == 0
        if due.any():
            place = step[due] // self.record_every - self.first // self.record_every - 1
            self.records[place, chains[due]] = self.columns[chains[due]]


class Walker:
    """One chain that walks ahead, for as long as it does: as in the log, in lists, which are quick to read one item at a time."""

    def __init__(self, c: int, log: Log) -> None:
        self.c, self.log = c, log
        self.columns: list[int] = log.columns[c].tolist()
        self.done, self.rate, self.temperature = int(log.done[c]), float(log.rate[c]), float(log.temperature[c])
        self.site, self.stay, self.pick = log.site[c], log.stay[c], log.pick[c]
        self.key = 0
        for position, column in enumerate(self.columns):
            self.key ^= zobrist("token", position, column)

    def context(self) -> int:
        """Key of the context of the next step."""
        site = int(self.site[self.done])
        return self.key ^ zobrist("token", site, self.columns[site]) ^ zobrist("mask", site, self.temperature)

    def ahead(self, memo: Memo) -> bool:
        """Step while the conditionals are known; whether the chain waits for one."""
        while self.done < self.log.steps:
            record = memo.get(self.context())
            if record is None:
                return True
            column = self.columns[self.site[self.done]]
            drawn = record.draw(column, float(self.stay[self.done]), float(self.pick[self.done]))
            if drawn is None:
                return True
            self.note(*drawn)
        return False

    def note(self, column: int, gain: float) -> None:
        """Take the next step and write it down."""
        log, site = self.log, int(self.site[self.done])
        before = self.columns[site]
        moved = column != before
        if moved:
            self.key ^= zobrist("token", site, before) ^ zobrist("token", site, column)
            self.columns[site] = column
            log.changed[self.done, self.c] = True
            log.log_ratio[self.done, self.c] = gain / self.temperature
        self.rate += (moved - self.rate) / MEMORY
        self.done += 1
        step = log.first + self.done
        if step % log.record_every == 0:
            log.records[step // log.record_every - log.first // log.record_every - 1, self.c] = self.columns

    def back(self) -> int:
        """Write into the log where the chain stands; its number."""
        self.log.columns[self.c] = self.columns
        self.log.done[self.c], self.log.rate[self.c] = self.done, self.rate
        return self.c


def advance(run: Setup, state: chain.State, steps: int, record_every: int, label: str = "") -> Chunk:
    """Take ``steps`` steps from ``state``, starting with an empty memory.

    The memory lasts for one call. A run resumed at a chunk's start therefore makes the same batches of forwards as one that
    went through, and gets the same logits to the last bit.
    """
    log, memo = Log(run, state, steps, record_every), Memo()
    crowd, walkers = np.arange(len(run.chains)), list[Walker]()
    with Progress(steps, label) as report:
        while len(crowd) or walkers:
            slow = log.rate[crowd] <= WORTHWHILE
            walkers += [Walker(c, log) for c in crowd[slow].tolist()]
            waiting = [w for w in walkers if w.ahead(memo)]
            for walker in set(walkers) - set(waiting):
                walker.back()
            crowd = crowd[~slow]
            if len(crowd) or waiting:
                _step(run, log, crowd, waiting, memo)
            walkers = [w for w in waiting if w.rate <= WORTHWHILE]
            crowd = np.append(crowd, [w.back() for w in waiting if w.rate > WORTHWHILE]).astype(np.int64)
            crowd = crowd[log.done[crowd] < steps]
            report.reach(min([int(log.done[crowd].min(initial=steps)), *(w.done for w in walkers)]))
    return Chunk(
        chain.State(torch.from_numpy(run.model.vocabulary[log.columns]).to(state.tokens.device), state.step + steps),
        run.model.vocabulary[log.records].astype(np.int32),
        log.site.T.astype(np.int16),
        log.changed,
        log.log_ratio,
        log.forwards,
    )


def _step(run: Setup, log: Log, crowd: NDArray[np.int64], waiting: list[Walker], memo: Memo) -> None:
    """One step of the crowd and of every waiting walker, by one batch of forwards."""
    first, keys = len(crowd), [w.context() for w in waiting]
    chains = np.append(crowd, np.array([w.c for w in waiting], dtype=np.int64))
    done = np.append(log.done[crowd], np.array([w.done for w in waiting], dtype=np.int64))
    columns = log.columns[chains]
    for i, walker in enumerate(waiting, first):
        columns[i] = walker.columns
    site = log.site[chains, done]
    before = columns[np.arange(len(chains)), site]
    # One forward for each of the crowd and for each context that is not at hand; the other rows are there already.
    asked, known, row = list(range(first)), dict[int, torch.Tensor](), dict[int, int]()
    for i, key in enumerate(keys, first):
        whole = memo.whole(key)
        if whole is not None:
            known[i] = whole
        elif key not in row:
            row[key] = len(asked)
            asked.append(i)
    log.forwards[chains[asked]] += 1
    parts = []
    if asked:
        states = torch.from_numpy(run.model.vocabulary[columns[asked]]).to(run.model.device)
        logits = chain.logits_at(run.model, states, torch.from_numpy(site[asked]).to(run.model.device))
        parts.append((asked, logits))
        known |= {i: logits[row[key]] for i, key in enumerate(keys, first) if i not in known and asked[row[key]] != i}
    if known:
        parts.append((sorted(known), torch.stack([known[i] for i in sorted(known)])))
    new, gain = np.empty(len(chains), dtype=np.int64), np.empty(len(chains))
    for places, rows in parts:
        who = chains[places]
        tau = run.temperature[who].to(rows.device)
        now = torch.from_numpy(before[places]).to(rows.device)
        draws = Draws(site[places], log.stay[who, done[places]], log.pick[who, done[places]])
        after = chain.redraw(rows, now, tau, draws)
        both = rows.gather(1, torch.stack([now, after], dim=1)).double()
        new[places], gain[places] = after.cpu().numpy(), (both[:, 1] - both[:, 0]).cpu().numpy()
        walking = [r for r, i in enumerate(places) if i >= first]
        if walking:
            _remember(memo, [keys[places[r] - first] for r in walking], walking, rows, now, tau)
    log.note(crowd, new[:first], gain[:first])
    for walker, column, gained in zip(waiting, new[first:].tolist(), gain[first:].tolist(), strict=True):
        walker.note(column, gained)


def _remember(
    memo: Memo, keys: list[int], places: list[int], rows: torch.Tensor, now: torch.Tensor, temperature: torch.Tensor
) -> None:
    """Hold on to contexts that are new, and make records of those that came back."""
    again = {key: r for key, r in zip(keys, places, strict=True) if memo.visits(key) >= VISITS - 1}
    fresh = {key: r for key, r in zip(keys, places, strict=True) if memo.visits(key) < VISITS - 1}
    if again:
        at = list(again.values())
        for key, record in zip(again, records(rows[at], now[at], temperature[at]), strict=True):
            memo.put(key, record)
    if fresh:
        at = list(fresh.values())
        # A row keeps its whole batch in memory: without a copy only where most of the batch is held.
        kept = rows[at] if 2 * len(at) < len(rows) else rows
        memo.hold(
            list(fresh), list(kept) if kept is not rows else [rows[r] for r in at], kept.untyped_storage().nbytes()
        )
