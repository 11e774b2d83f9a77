"""Entropy production along chains: one number for how incompatible a model is where its own chain lives."""

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats


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
        half = np.nan
        if count > 1:
            half = stats.t.ppf((1 + level) / 2, count - 1) * stats.sem(values)
        mean = float(values.mean())
        rows.append((float(tau), mean, mean - half, mean + half, float(moved[here].mean()), count, kept.sizes["step"]))
    return pd.DataFrame(rows, columns=["temperature", "sigma", "low", "high", "changed", "chains", "steps"])
