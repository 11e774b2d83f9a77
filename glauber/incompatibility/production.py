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
    """Entropy production in equal windows of a run, one after the other.

    Parameters
    ----------
    trace : Dataset
        From `glauber.engines`, with independent chains.
    windows : int
        Their number; steps left over at the start belong to none.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        ``temperature``, ``window``, ``first``, ``last`` (steps), ``sigma``, ``low``, ``high`` (nats per step, Student's interval
        over chains, NaN for one chain), ``chains``.

    Raises
    ------
    ParameterError
        If there are more windows than steps.
    """
    steps = trace.sizes["step"]
    windows = whole("windows", windows)
    if windows > steps:
        raise ParameterError(f"windows = {windows} and steps = {steps}: give no more windows than steps")
    size = steps // windows
    means = _by_chain(trace, steps - size * windows).reshape(trace.sizes["chain"], windows, size).mean(axis=2)
    tau, start = trace["temperature"].to_numpy(), int(trace["step"].to_numpy()[0])
    rows = []
    for t in np.unique(tau):
        here = means[tau == t]
        for w in range(windows):
            first = start + steps - size * (windows - w)
            rows.append((float(t), w, first, first + size - 1, *_student(here[:, w], level), len(here)))
    return pd.DataFrame(rows, columns=["temperature", "window", "first", "last", "sigma", "low", "high", "chains"])


def production_trend(trace: xr.Dataset, burn_in: int, level: float = 0.95) -> pd.DataFrame:
    """Whether the production still changes after the burn-in: its second half less its first, paired by chain.

    Returns
    -------
    DataFrame
        ``temperature``, ``change``, ``low``, ``high`` (nats per step, Student's interval over chains), ``p_value`` (of no change, adjusted for the
        number of temperatures by Benjamini and Hochberg's rule), ``chains``. With one chain the last are NaN.
    """
    kept = _by_chain(trace, burn_in)
    half = kept.shape[1] // 2
    change = kept[:, -half:].mean(axis=1) - kept[:, :half].mean(axis=1)
    tau = trace["temperature"].to_numpy()
    groups = [change[tau == t] for t in np.unique(tau)]
    table = pd.DataFrame([_student(g, level) for g in groups], columns=["change", "low", "high"])
    p = np.full(len(groups), np.nan)
    if min(len(g) for g in groups) > 1:
        # Chains that all change by the same have no spread, and those that all stay as they are no change.
        p = np.array(
            [1.0 if not g.any() else 0.0 if np.ptp(g) == 0 else stats.ttest_1samp(g, 0).pvalue for g in groups]
        )
        p = stats.false_discovery_control(p)
    return table.assign(temperature=np.unique(tau), p_value=p, chains=[len(g) for g in groups])


def trend(table: pd.DataFrame) -> str:
    """What `production_trend` says at the level of 5 %, in words."""
    if table["p_value"].isna().any():
        return "one chain has no interval, so that no trend can be told"
    moved = table[table["p_value"] < 0.05]
    if moved.empty:
        return "from the first to the second half of what is kept no temperature shows a change that the spread over chains does not explain"
    told = [
        f"{'falls' if row['change'] < 0 else 'rises'} by {abs(row['change']):.2g} nats per step at τ = {row['temperature']:g}"
        for _, row in moved.iterrows()
    ]
    return f"from the first to the second half of what is kept it {', '.join(told)}, so that the chains are not stationary there"


def _by_chain(trace: xr.Dataset, burn_in: int) -> NDArray[np.float64]:
    return np.asarray(trace["log_ratio"].transpose("chain", "step").to_numpy()[:, burn_in:], dtype=np.float64)


def _student(values: NDArray[np.float64], level: float) -> tuple[float, float, float]:
    half = stats.t.ppf((1 + level) / 2, len(values) - 1) * stats.sem(values) if len(values) > 1 else np.nan
    mean = float(values.mean())
    return mean, mean - half, mean + half
