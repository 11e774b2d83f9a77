"""Escape times from traps, with censoring, and their dependence on the temperature."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from .. import chain
from ..checks import reals, whole
from ..errors import ParameterError
from ..margins import escape_bound, leaving_probability, local_margins
from ..models import Conditionals
from ..survival import median
from .paths import first_passage


def escape_times(
    model: Conditionals,
    traps: ArrayLike,
    *,
    temperatures: Sequence[float],
    replicas: int,
    steps: int,
    moves: int = 1000,
    distance: int = 2,
    seed: int = 0,
    label: str = "",
) -> pd.DataFrame:
    """Run many chains from each trap at each temperature, until they have left its basin.

    Two times are recorded: to the first move, which ends the holding time of the state, and to the first state at Hamming
    distance ``distance`` or more from the trap.

    Parameters
    ----------
    model : Conditionals
    traps : array of int, shape (traps, n)
    temperatures : sequence of float
    replicas : int
        Independent chains per trap and temperature.
    steps : int
        Censoring time, up to 10**18.
    moves : int
        Most moves per chain; a chain that spends them is censored where it stands.
    distance : int
        Differing positions that count as having left.
    seed, label
        As for `glauber.engines.rejection_free`.

    Returns
    -------
    DataFrame
        One row per chain: ``trap``, ``temperature``, ``first``, ``moved``, ``time``, ``left``, ``moves`` (see
        `glauber.escape.FirstPassage`).

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    origin = chain.init(model, traps).tokens.cpu().numpy()
    taus = np.atleast_1d(reals("temperatures", temperatures))
    if not taus.size:
        raise ParameterError("temperatures are empty: give one or more")
    distance, replicas = whole("distance", distance, 1, origin.shape[1]), whole("replicas", replicas)
    trap = np.repeat(np.arange(len(origin)), len(taus) * replicas)
    tau = np.tile(np.repeat(taus, replicas), len(origin))

    def left(path: NDArray[np.int64], c: int) -> NDArray[np.bool_]:
        return np.asarray((path != origin[trap[c]]).sum(axis=1) >= distance)

    run = first_passage(model, origin[trap], left, temperature=tau, steps=steps, seed=seed, moves=moves, label=label)
    return run.table.drop(columns="chain").assign(trap=trap)


def mean_time(time: ArrayLike, seen: ArrayLike, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of right-censored times and its interval: total time over exits, the maximum-likelihood estimate.

    The chi-square interval is exact for exponential times censored at a fixed number of exits, and conservative for those
    censored at a fixed time and for geometric times. Without an exit the mean and the upper end are infinite.

    Parameters
    ----------
    time : array of float, shape (chains,)
        Steps to the exit, or to the censoring.
    seen : array of bool, shape (chains,)
        Whether the exit was seen.
    level : float

    Returns
    -------
    tuple of float
        Mean, low, high, in steps.
    """
    total, exits = float(np.asarray(time, dtype=np.float64).sum()), int(np.asarray(seen).sum())
    tail = (1 - level) / 2
    low = 2 * total / stats.chi2.ppf(1 - tail, 2 * exits + 2)
    if not exits:
        return np.inf, float(low), np.inf
    return total / exits, float(low), float(2 * total / stats.chi2.ppf(tail, 2 * exits))


def shown_steps(value: float) -> str:
    """A number of steps as a page prints it: ``12,345`` below a million, ``2.0 × 10^15`` above, ``–`` where there is none."""
    if np.isnan(value):
        return "–"
    if not 1e6 <= value < np.inf:
        return f"{value:,.0f}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits} × 10^{int(power)}"


def summarise(model: Conditionals, traps: ArrayLike, times: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Escape times by trap and temperature, beside the exact holding time and the theorem's bound.

    Parameters
    ----------
    model : Conditionals
    traps : array of int, shape (traps, n)
    times : DataFrame
        From `escape_times`.
    level : float
        Of all intervals.

    Returns
    -------
    DataFrame
        Two rows per trap and temperature, ``what`` = ``state`` (first move) and ``basin``: ``trap``, ``temperature``,
        ``replicas``, ``exits``, ``mean``, ``low``, ``high``, ``median``, ``median low``, ``median high`` (see
        `glauber.survival.median`), ``variation``
        (standard deviation over mean where nothing is censored: 1 for exponential times), ``exact`` (``1/q``; of the state
        alone), ``margin`` (nats), ``bound`` (``exp(m / tau) / (|V| - 1)``); times in steps.
    """
    origin = chain.init(model, traps).tokens.cpu().numpy()
    margin = local_margins(model, origin).min(axis=1)
    rows = []
    pairs = times[["trap", "temperature"]].drop_duplicates().sort_values(["trap", "temperature"])
    for trap, tau in zip(pairs["trap"].tolist(), pairs["temperature"].tolist(), strict=True):
        here = times[(times["trap"] == trap) & (times["temperature"] == tau)]
        q = leaving_probability(model, origin[[trap]], tau)[0]
        bound = float(escape_bound(margin[trap], tau, len(model.vocabulary)))
        for what, time, seen in (("state", "first", "moved"), ("basin", "time", "left")):
            t, s = here[time].to_numpy(float), here[seen].to_numpy(bool)
            rows.append(
                (
                    trap, tau, what, len(here), int(s.sum()), *mean_time(t, s, level),
                    *median(t, ~s, level)[:3], float(t.std(ddof=1) / t.mean()) if s.all() and len(t) > 1 else np.nan,
                    1 / q if what == "state" and q > 0 else np.nan, margin[trap], bound,
                )
            )  # fmt: skip
    columns = [
        "trap", "temperature", "what", "replicas", "exits", "mean", "low", "high", "median", "median low", "median high",
        "variation", "exact", "margin", "bound",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def arrhenius(summary: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Effective barrier: the slope of the log mean time against ``1 / tau``.

    Weighted least squares with the number of exits as the weight, since the log of an exponential mean estimated from
    ``d`` exits has variance about ``1/d``. Where the points miss the line by more than that, the interval is widened by
    their scatter and a Student quantile is used; a curve is then being described by a line.

    Parameters
    ----------
    summary : DataFrame
        From `summarise`. Temperatures without an exit are left out.
    level : float

    Returns
    -------
    DataFrame
        ``trap``, ``what``, ``barrier``, ``low``, ``high`` (nats), ``points``, ``exits``, ``chi2`` (per degree of freedom).
        NaN with fewer than two points.
    """
    rows = []
    for (trap, what), group in summary.groupby(["trap", "what"]):
        used = group[group["exits"] > 0]
        x, y, w = (
            1 / used["temperature"].to_numpy(),
            np.log(used["mean"].to_numpy(float)),
            used["exits"].to_numpy(float),
        )
        slope = half = scatter = np.nan
        if len(used) > 1:
            centre, free = np.average(x, weights=w), len(used) - 2
            spread = float((w * (x - centre) ** 2).sum())
            slope = float((w * (x - centre) * y).sum() / spread)
            rest = y - np.average(y, weights=w) - slope * (x - centre)
            scatter = float((w * rest**2).sum() / free) if free else np.nan
            wide = free > 0 and scatter > 1
            quantile = stats.t.ppf((1 + level) / 2, free) if wide else stats.norm.ppf((1 + level) / 2)
            half = float(quantile * np.sqrt((scatter if wide else 1.0) / spread))
        rows.append((trap, what, slope, slope - half, slope + half, len(used), int(used["exits"].sum()), scatter))
    return pd.DataFrame(rows, columns=["trap", "what", "barrier", "low", "high", "points", "exits", "chi2"])
