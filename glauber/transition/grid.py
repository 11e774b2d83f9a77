"""The grid over temperature and length: coupled pairs, and single chains with what is read off them."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from .. import coupling, engines
from ..errors import ParameterError
from ..models import Conditionals
from .cells import cell, fingerprint
from .fits import n_log_n

Array = NDArray[np.int64]


def budget(n: int, scales: float) -> int:
    """Steps of a run of ``scales`` times ``n log n``, rounded up; ``n`` for ``n`` = 1, where the logarithm is 0."""
    return int(np.ceil(scales * max(float(n_log_n(np.array(n))), 1.0)))


def pairs_of_topics(topics: Sequence[str], count: int, seed: int) -> Array:
    """Pairs of passages of different topics, shape (count, 2), each passage used as seldom as can be.

    Parameters
    ----------
    topics : sequence of str
        Topic of each passage. Where all are empty, any two passages make a pair.
    count, seed : int

    Raises
    ------
    ParameterError
        If there are not that many distinct pairs.
    """
    labels = np.array([t or str(k) for k, t in enumerate(topics)])
    rng = np.random.default_rng(seed)
    used = np.zeros(len(labels), dtype=int)
    chosen: list[tuple[int, int]] = []
    first, second = np.nonzero(np.triu(labels[:, None] != labels[None, :]))
    order = rng.permutation(len(first))
    first, second = first[order], second[order]
    if len(first) < count:
        raise ParameterError(
            f"{len(labels)} passages of {len(set(labels))} topics make {len(first)} pairs of different topics, not {count}: "
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
    return np.array(chosen)


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
    """
    parts = []
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


def _identity(model: Conditionals, states: Array, tau: float, steps: int, seed: int) -> dict[str, Any]:
    starts = np.ascontiguousarray(states, dtype=np.int64)
    return {
        "weights": fingerprint(model),
        "starts": hashlib.sha256(starts.tobytes() + str(starts.shape).encode()).hexdigest()[:16],
        "temperature": float(tau),
        "steps": steps,
        "seed": seed,
    }
