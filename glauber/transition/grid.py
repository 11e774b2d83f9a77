"""The grid over temperature and length: coupled pairs, and single chains with what is read off them."""

import hashlib
from collections.abc import Mapping, Sequence
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
from .cells import cell, fingerprint
from .fits import n_log_n

Array = NDArray[np.int64]


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

    A pair has the same random streams at all temperatures.

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
        Where finished cells are kept (`cell`).
    label : str
        Name of the progress reports; none if empty.

    Returns
    -------
    DataFrame
        ``kind``, ``n``, ``temperature``, ``pair``, ``time`` (steps), ``censored``, ``forwards``; one row per run.

    Raises
    ------
    ParameterError
        If a parameter is outside its range, or the two starts of a pair are equal, whose time would be 0.
    """
    parts = []
    for n, states in pairs.items():
        _differ(states, n)
    for n, states in pairs.items():
        for tau in temperatures:
            steps = budget(n, scales)
            done = cell(
                directory,
                f"{kind}-n{n}-tau{tau:g}",
                _identity(model, states, tau, steps, seed) | {"kind": kind},
                lambda s=states, t=tau, b=steps, m=n: coupling.couple(  # type: ignore[misc]
                    model,
                    s,
                    temperature=t,
                    steps=b,
                    seed=seed,
                    kind=kind,
                    label=label and f"{label}, n = {m}, tau = {t:g}",
                ).drop_vars("states"),
            )
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
        for tau in temperatures:
            every = record_every[n]
            steps = -(-budget(n, scales) // every) * every

            def compute(s: Array = states, t: float = tau, b: int = steps, e: int = every, m: int = n) -> xr.Dataset:
                name = label and f"{label}, n = {m}, tau = {t:g}"
                return _condense(
                    engines.run(model, s, temperature=t, steps=b, seed=seed, record_every=e, label=name), e
                )

            identity = _identity(model, states, tau, steps, seed) | {"record_every": every}
            traces[n, float(tau)] = cell(directory, f"chain-n{n}-tau{tau:g}", identity, compute)
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
