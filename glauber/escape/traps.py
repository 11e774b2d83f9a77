"""Traps: states that cold dynamics does not leave for a long time, found by descent and by cold chains."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import reals, shown, whole
from ..engines import rejection_free
from ..engines.trace import temperatures
from ..errors import ParameterError
from ..margins import excluded_masses, leaving_probability, local_margins
from ..models import Conditionals
from .paths import replay

SCANS = ("sequential", "random")
REPEATED = "repeated token"  # name of the method


@dataclass(frozen=True)
class Descent:
    """Where greedy argmax dynamics ends.

    Attributes
    ----------
    states : array of int64, shape (rows, n)
        The fixed point; for a cycle its smallest state in the order of ids, so that each cycle has one name.
    outcome : array of str, shape (rows,)
        ``fixed``, ``cycle``, or ``unsettled`` where the sweeps ran out.
    sweeps : array of int64, shape (rows,)
    """

    states: NDArray[np.int64]
    outcome: NDArray[np.str_]
    sweeps: NDArray[np.int64]


def descend(
    model: Conditionals, states: ArrayLike, *, scan: str = "sequential", sweeps: int = 50, seed: int = 0
) -> Descent:
    """Replace each token by its position's argmax, sweep after sweep: the dynamics at temperature 0.

    A token that ties with the argmax stays. Sequential scan visits the positions from left to right and either stops or
    enters a cycle; random scan visits them in a new order in every sweep and either stops or is ``unsettled``.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    scan : str
        ``sequential`` or ``random``.
    sweeps : int
        Most sweeps.
    seed : int
        Of the orders of random scan; those of a row depend on ``(seed, row)`` alone.

    Raises
    ------
    ParameterError
        If the scan is unknown, or another parameter is outside its range.
    """
    if scan not in SCANS:
        raise ParameterError(f"scan = {shown(scan)} is unknown: give one of {', '.join(SCANS)}")
    sweeps, seed = whole("sweeps", sweeps), whole("seed", seed, 0)
    tokens = chain.init(model, states).tokens
    rows, n = tokens.shape
    vocabulary = torch.from_numpy(model.vocabulary)
    streams = [np.random.default_rng([seed, r]) for r in range(rows)]
    outcome, spent = np.full(rows, "unsettled"), np.full(rows, sweeps, dtype=np.int64)
    history: list[list[tuple[int, ...]]] = [[tuple(row)] for row in tokens.tolist()]
    active = np.arange(rows)
    for sweep in range(sweeps):
        order = np.stack([streams[r].permutation(n) if scan == "random" else np.arange(n) for r in active])
        where = torch.from_numpy(active).to(tokens.device)
        for site in torch.from_numpy(order.T.copy()).to(tokens.device):
            logits, current = chain.masked_logits(model, tokens[where], site)
            best, column = logits.max(dim=1)
            column = torch.where(logits.gather(1, current[:, None])[:, 0] == best, current, column)
            tokens[where, site] = vocabulary[column.cpu()].to(tokens.device)
        going = []
        for r, row in zip(active.tolist(), tokens[where].tolist(), strict=True):
            after = tuple(row)
            if after == history[r][-1]:
                outcome[r], spent[r] = "fixed", sweep + 1
            elif scan == "sequential" and after in history[r]:
                outcome[r], spent[r] = "cycle", sweep + 1
                tokens[r] = torch.tensor(min(history[r][history[r].index(after) :]), device=tokens.device)
            else:
                history[r].append(after)
                going.append(r)
        active = np.array(going, dtype=np.int64)
        if not len(active):
            break
    return Descent(tokens.cpu().numpy(), outcome, spent)


def classify(
    model: Conditionals,
    states: ArrayLike,
    *,
    temperature: float,
    threshold: float,
    share: float = 0.5,
    flicker: float = 0.25,
) -> pd.DataFrame:
    """What kind of trap each state is.

    - ``drift basin``: one token fills at least ``share`` of the positions (and the state is one of the two below). This
      says what the text is made of, not how long it lasts: a perfect trap has no threshold on its time;
    - ``perfect trap``: every token is its position's argmax (smallest margin not negative);
    - ``near trap``: at most a share ``flicker`` of the positions are not their argmax, and the mean time until one of the
      *others* changes, while these stand as they do, is over ``threshold`` steps at ``temperature``;
    - ``none``: none of these.

    The holding time ``1/q`` of the whole state cannot tell a near trap: one position that is not its argmax has an excluded
    mass over 1/2, so that ``1/q < 2n``.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    temperature : float
    threshold : float
        Steps.
    share, flicker : float
        Shares of the positions.

    Returns
    -------
    DataFrame
        ``n``, ``kind``, ``perfect``, ``min margin`` (nats), ``q``, ``holding time`` (``1/q``, steps), ``flickering``
        (positions that are not their argmax), ``core time`` (``n`` over the summed excluded masses of the others, steps),
        ``token`` (id of the most repeated token, the smallest of several), ``share`` (of the positions that hold it).

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    threshold = _number("threshold", threshold, np.inf)
    share, flicker = _number("share", share), _number("flicker", flicker)
    rows = chain.init(model, states).tokens.cpu().numpy()
    margins = local_margins(model, rows)
    mass = excluded_masses(model, rows, temperature)
    margin, flickering = margins.min(axis=1), (margins < 0).sum(axis=1)
    with np.errstate(divide="ignore"):
        holding, core = 1.0 / mass.mean(axis=1), 1.0 / np.where(margins < 0, 0.0, mass).mean(axis=1)
    token, copies = _most_repeated(rows)
    shares = copies / rows.shape[1]
    perfect = margin >= 0
    trap = perfect | ((flickering <= flicker * rows.shape[1]) & (core > threshold))
    kind = np.select(
        [trap & (shares >= share), perfect, trap], ["drift basin", "perfect trap", "near trap"], default="none"
    )
    return pd.DataFrame(
        {
            "n": rows.shape[1], "kind": kind, "perfect": perfect, "min margin": margin, "q": mass.mean(axis=1), "holding time": holding, "flickering": flickering, "core time": core,
            "token": token, "share": shares,
        }
    )  # fmt: skip


