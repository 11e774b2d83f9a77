"""The grid over temperature and length: coupled pairs, and single chains with what is read off them.

All temperatures of a length run in one call, so that their forwards share batches.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .. import coupling, engines
from ..checks import reals, whole
from ..errors import ParameterError
from ..models import Conditionals
from .cells import cells, fingerprint
from .fits import n_log_n

Array = NDArray[np.int64]
STEPS = 2**25  # of all chains that run in one call: their trace takes some 4 GB at most


def budget(n: int, scales: float) -> int:
    """Steps of a run of ``scales`` times ``n log n``, rounded up; ``n`` for ``n`` = 1, where the logarithm is 0."""
    return int(np.ceil(scales * max(float(n_log_n(np.array(n))), 1.0)))


def pairs_of_topics(
    topics: Sequence[str], count: int, seed: int, starts: Sequence[ArrayLike] = ()
) -> tuple[Array, int]:
    """Pairs of passages of different topics, each passage used as seldom as can be.

    Parameters
    ----------
    topics : sequence of str
        Topic of each passage. Where all are empty, any two passages make a pair.
    count, seed : int
    starts : sequence of array of int, shape (passages, n)
        Starting states of the passages, cut to the shortest length in use, one array per model. Passages that begin alike are equal
        there, and have nothing to forget: a pair that is equal in one of the arrays is left out.

    Returns
    -------
    array of int, shape (count, 2)
        Indices of passages.
    int
        Pairs of different topics that were left out since their starts are equal.

    Raises
    ------
    ParameterError
        If there are not that many distinct pairs.
    """
    count, seed = whole("pairs", count), whole("seed", seed, 0)
    labels = np.array([t or str(k) for k, t in enumerate(topics)])
    rng = np.random.default_rng(seed)
    used = np.zeros(len(labels), dtype=int)
    chosen: list[tuple[int, int]] = []
    first, second = np.nonzero(np.triu(labels[:, None] != labels[None, :]))
    order = rng.permutation(len(first))
    first, second = first[order], second[order]
    differ = np.ones(len(first), dtype=bool)
    for states in starts:
        rows = reals("starts", states)
        if len(rows) != len(labels):
            raise ParameterError(f"starts have {len(rows)} rows for {len(labels)} passages: give one each")
        differ &= (rows[first] != rows[second]).any(axis=1)
    first, second, equal = first[differ], second[differ], int((~differ).sum())
    if len(first) < count:
        but = f", besides {equal} of equal starts" if equal else ""
        raise ParameterError(
            f"{len(labels)} passages of {len(set(labels))} topics make {len(first)} pairs of different topics{but}, not {count}: "
            f"give more passages (starts), of more topics, or ask for fewer pairs"
        )
    free = np.ones(len(first), dtype=bool)
    for _ in range(count):
        best = int(
            np.argmin(np.where(free, np.maximum(used[first], used[second]) * 1000 + used[first] + used[second], np.inf))
        )
        free[best] = False
        used[[first[best], second[best]]] += 1
        chosen.append((int(first[best]), int(second[best])))
    return np.array(chosen), equal


def meeting_grid(
    model: Conditionals,
    pairs: Mapping[int, Array],
    temperatures: Sequence[float],
    *,
    scales: float,
    seed: int,
    kind: str = "maximal",
    directory: str | Path | None = None,
    label: str = "",
) -> pd.DataFrame:
    """Coupling times of pairs at every temperature and length.

    A pair has the same random streams at all temperatures. The cells of a length that are not kept yet are one call of
    `glauber.coupling.couple`; their times are those of a call each, up to the rounding of logits in batches of different shape.

    Parameters
    ----------
    model : Conditionals
    pairs : mapping of int to array (pairs, 2, n)
        Starting states by length ``n``.
    temperatures : sequence of float
    scales : float
        Budget of a run in units of ``n log n``.
    seed : int
    kind : str
        See `glauber.coupling.couple`.
    directory : path, optional
        Where finished cells are kept (`glauber.transition.cells.cells`): a length's when all its temperatures have run. A grid
        that was killed goes on from there.
    label : str
        Name of the progress reports; none if empty.

    Returns
    -------
    DataFrame
        ``kind``, ``n``, ``temperature``, ``pair``, ``time`` (steps), ``censored``, ``forwards`` (a context that several runs of a length
        need is made once, for the first of them); one row per run.

    Raises
    ------
    ParameterError
        If a parameter is outside its range, or the two starts of a pair are equal, whose time would be 0.
    """
    parts = []
    for n, states in pairs.items():
        _differ(states, n)
    for n, states in pairs.items():
        steps = budget(n, scales)

        def compute(places: list[int], s: Array = states, b: int = steps, m: int = n) -> Iterator[xr.Dataset]:
            count = len(s)
            met = coupling.couple(
                model,
                np.concatenate([s] * len(places)),
                temperature=np.repeat([temperatures[k] for k in places], count),
                steps=b,
                seed=seed,
                kind=kind,
                groups=list(range(count)) * len(places),
                label=label and f"{label}, n = {m}",
            ).drop_vars("states")
            return (met.isel(group=slice(k * count, (k + 1) * count)) for k in range(len(places)))

        wanted = [
            (f"{kind}-n{n}-tau{tau:g}", _identity(model, states, tau, steps, seed) | {"kind": kind})
            for tau in temperatures
        ]
        for tau, done in zip(temperatures, cells(directory, wanted, compute), strict=True):
            parts.append(
                done[["time", "censored", "forwards"]]
                .to_dataframe()
                .reset_index()
                .rename(columns={"group": "pair"})
                .assign(kind=kind, n=n, temperature=float(tau))
            )
    return pd.concat(parts, ignore_index=True)[["kind", "n", "temperature", "pair", "time", "censored", "forwards"]]


def chain_grid(
    model: Conditionals,
    starts: Mapping[int, Array],
    temperatures: Sequence[float],
    *,
    scales: float,
    record_every: Mapping[int, int],
    seed: int,
    directory: str | Path | None = None,
    label: str = "",
) -> dict[tuple[int, float], xr.Dataset]:
    """Single chains at every temperature and length.

    A chain has the same random streams at all temperatures. The cells of a length that are not kept yet are one call of
    `glauber.engines.run`, or a few where its trace would be large.

    Parameters
    ----------
    starts : mapping of int to array (chains, n)
    record_every : mapping of int to int
        Steps between two recorded states, by length.
    model, temperatures, scales, seed, directory, label
        As for `meeting_grid`.

    Returns
    -------
    dict
        By ``(n, temperature)``: ``states`` (record, chain, position), and by (record, chain) the share of ``changed`` steps and
        the mean ``log_ratio`` (nats per step) since the last record, NaN at the start.
    """
    traces = {}
    for n, states in starts.items():
        every = record_every[n]
        steps = -(-budget(n, scales) // every) * every

        def compute(
            places: list[int], s: Array = states, b: int = steps, e: int = every, m: int = n
        ) -> Iterator[xr.Dataset]:
            count = len(s)
            at_once = max(1, STEPS // (b * max(1, count)))
            for some in (places[k : k + at_once] for k in range(0, len(places), at_once)):
                trace = engines.run(
                    model,
                    np.concatenate([s] * len(some)),
                    temperature=np.repeat([temperatures[k] for k in some], count),
                    steps=b,
                    seed=seed,
                    record_every=e,
                    chains=list(range(count)) * len(some),
                    label=label and f"{label}, n = {m}",
                )
                for k in range(len(some)):
                    yield _condense(trace.isel(chain=slice(k * count, (k + 1) * count)), e)

        wanted = [
            (f"chain-n{n}-tau{tau:g}", _identity(model, states, tau, steps, seed) | {"record_every": every})
            for tau in temperatures
        ]
        for tau, trace in zip(temperatures, cells(directory, wanted, compute), strict=True):
            traces[n, float(tau)] = trace
    return traces


def _condense(trace: xr.Dataset, every: int) -> xr.Dataset:
    """States, and the steps between two of them as means."""
    kept = trace[["states"]]
    for name in ("changed", "log_ratio"):
        values = trace[name].to_numpy().reshape(-1, every, trace.sizes["chain"]).mean(axis=1)
        kept[name] = (("record", "chain"), np.concatenate([np.full((1, values.shape[1]), np.nan), values]))
    return kept


def _differ(states: ArrayLike, n: int) -> None:
    given = reals(f"pairs of n = {n}", states)
    if given.ndim != 3 or given.shape[1] != 2:
        raise ParameterError(f"pairs of n = {n} have shape {given.shape}: give (pairs, 2, n)")
    equal = int((given[:, 0] == given[:, 1]).all(axis=1).sum())
    if equal:
        raise ParameterError(
            f"{equal} of {len(given)} pairs at n = {n} start from two equal states, whose time would be 0: leave them out, as "
            f"pairs_of_topics does with starts"
        )


def _identity(model: Conditionals, states: Array, tau: float, steps: int, seed: int) -> dict[str, Any]:
    starts = np.ascontiguousarray(reals("states", states))
    starts = starts.astype(np.int64) if starts.dtype.kind in "iu" else starts  # fractions are refused by the run itself
    return {
        "weights": fingerprint(model),
        "starts": hashlib.sha256(starts.tobytes() + str(starts.shape).encode()).hexdigest()[:16],
        "temperature": float(tau),
        "steps": steps,
        "seed": seed,
    }
