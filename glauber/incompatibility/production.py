"""Entropy production along chains: one number for how incompatible a model is where its own chain lives."""

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

from ..checks import whole
from ..errors import ParameterError


def entropy_production(trace: xr.Dataset, burn_in: int, level: float = 0.95) -> pd.DataFrame:
    """Mean log ratio per step at each temperature, with a Student interval over chains.

    For a stationary chain it estimates ``sigma = E log [p_i(x'_i | x_-i) / p_i(x_i | x_-i)]``, which is 0 iff the
    conditionals are compatible. For compatible conditionals the sum over a chain telescopes to
    ``log mu(x_T) - log mu(x_0)``, so that a chain of ``T`` steps is off by ``O(1/T)``.

    Parameters
    ----------
    trace : Dataset
        From `glauber.engines`, with independent chains.
    burn_in : int
        Steps left out at the start.
    level : float
        Of the interval.

    Returns
    -------
    DataFrame
        ``temperature``, ``sigma``, ``low``, ``high`` (nats per step), ``changed`` (share of steps that change the token),
        ``chains``, ``steps`` (per chain). With one chain the interval is NaN.
    """
    kept = trace.isel(step=slice(burn_in, None))
    per_chain = kept["log_ratio"].mean("step").to_numpy()
    moved = kept["changed"].mean("step").to_numpy()
    temperature = trace["temperature"].to_numpy()
    rows = []
    for tau in np.unique(temperature):
        here = temperature == tau
        values, count = per_chain[here], int(here.sum())
        rows.append((float(tau), *_student(values, level), float(moved[here].mean()), count, kept.sizes["step"]))
    return pd.DataFrame(rows, columns=["temperature", "sigma", "low", "high", "changed", "chains", "steps"])


def production_windows(trace: xr.Dataset, windows: int, level: float = 0.95) -> pd.DataFrame:
    """Entropy production in equal windows of a run, one after the other: what still falls is not yet stationary.

    Parameters
    ----------
    trace : Dataset
        From `glauber.engines`, with independent chains.
    windows : int
        Their number, at least 2; steps left over at the start belong to none.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        ``temperature``, ``window``, ``first``, ``last`` (steps), ``sigma``, ``low``, ``high`` (nats per step, Student's interval
        over chains, NaN for one chain), ``change``, ``change_low``, ``change_high``: ``sigma`` less that of the window
        before, paired by chain (NaN for the first window), ``chains``.

    Raises
    ------
    ParameterError
        If there are fewer than 2 windows, or more than steps.
    """
    steps = trace.sizes["step"]
    windows = whole("windows", windows, 2)
    if windows > steps:
        raise ParameterError(f"windows = {windows} and steps = {steps}: give no more windows than steps")
    size = steps // windows
    kept = trace["log_ratio"].transpose("chain", "step").to_numpy()[:, steps - size * windows :]
    means = kept.reshape(len(kept), windows, size).mean(axis=2)
    rows = []
    for tau in np.unique(trace["temperature"].to_numpy()):
        here = means[trace["temperature"].to_numpy() == tau]
        change = np.diff(here, axis=1, prepend=np.nan)
        for w in range(windows):
            first = int(trace["step"].to_numpy()[0]) + steps - size * (windows - w)
            rows.append(
                (
                    float(tau),
                    w,
                    first,
                    first + size - 1,
                    *_student(here[:, w], level),
                    *_student(change[:, w], level),
                    len(here),
                )
            )
    columns = [
        "temperature",
        "window",
        "first",
        "last",
        "sigma",
        "low",
        "high",
        "change",
        "change_low",
        "change_high",
        "chains",
    ]
    return pd.DataFrame(rows, columns=columns)


def trend(windows: pd.DataFrame) -> str:
    """What the last change of a table of windows says, in words, temperatures taken together by Holm's rule at 5 %.

    Parameters
    ----------
    windows : DataFrame
        From `production_windows`, with 95 % intervals.
    """
    last = windows[windows["window"] == windows["window"].max()]
    if last["change_low"].isna().any():
        return "one chain has no interval, so that no trend can be told"
    half = (last["change_high"] - last["change_low"]) / 2
    free = last["chains"] - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (last["change"] / (half / stats.t.ppf(0.975, free))).fillna(0.0)
    p = 2 * stats.t.sf(np.abs(t), free)
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    moved = last.iloc[np.sort(order[steps < 0.05])]
    if moved.empty:
        return "between the last two windows no temperature shows a change that the spread over chains does not explain"
    told = [
        f"{'falls' if row['change'] < 0 else 'rises'} at τ = {row['temperature']:g} by {abs(row['change']):.2g} nats per step"
        for _, row in moved.iterrows()
    ]
    return f"between the last two windows it still {', '.join(told)}, so that the chains are not stationary there"


def _student(values: NDArray[np.float64], level: float) -> tuple[float, float, float]:
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values) if len(values) > 1 else np.nan
    mean = float(values.mean())
    return mean, mean - half, mean + half
