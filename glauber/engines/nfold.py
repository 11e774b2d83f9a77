"""The rejection-free engine (n-fold way, Bortz, Kalos and Lebowitz): from move to move, however long the wait.

With ``m_i`` the excluded mass of position ``i``, the chain leaves a state in one step with probability ``q = mean(m_i)``. The
holding time is geometric with that ``q``; the site that moves is drawn in proportion to ``m_i``, its new token from the others. A
move costs ``n + 1`` forwards in a new state and one in a known state, whether it took one step or a billion.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..models import Conditionals
from ..progress import Progress
from ..randomness import Streams
from .trace import check_steps, setup

LONGEST = 2**62  # steps; longer holding times are cut to it
ROWS = 256  # rows of logits held at a time
COLUMNS = ["chain", "step", "held", "q", "site", "before", "after", "log_ratio"]


@dataclass(frozen=True)
class Moves:
    """The moves of every chain.

    Attributes
    ----------
    table : DataFrame
        ``chain``, ``step`` (at which the move happened, from 1), ``held`` (steps that the state before lasted, this one
        included), ``q`` (its one-step leaving probability), ``site``, ``before``, ``after`` (token ids), ``log_ratio`` (nats).
    states : array of int64, shape (chains, n)
        After the last move within the run.
    steps : int
        Length of the run; each chain is known up to there.
    forwards : int
        Masked forwards spent.
    stopped : array of bool, shape (chains,)
        Whether a chain spent its moves before the end of the run.
    """

    table: pd.DataFrame
    states: NDArray[np.int64]
    steps: int
    forwards: int
    stopped: NDArray[np.bool_]


def rejection_free(
    model: Conditionals,
    states: ArrayLike | torch.Tensor,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    moves: int = 10_000,
    chains: Sequence[int] | None = None,
    label: str = "",
) -> Moves:
    """Run the dynamics from move to move.

    Parameters
    ----------
    model, states, temperature, seed, chains, label
        As for `glauber.engines.run`.
    steps : int
        Steps of the dynamics, up to 10**18.
    moves : int
        Most moves per chain.

    Returns
    -------
    Moves

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    steps, _, moves = check_steps(steps, moves=moves)
    run = setup(model, states, temperature, seed, chains)
    tokens, tau = run.start.tokens.clone(), run.temperature
    count, n = tokens.shape
    streams = Streams(run.seed, run.chains, n, block=64)
    masses = Masses(model)
    clock, done = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    rows: list[pd.DataFrame] = []
    forwards = 0
    with Progress(moves, label, "move") as report:
        for move in range(moves):
            active = np.flatnonzero(~done)
            if not len(active):
                break
            mass = masses.of(tokens[active], tau[active])
            uniforms = streams.uniforms(move)[active]
            q = mass.mean(axis=1)
            held = holding_time(q, uniforms[:, 1])
            clock[active] = np.minimum(clock[active] + held, LONGEST)
            done[active] = clock[active] > steps
            going = ~done[active]
            if going.any():
                moved = _move(model, tokens, tau, active[going], mass[going], uniforms[going])
                forwards += int(going.sum())
                labels = {"chain": np.array(run.chains)[active[going]], "step": clock[active[going]]}
                rows.append(pd.DataFrame({**labels, "held": held[going], "q": q[going], **moved}))
            report.reach(move + 1)
    table = pd.concat(rows) if rows else pd.DataFrame(columns=COLUMNS)
    table = table.sort_values(["chain", "step"], kind="stable", ignore_index=True)
    return Moves(table, tokens.cpu().numpy(), steps, forwards + masses.forwards, ~done)


def holding_time(q: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """Geometric holding times ``1, 2, ...`` with success probability ``q``, by inversion of uniforms ``u``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        waited = np.floor(np.log1p(-u) / np.log1p(-q))
    # q = 1 leaves at once (0 / -inf = 0); q = 0 never does (log1p(-u) / 0 = inf, or NaN at u = 0).
    waited = np.where(q > 0, waited, np.inf)
    return np.asarray(1 + np.minimum(waited, LONGEST).astype(np.int64))


class Masses:
    """Excluded masses of whole states, remembered: a chain that flickers between a few states pays for each once.

    Attributes
    ----------
    forwards : int
        Masked forwards spent so far.
    """

    def __init__(self, model: Conditionals, capacity: int = 20_000) -> None:
        self.model, self.capacity, self.forwards = model, capacity, 0
        self._known: OrderedDict[tuple[bytes, float], NDArray[np.float64]] = OrderedDict()

    def of(self, tokens: torch.Tensor, tau: torch.Tensor) -> NDArray[np.float64]:
        """``P(v != x_i)`` of every position, float64, shape (rows, n)."""
        keys = [(row.tobytes(), float(t)) for row, t in zip(tokens.cpu().numpy(), tau, strict=True)]
        new = {key: r for r, key in enumerate(keys) if key not in self._known}
        if new:
            where = torch.tensor(list(new.values()))
            for key, mass in zip(new, self._compute(tokens[where], tau[where]), strict=True):
                self._known[key] = mass
        found = np.stack([self._known[key] for key in keys])
        for key in keys:
            self._known.move_to_end(key)
        while len(self._known) > max(self.capacity, len(keys)):
            self._known.popitem(last=False)
        return found

    def _compute(self, tokens: torch.Tensor, tau: torch.Tensor) -> NDArray[np.float64]:
        rows, n = tokens.shape
        states, sites = tokens.repeat_interleave(n, dim=0), torch.arange(n, device=tokens.device).repeat(rows)
        heat = tau.repeat_interleave(n)
        parts = []
        for s in range(0, rows * n, ROWS):
            logits, current = chain.masked_logits(self.model, states[s : s + ROWS], sites[s : s + ROWS])
            parts.append(chain.excluded_mass(logits, current, heat[s : s + ROWS].to(logits.device)).cpu())
        self.forwards += rows * n
        return np.asarray(torch.cat(parts).reshape(rows, n).numpy())


def _move(
    model: Conditionals,
    tokens: torch.Tensor,
    tau: torch.Tensor,
    rows: NDArray[np.int64],
    mass: NDArray[np.float64],
    uniforms: NDArray[np.float64],
) -> dict[str, NDArray[np.generic]]:
    """Choose site and token of every moving chain, change ``tokens`` in place, and say what was done."""
    drawn = torch.from_numpy(uniforms)
    site = chain.invert(torch.from_numpy(mass).cumsum(dim=1), drawn[:, 0])
    at, where = site.to(tokens.device), torch.from_numpy(rows).to(tokens.device)
    logits, before = chain.masked_logits(model, tokens[where], at)
    heat = tau[rows].to(logits.device)
    without = logits.double().scatter(1, before[:, None], -torch.inf)
    weights = chain.relative_weights(without, heat)
    after = chain.invert(weights.cumsum(dim=1), drawn[:, 2].to(logits.device))
    gain = (logits.gather(1, after[:, None]).double() - logits.gather(1, before[:, None]).double())[:, 0] / heat
    vocabulary = torch.from_numpy(model.vocabulary)
    tokens[where, at] = vocabulary[after.cpu()].to(tokens.device)
    return {
        "site": site.numpy(),
        "before": vocabulary[before.cpu()].numpy(),
        "after": vocabulary[after.cpu()].numpy(),
        "log_ratio": gain.cpu().numpy(),
    }
