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
from .memo import Memo, records, zobrist
from .trace import Chunk, Setup

WORTHWHILE = 0.5  # of steps that change a token: above it too few contexts come back to pay for remembering them
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
    keys = [w.context() for w in waiting]
    chains = np.append(crowd, np.array([w.c for w in waiting], dtype=np.int64))
    done = np.append(log.done[crowd], np.array([w.done for w in waiting], dtype=np.int64))
    columns = log.columns[chains]
    for i, walker in enumerate(waiting, len(crowd)):
        columns[i] = walker.columns
    site = log.site[chains, done]
    before = torch.from_numpy(columns[np.arange(len(chains)), site])
    # One row for each of the crowd and for each context that is not at hand.
    asked, row, held = list(range(len(crowd))), dict[int, int](), dict[int, torch.Tensor]()
    source = list(asked)
    for i, key in enumerate(keys, len(crowd)):
        whole = memo.whole(key)
        if whole is not None:
            held[i] = whole
        elif key not in row:
            row[key] = len(asked)
            asked.append(i)
        source.append(row.get(key, 0))
    logits = _forward(run, columns[asked], site[asked], held)
    log.forwards[chains[asked]] += 1
    rows = logits
    if held or len(asked) < len(chains):
        rows = logits[source]
        for i, whole in held.items():
            rows[i] = whole
    tau, before = run.temperature[chains].to(rows.device), before.to(rows.device)
    after = chain.redraw(rows, before, tau, Draws(site, log.stay[chains, done], log.pick[chains, done]))
    both = rows.gather(1, torch.stack([before, after], dim=1)).double()
    new, gain = after.cpu().numpy(), (both[:, 1] - both[:, 0]).cpu().numpy()
    _remember(memo, keys, row, rows[len(crowd) :], before[len(crowd) :], tau[len(crowd) :])
    log.note(crowd, new[: len(crowd)], gain[: len(crowd)])
    for walker, column, gained in zip(waiting, new[len(crowd) :].tolist(), gain[len(crowd) :].tolist(), strict=True):
        walker.note(column, gained)


def _forward(
    run: Setup, columns: NDArray[np.int64], site: NDArray[np.int64], held: dict[int, torch.Tensor]
) -> torch.Tensor:
    """Logits of the masked sites, (rows, |V|); a row of no meaning where all that are wanted are held."""
    if not len(columns):
        return next(iter(held.values()))[None]
    states = torch.from_numpy(run.model.vocabulary[columns]).to(run.model.device)
    return chain.logits_at(run.model, states, torch.from_numpy(site).to(run.model.device))


def _remember(
    memo: Memo,
    keys: list[int],
    asked: dict[int, int],
    rows: torch.Tensor,
    before: torch.Tensor,
    temperature: torch.Tensor,
) -> None:
    """Hold on to contexts met for the first time, and make records of those that came back."""
    first, again = dict[int, int](), list[int]()
    for i, key in enumerate(keys):
        if key in memo:
            again.append(i)
        else:
            first.setdefault(key, i)
    if again:
        for i, record in zip(again, records(rows[again], before[again], temperature[again]), strict=True):
            memo.put(keys[i], record)
    if first:
        memo.hold(list(first), rows[list(first.values())])