def _number(name: str, value: float, most: float = 1.0) -> float:
    array = reals(name, value).astype(np.float64)
    if array.shape != () or not 0 <= array <= most:
        raise ParameterError(f"{name} = {shown(value)} is refused: give a number from 0 to {most:g}")
    return float(array)


def _most_repeated(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most repeated token of each state, the smallest of several, and its number of copies."""
    counts = [np.unique(row, return_counts=True) for row in rows]
    return np.array([int(v[c.argmax()]) for v, c in counts]), np.array([int(c.max()) for _, c in counts])


@dataclass(frozen=True)
class Traps:
    """Different traps, longest holding time first.

    Attributes
    ----------
    states : array of int64, shape (traps, n)
    table : DataFrame
        Columns of `classify`, and ``start`` (row of the first start that led there; missing for a repeated token), ``method`` (the
        first that found it) and ``found`` (how often it was found).
    outcomes : DataFrame
        ``method``, ``outcome``, ``count``: how the searches ended.
    """

    states: NDArray[np.int64]
    table: pd.DataFrame
    outcomes: pd.DataFrame


def find_traps(
    model: Conditionals,
    states: ArrayLike,
    *,
    temperature: float,
    cold: float,
    threshold: float = 1000.0,
    share: float = 0.5,
    flicker: float = 0.25,
    tokens: ArrayLike = (),
    moves: int = 100,
    sweeps: int = 50,
    seed: int = 0,
    label: str = "",
) -> Traps:
    """Search for traps from starting states, by descent in two scans and by cold chains, and among repeated tokens.

    A cold chain contributes the state in which it had the longest exact mean holding time, and that state's descent. No search
    from a passage need come to the text that repeats one token, which can hold longest: it is tried for each of ``tokens``, and for the
    most repeated token of every state in which a search ends, if it stands there twice.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (starts, n)
    temperature, threshold, share, flicker
        Of the classification (see `classify`).
    cold : float
        Temperature of the chains.
    tokens : array of int
        Ids, as from `glauber.escape.candidate_tokens`.
    moves : int
        Moves of each chain; 0 leaves the chains out.
    sweeps, seed
        As for `descend`.
    label : str
        Name of the progress report; none if empty.

    Returns
    -------
    Traps
        States of kind ``none`` are left out. The list is what was found, not all there is.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    moves, cold = whole("moves", moves, 0), float(temperatures(cold, 1, "search"))
    begin = chain.init(model, states).tokens.cpu().numpy()
    found: list[tuple[str, NDArray[np.int64], NDArray[np.str_]]] = []
    for scan in SCANS:
        end = descend(model, begin, scan=scan, sweeps=sweeps, seed=seed)
        found.append((f"descent, {scan}", end.states, end.outcome))
    if moves:
        held = _longest_held(model, begin, cold, moves, seed, label)
        end = descend(model, held, sweeps=sweeps)
        found += [("cold chain", held, np.full(len(held), "visited")), ("cold chain, descent", end.states, end.outcome)]
    token, copies = _most_repeated(np.concatenate([s for _, s, _ in found]))
    asked = np.union1d(reals("tokens", tokens).ravel(), token[copies > 1])
    if len(asked):
        repeated = chain.init(model, np.repeat(asked[:, None], begin.shape[1], axis=1)).tokens.cpu().numpy()
        found.append((REPEATED, repeated, np.full(len(repeated), "tried")))
    every = np.concatenate([s for _, s, _ in found])
    origin = pd.concat(
        pd.DataFrame({"method": name, "start": pd.RangeIndex(len(s)), "outcome": o}).astype({"start": "Int64"})
        for name, s, o in found
    )
    origin["start"] = origin["start"].mask(origin["method"] == REPEATED)
    distinct, first, counts = np.unique(every, axis=0, return_index=True, return_counts=True)
    table = classify(model, distinct, temperature=temperature, threshold=threshold, share=share, flicker=flicker)
    table = table.assign(start=origin["start"].array[first], method=origin["method"].to_numpy()[first], found=counts)
    table = table[table["kind"] != "none"].sort_values("holding time", ascending=False, kind="stable")
    outcomes = origin.groupby(["method", "outcome"], sort=False).size().rename("count").reset_index()
    return Traps(distinct[table.index.to_numpy()], table.reset_index(drop=True), outcomes)


def _longest_held(
    model: Conditionals, begin: NDArray[np.int64], cold: float, moves: int, seed: int, label: str
) -> NDArray[np.int64]:
    """For each start, the visited state of least ``q``."""
    run = rejection_free(model, begin, temperature=cold, steps=10**18, seed=seed, moves=moves, label=label)
    last = leaving_probability(model, run.states, cold)
    best = run.states.copy()
    for c, rows in run.table.groupby("chain"):
        c = int(str(c))
        q = np.append(rows["q"].to_numpy(float), last[c])
        path = np.concatenate([begin[c][None], replay(begin[c], rows)])
        best[c] = path[int(q.argmin())]
    return best
