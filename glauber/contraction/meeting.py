"""Quantiles of meeting times, censored ones included."""

import numpy as np
import pandas as pd
import xarray as xr


def meeting_times(coupled: xr.Dataset, quantiles: tuple[float, float, float] = (0.25, 0.5, 0.75)) -> pd.DataFrame:
    """Median and quartiles of the meeting times of coupled chains, by temperature.

    All groups have the same budget of steps, so a censored time is longer than every observed one, and a quantile is known
    exactly as long as enough groups have met: there the Kaplan-Meier estimate is the empirical quantile. Where too few have
    met it is infinite, which says that it lies above the budget.

    Parameters
    ----------
    coupled : Dataset
        From `glauber.coupling.couple`.
    quantiles : tuple of float

    Returns
    -------
    DataFrame
        ``temperature``, ``low``, ``median``, ``high`` (steps), ``censored`` (share), ``pairs``, ``budget`` (steps).
    """
    time = np.where(coupled["censored"], np.inf, coupled["time"])
    tau = coupled["temperature"].to_numpy()
    rows = []
    for value in np.unique(tau):
        ordered = np.sort(time[tau == value])
        # inverted_cdf: the smallest time by which the share has met, no interpolation between a time and infinity.
        places = np.ceil(np.array(quantiles) * len(ordered)).astype(int) - 1
        rows.append((value, *ordered[np.maximum(places, 0)], np.isinf(ordered).mean(), len(ordered)))
    table = pd.DataFrame(rows, columns=["temperature", "low", "median", "high", "censored", "pairs"])
    return table.assign(budget=coupled.attrs["steps"])
