"""Waiting times of which some are only known to be longer than the run: right-censored, by Kaplan and Meier's estimate."""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def kaplan_meier(time: ArrayLike, censored: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Estimate of ``P(T > t)`` with pointwise log-log intervals.

    Parameters
    ----------
    time : array, shape (count,)
        Waiting times; where censored, the time until which nothing had happened.
    censored : array of bool, shape (count,)
    level : float

    Returns
    -------
    DataFrame
        ``time``, ``survival``, ``low``, ``high``, one row per distinct time. Where no one or everyone is left the log-log
        interval is undefined, and its limits are NaN.
    """
    times, cut = np.asarray(time, dtype=np.float64), np.asarray(censored, dtype=bool)
    survival = stats.ecdf(stats.CensoredData(uncensored=times[~cut], right=times[cut])).sf
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # says what the docstring says of the ends
        limits = survival.confidence_interval(level, method="log-log")
    return pd.DataFrame(
        {
            "time": survival.quantiles,
            "survival": survival.probabilities,
            "low": limits.low.probabilities,
            "high": limits.high.probabilities,
        }
    )


def medians(times: pd.DataFrame, by: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """Kaplan-Meier medians with Brookmeyer-Crowley intervals, by group.

    Parameters
    ----------
    times : DataFrame
        ``time`` (steps) and ``censored``, one row per run, and the columns ``by``.
    by : sequence of str
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        The columns ``by``, then ``median``, ``low``, ``high`` (steps), ``censored`` (share), ``count`` (runs) and ``budget``
        (steps, the longest time seen: the budget where runs are censored). A median or a limit that lies above the budget is infinite: nothing more is known.
    """
    rows = []
    for key, group in times.groupby(list(by)):
        curve = kaplan_meier(group["time"], group["censored"], level)
        at = [_first(curve["time"], curve[column]) for column in ("survival", "low", "high")]
        values = (*at, group["censored"].mean(), len(group), group["time"].max())
        rows.append((*(key if isinstance(key, tuple) else (key,)), *values))
    return pd.DataFrame(rows, columns=[*by, "median", "low", "high", "censored", "count", "budget"])


def _first(time: "pd.Series[float]", level: "pd.Series[float]") -> float:
    """First time at which a survival curve is at one half or below; a NaN, as at the ends of an interval, is not."""
    below: NDArray[np.bool_] = level.to_numpy() <= 0.5
    return float(time.to_numpy()[below.argmax()]) if below.any() else np.inf
