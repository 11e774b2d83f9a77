"""Order parameters: what else changes at the transition, read off single chains."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..diagnostics import diagnose
from ..embeddings import cosine_distance
from ..errors import ParameterError
from ..margins import log_probabilities
from ..models import Conditionals
from ..report import mean_interval

Array = NDArray[np.float64]
Embed = Callable[[Sequence[str]], NDArray[np.float32]]
Decode = Callable[[list[int]], str]
BLOCK = 8  # records embedded at a time while a chain's first passage is looked for
# Unit, least and most of what is averaged over chains. Along a run that is not stationary sigma can have either sign.
RANGES: dict[str, tuple[str, float, float]] = {
    "acceptance": ("share of steps", 0.0, 1.0),
    "entropy production": ("nats per step", -np.inf, np.inf),
    "pseudo-log-likelihood": ("nats per token", -np.inf, 0.0),
    "in a perfect trap": ("share of looks", 0.0, 1.0),
}


def drift_threshold(vectors: NDArray[np.float32], topics: Sequence[str], quantile: float) -> tuple[float, Array]:
    """A quantile of the distances between passages of different topics, as the distance at which a text has drifted.

    A text that far from its start is no nearer to it than the share ``quantile`` of pairs of unrelated passages that are nearest to
    each other; at a small quantile most unrelated passages are further apart.

    Parameters
    ----------
    vectors : array of float32, shape (passages, dimension)
        Unit vectors.
    topics : sequence of str
        Passages without a topic are all taken as unrelated.
    quantile : float
        Between 0 and 1.

    Returns
    -------
    float, array of float64
        The quantile, and all distances that it is taken over.

    Raises
    ------
    ParameterError
        If no two passages differ in topic, or the quantile is outside its range.
    """
    labels = np.array([t or str(k) for k, t in enumerate(topics)])
    first, second = np.nonzero(np.triu(labels[:, None] != labels[None, :]))
    if not len(first) or not 0 < quantile < 1:
        raise ParameterError(
            f"{len(labels)} passages of {len(set(labels))} topics and quantile = {quantile!r} give no threshold: give passages of two "
            f"topics or more and a quantile between 0 and 1"
        )
    distances = cosine_distance(vectors[first], vectors[second])
    return float(np.quantile(distances, quantile)), distances


def drift_times(trace: xr.Dataset, decode: Decode, embed: Embed, threshold: float) -> pd.DataFrame:
    """First record at which a chain's text is further than a threshold from the text that it started with.

    Parameters
    ----------
    trace : Dataset
        ``states`` (record, chain, position).
    decode, embed : callable
        Token ids to a text; texts to unit vectors.
    threshold : float
        Cosine distance, as from `drift_threshold`.

    Returns
    -------
    DataFrame
        ``chain``, ``time`` (steps; late by up to one recording interval), ``censored``.
    """
    states, steps = trace["states"].to_numpy(), trace["record"].to_numpy()
    begin = embed([decode(row.tolist()) for row in states[0]])
    time, apart = np.full(states.shape[1], steps[-1]), np.ones(states.shape[1], dtype=bool)
    for first in range(1, len(states), BLOCK):
        chains = np.flatnonzero(apart)
        if not len(chains):
            break
        block = states[first : first + BLOCK, chains]
        vectors = embed([decode(row.tolist()) for row in block.reshape(-1, block.shape[2])])
        distance = cosine_distance(vectors.reshape(*block.shape[:2], -1), begin[chains])
        over = distance > threshold
        hit = over.any(axis=0)
        time[chains[hit]] = steps[first + over.argmax(axis=0)[hit]]
        apart[chains[hit]] = False
    return pd.DataFrame({"chain": np.arange(len(time)), "time": time, "censored": apart})


def semantic_distance(trace: xr.Dataset, decode: Decode, embed: Embed, every: int = 1) -> xr.DataArray:
    """Cosine distance to the starting text at every ``every``-th record, dimensions (record, chain)."""
    states = trace["states"].isel(record=slice(None, None, every))
    flat = states.to_numpy().reshape(-1, states.sizes["position"])
    vectors = embed([decode(row.tolist()) for row in flat]).reshape(states.sizes["record"], states.sizes["chain"], -1)
    return xr.DataArray(
        cosine_distance(vectors, vectors[0]), dims=("record", "chain"), coords={"record": states["record"]}
    )


def pseudo_log_likelihood(model: Conditionals, states: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Mean log-probability per token, each given all others, at temperature 1; and whether the state is a perfect trap.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)

    Returns
    -------
    array of float64, array of bool, shape (rows,)
        In nats per token, with the law restricted to the vocabulary (Salazar et al. 2020 sum it). In a *perfect trap* every
        token is its position's argmax.
    """
    rows = chain.init(model, states).tokens.cpu().numpy()
    distinct, back = np.unique(rows, axis=0, return_inverse=True)
    own, best = log_probabilities(model, distinct)
    value, trapped = np.asarray(own.mean(axis=1)), np.asarray(best.all(axis=1))
    return value[back], trapped[back]


def order_parameters(
    model: Conditionals,
    traces: Mapping[tuple[int, float], xr.Dataset],
    distances: Mapping[tuple[int, float], xr.DataArray],
    *,
    burn_in: float = 0.5,
    looks: int = 4,
    level: float = 0.95,
) -> pd.DataFrame:
    """Order parameters of every cell, with Student intervals over chains, cut to the range of the quantity.

    Parameters
    ----------
    model : Conditionals
    traces : mapping
        From `chain_grid`.
    distances : mapping
        From `semantic_distance`, by the same keys.
    burn_in : float
        Share of each run that is left out.
    looks : int
        Records, evenly spread over the rest, at which the pseudo-log-likelihood and traps are computed.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        ``n``, ``temperature``, ``quantity``, ``unit``, ``mean``, ``low``, ``high``, ``chains``, ``reason``. Quantities:
        ``acceptance`` (share of steps that change the token), ``entropy production`` (nats per step),
        ``pseudo-log-likelihood`` (nats per token), ``in a perfect trap`` (share of looks), ``distinct perfect traps`` (number
        over all chains and looks, no interval) and ``autocorrelation time`` of the semantic distance (steps, all chains
        together, no interval). ``reason`` says why a number is NaN.
    """
    rows = []
    for (n, tau), trace in traces.items():
        late = trace.isel(record=slice(1 + int(burn_in * (trace.sizes["record"] - 1)), None))
        chains = trace.sizes["chain"]
        at = np.unique(np.linspace(0, late.sizes["record"] - 1, looks).round().astype(int))
        seen = late["states"].isel(record=at).to_numpy()
        value, trapped = pseudo_log_likelihood(model, seen.reshape(-1, n))
        by_chain: dict[str, Array] = {
            "acceptance": late["changed"].mean("record").to_numpy(),
            "entropy production": late["log_ratio"].mean("record").to_numpy(),
            "pseudo-log-likelihood": value.reshape(len(at), chains).mean(axis=0),
            "in a perfect trap": trapped.reshape(len(at), chains).mean(axis=0),
        }
        for name, values in by_chain.items():
            unit, least, most = RANGES[name]
            mean = mean_interval(values, level, least, most)
            rows.append((n, tau, name, unit, *mean[["estimate", "low", "high"]], chains, ""))
        found = len(np.unique(seen.reshape(-1, n)[trapped], axis=0))
        rows.append((n, tau, "distinct perfect traps", "number", found, np.nan, np.nan, chains, ""))
        series = distances[n, tau]
        series = series.isel(record=slice(1 + int(burn_in * (series.sizes["record"] - 1)), None))
        told = diagnose({"distance": series}).iloc[0]
        steps = (
            told["autocorrelation_time"] * float(np.diff(series["record"])[0]) if series.sizes["record"] > 1 else np.nan
        )
        rows.append((n, tau, "autocorrelation time", "steps", steps, np.nan, np.nan, chains, told["reason"]))
    names = ["n", "temperature", "quantity", "unit", "mean", "low", "high", "chains", "reason"]
    return pd.DataFrame(rows, columns=names)
